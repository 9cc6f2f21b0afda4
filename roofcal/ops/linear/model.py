"""The parts of a linear layer: its matrix products and the casts of its tensors.

y[M,N] = x[M,K] @ w[N,K].T has up to three products, every one C[m,n] = A[m,k] @ B[n,k].T:

    output        m=M, n=N, k=K     x @ w.T
    grad_input    m=M, n=K, k=N     grad_out @ w
    grad_weight   m=N, n=K, k=M     grad_out.T @ x

`forward` has the first, `forward_backward` all three. One product reads a tensor along its rows,
another along its columns, each with the granularity of scales that the recipe asks of it:

                along its rows     along its columns
    x           output             grad_weight
    w           output             grad_input
    grad_out    grad_input         grad_weight

_OUR_CASTS says what kernels.linear casts for such a pair, and _TORCHAO_CASTS where torchao's float8
training casts otherwise; docs/models.md compares the two, and says what is left out.

Any model of time predicts the op: the sum of its products and casts. Products are the library's,
for provider `triton_products` too. Products in blocks are ours, because no other linear multiplies
in blocks. The datasheet's model answers by the least work of the whole op. A point without a
provider is answered for our kernels, or for torchao where the model does not know our casts.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

import numpy as np

from roofcal.core.recipes import WEIGHT_ONLY_RECIPES
from roofcal.core.records import PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.ops.constants import OpPage
from roofcal.ops.linear import spec
from roofcal.ops.predictions import TimesAndParts, predict_groups, sizes_of
from roofcal.ops.spec import OpSpec
from roofcal.ops.time_models import (
    Model,
    Sources,
    cast_times,
    moving_times,
    product_times,
    scaled_times,
    sum_of_times,
)

Passes = Literal["forward", "forward_backward"]
Casts = Literal["fastest", "none", "torch_compile", "torch_eager", "triton"]
Weights = Literal["cached", "cast"]
Fills = Literal["", "copied", "fused"]
PASSES: Final[tuple[Passes, ...]] = ("forward", "forward_backward")
FASTEST: Final = "fastest"
CASTS: Final[tuple[Casts, ...]] = ("none", "torch_compile", "torch_eager", "triton")

# product -> its m, n and k, and tensor -> its rows and columns, in terms of those of the linear
PRODUCTS: Final = {"output": "mnk", "grad_input": "mkn", "grad_weight": "nkm"}
TENSORS: Final = {"x": "mk", "w": "nk", "grad_out": "mn"}
UNCAST: Final = ("bf16", "fp32")  # recipes whose products take the tensors as they are
BF16_GRAD_WEIGHT: Final = "fp8_axiswise_bf16_grad_weight"
BLOCKS: Final = "fp8_blockwise_128x128"
OURS: Final = ("triton", "triton_products")  # providers that cast as _OUR_CASTS says
_SLOW: Final = "_slow_accum"
_ACCUMULATION: Final = {"fast": "", "two_level": _SLOW}

_TENSORWISE: Final = "fp8_tensorwise"
_DIM0: Final = "fp8_rowwise_dim0"
_DIM1: Final = "fp8_rowwise_dim1"
_STRIPS: Final = "fp8_blockwise_1x128"
_STRIPS_DIM1: Final = "fp8_blockwise_1x128_dim1"
# granularity along the rows of a tensor -> recipe of op cast; squares: blocks of w
_BY_ROWS: Final = {
    "tensorwise": _TENSORWISE,
    "axiswise": _DIM0,
    "blockwise": _STRIPS,
    "squares": BLOCKS,
}
# granularity along its columns -> recipes of op cast beside the cast along its rows
_BY_COLUMNS: Final = {
    "tensorwise": (_TENSORWISE,),
    "axiswise": (_DIM1,),
    "blockwise": (_STRIPS_DIM1,),
    "squares": (BLOCKS, _STRIPS_DIM1),
}
# (along rows, along columns) -> recipes of op cast, where they serve both. Of two along the rows
# the second takes its scale from those of the first, and is one pass: it reduces no columns.
_ANY_CASTS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("tensorwise", "tensorwise"): (_TENSORWISE,),
    ("axiswise", "tensorwise"): (_DIM0, _DIM0),
}
_BY_BOTH: Final = {("axiswise", "axiswise"): ("fp8_rowwise_both",)}
_OUR_CASTS: Final = {**_ANY_CASTS, **_BY_BOTH, ("squares", "squares"): (BLOCKS,)}
_TORCHAO_CASTS: Final = {**_ANY_CASTS, **_BY_BOTH}
_TORCHAO_WEIGHT_CASTS: Final = {**_ANY_CASTS, ("squares", "squares"): (BLOCKS, BLOCKS)}
# A tensorwise w is cast along its columns in the backward pass (kernels.linear.layer: saves), by
# the scale that is known: one pass more, as of a second cast along the rows.
_CAST_LATER: Final = ("w", ("tensorwise", "tensorwise"))
_OUR_LATER: Final = (_TENSORWISE, _DIM0)
# Pairs whose cast writes its values transposed too (kernels.cast.both_ways).
_OUR_TRANSPOSED: Final = (("tensorwise", "tensorwise"), ("squares", "squares"))
# A byte that is stored transposed takes as long as 1.5 of those that our cast along the rows moves,
# 3 an element. kernels.cast.hopper.both_ways has the times on an H200 that say so: 57.5 and 112 us
# tensorwise, 40.3 and 77.0 in squares (16384 x 2048 and 8192^2), where this makes 56.2, 110, 42.6
# and 74.8.
TRANSPOSED: Final = _DIM0
TRANSPOSED_SHARE: Final = 0.5
# What products and casts take between the other parts of forward and backward, of what they take
# alone: parts read what those before have left in the cache, which saves time and, at the power
# limit, energy. Beside ten linears on an H100 (docs/layers/corpus_parts, `spot_checks.py parts`),
# the sum of the parts is 3.6 % longer in bf16 and 5.0 % in axiswise fp8. Published linears of
# studies, at the power limit, take nearly the sum of their parts, those of judges less. On all of
# them 0.98 is off by least (`python -m tools.linear_shares`: 3.2 %, bias -0.2 %; 0.97 and 0.99: 3.3
# %). A share of products, one of casts and a start of each cast predict them no better.
PARTS_SHARE: Final = 0.98
# Half of the 95 % interval of such a sum where all parts are known, as a fraction of it. Of
# torchao's it is twice the root mean square over 18 linears between a norm and a sigmoid on an H200
# (the same command): Inductor fuses their casts with what is beside them, or leaves them apart.
_SUM_ERROR: Final = 0.045
_TORCHAO_SUM_ERROR: Final = 0.27


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """Which parts of a linear are timed.

    recipe    of op gemm, or BF16_GRAD_WEIGHT
    casts     the provider of op cast that casts; none: the products alone; FASTEST: whoever is
              fastest, which ask.linear_options finds out
    weights   whether they are cast in every pass, or were before; without effect if casts is none
    """

    recipe: str
    passes: Passes = "forward"
    casts: Casts
    weights: Weights = "cached"


class LinearParts(NamedTuple):
    """What the time of a linear is the sum of.

    products   product -> its recipe of op gemm
    casts_by   the provider of the casts
    casts      (tensor, recipe of op cast) of every cast
    transposed tensors whose cast stores its values transposed, too: TRANSPOSED_SHARE of what the
               cast TRANSPOSED moves, without its start
    fills      how rows of x and grad_out become a multiple of 16 (kernels.linear.layer.filled_up):
               "copied" by kernels of their own, or "fused" to the pass that finds the amax
    sum_error  half of the 95 % interval of their sum where all are known, as a fraction of it
    """

    products: Mapping[str, str]
    casts_by: str
    casts: list[tuple[str, str]]
    transposed: Sequence[str] = ()
    fills: Fills = ""
    sum_error: float = _SUM_ERROR


def is_made_of_linears(op: OpSpec) -> bool:
    """Whether the recipes of an op are those of op linear, written-down ones too."""
    return op.written_recipe is spec.written_recipe


def usual_weights(passes: Passes) -> Weights:
    """cast for training, where weights change in every step; cached for inference."""
    return "cast" if passes == "forward_backward" else "cached"


def has_casts(recipe: str) -> bool:
    """Whether it is known what torchao casts for a linear of the recipe."""
    name = recipe.removesuffix(_SLOW)
    return name in spec.RECIPES and name != "mxfp8"


def serves_linears(recipe: str) -> bool:
    """Whether a linear can be made of products of a recipe: without casts, or with known ones.

    Only these recipes can be called the fastest: of int8, only the products are known.
    """
    return recipe in UNCAST or recipe in WEIGHT_ONLY_RECIPES or has_casts(recipe)


def product_recipes(recipe: str, passes: Passes) -> dict[str, str]:
    """Product of the linear -> its recipe of op gemm.

    recipe: of op linear, or one of op gemm that all products have. Raises KeyError for a recipe of
    op linear with a product that op gemm does not have.
    """
    names = spec.OUTPUTS if passes == "forward_backward" else spec.OUTPUTS[:1]
    try:
        products = spec.recipe(recipe).products
    except KeyError:
        return dict.fromkeys(names, recipe)
    recipes = {}
    for name in names:
        product = products[name]
        granularities = {product.a, product.b}
        if not product.is_fp8:
            recipes[name] = "bf16"
        elif granularities == {"blockwise"}:
            recipes[name] = BLOCKS
        elif granularities <= {"tensorwise", "axiswise"}:
            kind = "tensorwise" if granularities == {"tensorwise"} else "axiswise"
            recipes[name] = f"fp8_{kind}{_ACCUMULATION[product.summed]}"
        else:
            raise KeyError(recipe)
    return recipes


def cast_recipes(linear: Linear) -> list[tuple[str, str]]:
    """(tensor, recipe of op cast) of every cast of torchao; KeyError unless has_casts(recipe)."""
    if linear.casts == "none":
        return []
    if not has_casts(linear.recipe):
        raise KeyError(linear.recipe)
    return [
        (tensor, cast)
        for tensor, ends in _granularities(linear.recipe.removesuffix(_SLOW), linear.passes).items()
        if tensor != "w" or linear.weights == "cast"
        for cast in _casts(ends, _TORCHAO_WEIGHT_CASTS if tensor == "w" else _TORCHAO_CASTS)
    ]


def parts_of(provider: str, recipe: str) -> LinearParts:
    """What a linear, forward and backward, of a provider of op linear consists of.

    Raises KeyError for what has no such parts: recipes in mxfp8, whose products nobody has,
    blockwise by torchao, whose casts there are kernels of its own, and `torch_cpu`, whose autograd
    takes 0.1 ms beside the products (half of a bf16 linear of 128 cubed) that no probe measures.
    """
    if provider == "torch_cpu":
        raise KeyError(f"{provider} {recipe}")
    if recipe == "bf16":
        return LinearParts(product_recipes(recipe, "forward_backward"), "none", [])
    if provider in OURS:
        products = product_recipes(recipe, "forward_backward")
        ends = _granularities(recipe, "forward_backward").items()
        casts, transposed = [], []
        for tensor, pair in ends:
            is_later = (tensor, pair) == _CAST_LATER
            names = _OUR_LATER if is_later else _casts(pair, _OUR_CASTS)
            casts += [(tensor, name) for name in names]
            if pair in _OUR_TRANSPOSED and not is_later:
                transposed.append(tensor)
        fills: Fills = "fused" if "x" in transposed else "copied"
        is_fp8 = products["grad_weight"] != "bf16"
        return LinearParts(products, "triton", casts, transposed, fills if is_fp8 else "")
    if provider != "torchao" or not has_casts(recipe) or recipe == BLOCKS:
        raise KeyError(f"{provider} {recipe}")
    parts = _torchao_parts(
        Linear(recipe=recipe, passes="forward_backward", casts="torch_compile", weights="cast")
    )
    return parts._replace(sum_error=_TORCHAO_SUM_ERROR)


def _torchao_parts(linear: Linear) -> LinearParts:
    """Raises KeyError for a product or casts that a linear has and nobody knows."""
    products = product_recipes(linear.recipe, linear.passes)
    return LinearParts(products, linear.casts, cast_recipes(linear))


def _granularities(recipe: str, passes: Passes) -> dict[str, tuple[str, str]]:
    """Tensor -> granularity of its scales along its rows and along its columns."""
    linear = spec.recipe(recipe)
    output, grad_input, grad_weight = linear.output, linear.grad_input, linear.grad_weight
    weight = {"blockwise": "squares"}  # the scales of w are per 128 x 128
    w = [weight.get(product.b, product.b) for product in (output, grad_input)]
    if passes == "forward":
        return {"x": (output.a, "none"), "w": (w[0], "none")}
    return {
        "x": (output.a, grad_weight.b),
        "w": (w[0], w[1]),
        "grad_out": (grad_input.a, grad_weight.a),
    }


def _casts(
    ends: tuple[str, str], of_both: Mapping[tuple[str, str], tuple[str, ...]]
) -> tuple[str, ...]:
    """Recipes of op cast for a tensor: those that serve both ends, else one after the other."""
    rows, columns = ends
    by_rows = (_BY_ROWS[rows],) if rows in _BY_ROWS else ()
    return of_both.get(ends) or (*by_rows, *_BY_COLUMNS.get(columns, ()))


_BF16_ROW: Final = 8  # elements in 16 bytes
_FILLED_ROWS: Final = 16
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
    return times_of_parts(model, sources, _torchao_parts(linear), (m, n, k))


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
    m, missing = sizes[0], -sizes[0] % _FILLED_ROWS if parts.fills else np.zeros_like(sizes[0])
    sizes = (m + missing, *sizes[1:])
    of_linear = dict(zip("mnk", sizes, strict=True))
    shapes = {name: [of_linear[axis] for axis in axes] for name, axes in TENSORS.items()}
    times = {
        name: product_times(
            model, sources, multipliers.get(recipe, ""), recipe, product_sides(name, recipe, sizes)
        )
        for name, recipe in parts.products.items()
    }
    passes: Passes = "forward_backward" if len(parts.products) == len(PRODUCTS) else "forward"
    share = share_beside_others(model, passes)
    times = {name: scaled_times(alone, share) for name, alone in times.items()}
    casts = {
        f"{i}": scaled_times(
            cast_times(model, sources, parts.casts_by, recipe, *shapes[tensor]), share
        )
        for i, (tensor, recipe) in enumerate(parts.casts)
    }
    casts |= {
        f"{tensor} transposed": scaled_times(
            moving_times(model, sources, parts.casts_by, TRANSPOSED, *shapes[tensor]),
            TRANSPOSED_SHARE * share,
        )
        for tensor in parts.transposed
    }
    if missing.any():
        filled = _filling_times(model, sources, parts, shapes)
        casts["filling"] = scaled_times(filled, share * np.sign(missing))
    whole = sum_of_times(times | {"casts": sum_of_times(casts)} if casts else times)
    alone = [*times.values(), *casts.values()]
    return with_independent_ends(model, passes, whole, alone, parts.sum_error)


def with_independent_ends(
    model: Model,
    passes: Passes,
    whole: Times,
    parts: Sequence[Times],
    sum_error: float = _SUM_ERROR,
) -> Times:
    """The sum `whole` of the parts of a linear, which take so long between each other.

    Parts of forward and backward err independently: their half-widths add as squares, with what the
    sum errs by itself. Ends of all other sums add, see roofcal.core.times.
    """
    is_apart = len(parts) == 1 or not _knows_parts_alone(model, passes)
    if is_apart or whole.low is None or whole.high is None:
        return whole
    of_sum = (sum_error * whole.total) ** 2
    below = [(part.total - part.low) ** 2 for part in parts if part.low is not None]
    above = [(part.high - part.total) ** 2 for part in parts if part.high is not None]
    return replace(
        whole,
        low=whole.total - np.sqrt(sum(below, of_sum)),
        high=whole.total + np.sqrt(sum(above, of_sum)),
    )


def share_beside_others(model: Model, passes: Passes) -> float:
    """What a part of a linear takes between the others, of its time alone.

    Forward alone was not measured beside its parts: 1, as by models that do not know of parts
    alone.
    """
    return PARTS_SHARE if _knows_parts_alone(model, passes) else 1.0


def _knows_parts_alone(model: Model, passes: Passes) -> bool:
    """Whether a model's times of parts are of parts alone, and measured sums can correct them."""
    return passes == "forward_backward" and bool(getattr(model, "PARTS_ALONE", False))


