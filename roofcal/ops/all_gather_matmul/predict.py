"""All-gather and product by models that know a link; equations: the model beside.

The model predicts the products, those of the library where it tells providers apart, and the link.
Both are times in a captured graph: launches from the host are not counted. The datasheet's model
answers by itself, torchao's for the product alone. The ends of an interval are the times with all
parts at the fast, and with all parts at the slow ends of theirs. On a CPU the ranks share the cores
that the constants of products were fitted on, so products are predicted faster than they are. A
point without a provider is answered for the fastest one that takes its shape, bounds left out.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from roofcal.core.environments import CALIBRATED
from roofcal.core.records import PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.ops.all_gather_matmul import spec
from roofcal.ops.all_gather_matmul.model import evaluate, pieces
from roofcal.ops.gemm import predict as gemm
from roofcal.ops.predictions import Answer, predictions_of, sizes_of
from roofcal.ops.probe_link.model import NO_LINK, Fabrics
from roofcal.ops.probe_link.predict import calibrated_world_sizes
from roofcal.ops.time_models import KnowsLinks, Model, Sources, product_times


def predict_composed(
    model: Model, points: Sequence[PlanPoint], sources: Sources
) -> list[Prediction]:
    """A prediction per point of several devices that the model can answer."""
    groups: dict[tuple[tuple[str, ...], str, int], list[PlanPoint]] = {}
    for point in points:
        if point.world_size > 1:
            key = (_candidates(point), point.recipe, point.world_size)
            groups.setdefault(key, []).append(point)
    predictions: list[Prediction] = []
    for (candidates, _, _), members in groups.items():
        answers = [_predict_group(model, name, members, sources) for name in candidates]
        answered = [answer for answer in answers if answer]
        predictions += (
            min(alternatives, key=lambda prediction: prediction.total_s)
            for alternatives in zip(*answered, strict=True)
        )
    return predictions


def _candidates(point: PlanPoint) -> tuple[str, ...]:
    """The provider of a point; without one, all that gather and multiply and take the shape."""
    if point.provider:
        return (point.provider,)
    return tuple(
        provider
        for provider in spec.OP.every_provider
        if provider not in spec.BOUNDS and spec.OP.takes(provider, point.recipe, point.shape)
    )


def why_unanswered(model: Model, point: PlanPoint, sources: Sources) -> str | None:
    """Why a model cannot say how long a gather takes; None where that is not what it lacks."""
    world_size = point.world_size
    if point.provider == spec.GEMM_ONLY or _fabrics(model, sources, world_size) is not None:
        return None
    if sources.calibration is None or model.MODEL != CALIBRATED:
        return f"it knows no link between {world_size} devices there"
    calibrated = calibrated_world_sizes(sources.calibration, "all_gather")
    return (
        f"its calibration has no link constants of world size {world_size}; world sizes it has: "
        f"{', '.join(map(str, calibrated)) or 'none'}; measure probe_link there, or ask --model "
        "wave"
    )


def _fabrics(model: Model, sources: Sources, world_size: int) -> Fabrics | None:
    return model.fabrics(sources, world_size) if isinstance(model, KnowsLinks) else None


def _predict_group(
    model: Model, provider: str, points: Sequence[PlanPoint], sources: Sources
) -> list[Prediction]:
    """Predictions of points of one recipe and world size by a provider; [] if it is unknown."""
    recipe, world_size = points[0].recipe, points[0].world_size
    alone = provider == spec.GEMM_ONLY
    link = NO_LINK if alone else _fabrics(model, sources, world_size)
    if link is None:
        return []
    m, n, k = sizes_of(points, "mnk")
    try:
        rows = m / pieces(provider, world_size)
        product = _product_times(model, sources, provider, recipe, (rows, n, k))
        likely = evaluate(provider, recipe, link.likely, (m, k), product.total, world_size)
        low, high = (
            None
            if fabric is None or piece_s is None
            else evaluate(provider, recipe, fabric, (m, k), piece_s, world_size).total
            for fabric, piece_s in ((link.fast, product.low), (link.slow, product.high))
        )
    except KeyError:  # a product, or a way of gathering, that the model does not know
        return []
    gather_decides = (likely.gather > likely.product).tolist()
    bound_by = [
        "link" if by_link else by_product
        for by_link, by_product in zip(gather_decides, product.bound_by, strict=True)
    ]
    times = Times(total=likely.total, low=low, high=high, bound_by=bound_by)
    return predictions_of(points, model.MODEL, Answer(times=times, parts={"link_s": likely.gather}))


def _product_times(
    model: Model, sources: Sources, provider: str, recipe: str, sizes: tuple[Array, Array, Array]
) -> Times:
    """Seconds of products; of a gather alone exactly none."""
    if provider != spec.ALL_GATHER_ONLY:
        times = product_times(model, sources, "", recipe, sizes)
        if model.MODEL != CALIBRATED or sources.calibration is None or times.low is None:
            return times
        # Ranks wait for each other before every sample, so that cards rest. On H200s they clocked
        # 1.55 to 1.95 GHz in large products, where those of one card in turns held 1.42 to 1.56.
        library = gemm.default_provider(sources.calibration.constants, recipe)
        rested = gemm.fastest_times(sources.calibration, library, recipe, sizes)
        return replace(times, low=np.minimum(times.low, rested))
    nothing = np.zeros_like(sizes[0])
    return Times(total=nothing, low=nothing, high=nothing, bound_by=["link"] * len(nothing))
