"""Linears by any model of time: the sum of their products and casts, see the model beside.

Products are the library's, for provider `triton_products` too. Products in blocks are ours, because
no other linear multiplies in blocks. The datasheet's model answers by the least work of the whole
op. A point without a provider is answered for our kernels, or for torchao where the model does not
know our casts.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import numpy as np

from roofcal.core.records import PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.ops.linear.model import (
    BLOCKS,
    CASTS,
    TRANSPOSED,
    TRANSPOSED_SHARE,
    Casts,
    Linear,
    LinearParts,
    cast_recipes,
    parts_of,
    product_recipes,
)
from roofcal.ops.predictions import Answer, predictions_of, sizes_of
from roofcal.ops.time_models import (
    Model,
    Sources,
    cast_times,
    moving_times,
    product_times,
    scaled_times,
    sum_of_times,
)

_ANY_PROVIDER: Final = ("triton", "torchao")  # tried in turn for a point without a provider
_MULTIPLIERS: Final = {BLOCKS: "triton"}
# (model, sources, m, n, k) -> seconds; raises KeyError for what the model does not know
MoreTimes = Callable[[Model, Sources, Array, Array, Array], Times]


def linear_times(
    model: Model, sources: Sources, linear: Linear, m: Array, n: Array, k: Array
) -> Times:
    """Seconds of y[M,N] = x[M,K] @ w[N,K].T, vectors of M, N and K.

    bound_by is `output`, `grad_input`, `grad_weight` or `casts`. Raises KeyError for a product or a
    cast that the model does not know.
    """
    parts = LinearParts(
        products=product_recipes(linear.recipe, linear.passes),
        casts_by=linear.casts,
        casts=cast_recipes(linear),
    )
    return times_of_parts(model, sources, parts, (m, n, k))


def times_of_parts(
    model: Model,
    sources: Sources,
    parts: LinearParts,
    sizes: tuple[Array, Array, Array],
    multipliers: Mapping[str, str] = MappingProxyType({}),
) -> Times:
    """Seconds of products and casts, as linear_times.

    multipliers: recipe of op gemm -> provider of its products, where it is not the model's default.
    """
    m, n, k = sizes
    sides = {"output": (m, n, k), "grad_input": (m, k, n), "grad_weight": (n, k, m)}
    times = {
        name: product_times(model, sources, multipliers.get(recipe, ""), recipe, sides[name])
        for name, recipe in parts.products.items()
    }
    shapes = {"x": (m, k), "w": (n, k), "grad_out": (m, n)}
    casts = {
        f"{i}": cast_times(model, sources, parts.casts_by, recipe, *shapes[tensor])
        for i, (tensor, recipe) in enumerate(parts.casts)
    }
    casts |= {
        f"{tensor} transposed": scaled_times(
            moving_times(model, sources, parts.casts_by, TRANSPOSED, *shapes[tensor]),
            TRANSPOSED_SHARE,
        )
        for tensor in parts.transposed
    }
    return sum_of_times(times | {"casts": sum_of_times(casts)} if casts else times)


def cast_providers(model: Model, sources: Sources, linear: Linear) -> list[Casts]:
    """Providers, of CASTS, by which a model knows all that a linear casts."""
    recipes = dict.fromkeys(recipe for _, recipe in cast_recipes(replace(linear, casts=CASTS[1])))
    providers, side = [], np.array([1024.0])
    for provider in CASTS[1:]:
        with suppress(KeyError):  # raised for a cast that the model does not know
            for recipe in recipes:
                cast_times(model, sources, provider, recipe, side, side)
            providers.append(provider)
    return providers


def predict_composed(
    model: Model, points: Sequence[PlanPoint], sources: Sources
) -> list[Prediction]:
    """A prediction per point of op linear whose products and casts the model knows."""
    return predict_groups(model, points, sources)


def predict_groups(
    model: Model, points: Sequence[PlanPoint], sources: Sources, more: MoreTimes | None = None
) -> list[Prediction]:
    """As predict_composed; more: seconds of what an op has beside the parts of a linear."""
    groups: dict[tuple[str, str], list[PlanPoint]] = {}
    for point in points:
        groups.setdefault((point.provider, point.recipe), []).append(point)
    predictions: list[Prediction] = []
    for (provider, recipe), members in groups.items():
        for candidate in (provider,) if provider else _ANY_PROVIDER:
            answers = _predict_group(model, (candidate, recipe), members, sources, more)
            predictions += answers
            if answers:
                break
    return predictions


def why_unanswered(model: Model, point: PlanPoint, sources: Sources) -> str:
    """Which product or cast of a linear a model does not know, by each provider that it tried."""
    providers = (point.provider,) if point.provider else _ANY_PROVIDER
    reasons = (_missing_part(model, (name, point.recipe), sources) for name in providers)
    return "; ".join(dict.fromkeys(reasons))


def _missing_part(model: Model, pair: tuple[str, str], sources: Sources) -> str:
    provider, recipe = pair
    try:
        parts = parts_of(*pair)
    except KeyError:
        return f"no model knows which products and casts a linear in {recipe} by {provider} has"
    recipes, side = model.product_recipes(sources), np.array([1024.0])
    products = sorted(set(parts.products.values()) - set(recipes))
    if products:
        return f"it knows no products in {', '.join(products)} there, which such a linear has"
    casts = [cast for _, cast in parts.casts] + ([TRANSPOSED] if parts.transposed else [])
    for cast in casts:
        try:
            cast_times(model, sources, parts.casts_by, cast, side, side)
        except KeyError:
            return f"it knows no casts {cast} by {parts.casts_by} there, which such a linear has"
    return f"it lacks a product of {provider} in {recipe} there, which such a linear has"


def _predict_group(
    model: Model,
    pair: tuple[str, str],
    points: Sequence[PlanPoint],
    sources: Sources,
    more: MoreTimes | None,
) -> list[Prediction]:
    m, n, k = sizes_of(points, "mnk")
    try:
        times = times_of_parts(model, sources, parts_of(*pair), (m, n, k), _MULTIPLIERS)
        if more:
            beside = more(model, sources, m, n, k)
            both = sum_of_times({"linear": times, "passes": beside})
            bound_by = np.where(beside.total > times.total, "passes", times.bound_by).tolist()
            times = replace(both, bound_by=bound_by)
    except KeyError:  # a product or cast that the model does not know
        return []
    return predictions_of(points, model.MODEL, Answer(times=times, parts={}))