def _filling_times(
    model: Model, sources: Sources, parts: LinearParts, shapes: Mapping[str, list[Array]]
) -> Times:
    """Seconds to fill up rows of x and grad_out, and to cut those of grad_input.

    A copy reads and writes 2 bytes an element, and a fused one writes them, at the speed of our
    cast along the rows, which moves 3; a copy starts a kernel too.
    """
    times = {}
    for name, tensor in {"x": "x", "grad_out": "grad_out", "grad_input": "x"}.items():
        rows, cols = shapes[tensor]
        is_fused = parts.fills == "fused" and name != "grad_input"
        moving = moving_times(model, sources, parts.casts_by, TRANSPOSED, rows, cols)
        times[name] = scaled_times(moving, 2 / 3 if is_fused else 1 / 3)
        if not is_fused:
            # a start and 3 bytes more
            copied = cast_times(model, sources, parts.casts_by, TRANSPOSED, rows, cols)
            times[f"{name} copied"] = copied
    return sum_of_times(times)


def product_sides(name: str, recipe: str, sizes: tuple[Array, Array, Array]) -> list[Array]:
    """Sides (m, n, k) of a product of a linear, as the library has to load them.

    Autograd hands it both operands of a bf16 grad_weight as they lie: rows along N and K, which
    begin on 16 bytes whatever the number of tokens is. A linear of 15,115 tokens takes 10.3 ms on
    an H100, where a sum over rows off 16 bytes would make it three times as long.
    """
    of_linear = dict(zip("mnk", sizes, strict=True))
    sides = [of_linear[axis] for axis in PRODUCTS[name]]
    if name == "grad_weight" and recipe == "bf16":
        sides[2] = np.ceil(sides[2] / _BF16_ROW) * _BF16_ROW
    return sides


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
    model: Model, points: Sequence[PlanPoint], sources: Sources, more: MoreTimes | None = None
) -> list[Prediction]:
    """A prediction per point whose products and casts the model knows.

    more: seconds of what an op has beside the parts of a linear.
    """

    def answer(provider: str, members: Sequence[PlanPoint]) -> TimesAndParts | None:
        m, n, k = sizes_of(members, "mnk")
        try:
            parts = parts_of(provider, members[0].recipe)
            times = times_of_parts(model, sources, parts, (m, n, k), _MULTIPLIERS)
            beside = more(model, sources, m, n, k) if more else None
        except KeyError:  # a product or cast that the model does not know
            return None
        if beside:
            both = sum_of_times({"linear": times, "passes": beside})
            bound_by = np.where(beside.total > times.total, "passes", times.bound_by).tolist()
            times = replace(both, bound_by=bound_by)
        return TimesAndParts(times)

    return predict_groups(points, model.MODEL, _providers, answer, only_first=True)


def _providers(point: PlanPoint) -> tuple[str, ...]:
    return (point.provider,) if point.provider else _ANY_PROVIDER


def why_unanswered(model: Model, point: PlanPoint, sources: Sources) -> str:
    """Which product or cast of a linear a model does not know, by each provider that it tried."""
    reasons = (_missing_part(model, (name, point.recipe), sources) for name in _providers(point))
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


PAGE = OpPage(
    meaning="forward and backward of y = x wᵀ: three products and their casts",
    title="Linears",
    time_includes="Times are those of forward and backward, and include the casts of x, w and the "
    "gradient of y.",
    time_note="with casts",
    colours={
        "bf16": "blue",
        "fp8_tensorwise": "vermillion",
        "fp8_axiswise": "green",
        "fp8_axiswise_bf16_grad_weight": "sky",
        "fp8_blockwise_128x128": "ink",
        "mxfp8": "purple",
    },
    markers={
        "bf16_compile": "o",
        "triton": "^",
        "triton_products": "<",
        "triton_inputs": ">",
        "torchao": "X",
        "torch_cpu": "o",
    },
)
