"""Points of op all_gather_matmul by models that know a link: equations of its model.

Products are those of the model, of the library where it tells providers apart; the link is that
of roofcal.models.fabrics. Both mean a captured graph: what the host does in eager calls is in no
part. The datasheet's model answers by itself, torchao's for the product alone. Intervals are times
with all parts at the fast and all at the slow ends of theirs. On a CPU the ranks share the cores
that the constants of products were fitted on, so products are predicted faster than they are. A
point without a provider is that of the fastest that can be answered, bounds left out.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from roofcal.core.records import PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.models.fabrics import NO_LINK, fabrics_of
from roofcal.models.registry import Model
from roofcal.models.sources import Sources
from roofcal.ops.all_gather_matmul import spec
from roofcal.ops.all_gather_matmul.model import Parts, evaluate, pieces

OP: Final = spec.OP.name


def predict(model: Model, points: Sequence[PlanPoint], sources: Sources) -> list[Prediction]:
    """A prediction per point of OP that the model can answer; no world size is an error."""
    groups: dict[tuple[str, str, int], list[PlanPoint]] = {}
    for point in points:
        if point.op == OP and point.world_size > 1:
            key = (point.provider, point.recipe, point.world_size)
            groups.setdefault(key, []).append(point)
    return [
        made
        for (provider, recipe, world_size), some in groups.items()
        for made in _fastest(
            [
                _group(model, who, recipe, world_size, some, sources)
                for who in ((provider,) if provider else _anyone())
            ]
        )
    ]


def _anyone() -> list[str]:
    every = [name for names in spec.OP.providers.values() for name in names]
    return [name for name in every if name not in spec.BOUNDS]


def _fastest(answers: Sequence[list[Prediction]]) -> list[Prediction]:
    known = [answer for answer in answers if answer]
    return [min(of_point, key=_seconds) for of_point in zip(*known, strict=True)]


def _seconds(prediction: Prediction) -> float:
    return prediction.total_s


def _group(
    model: Model,
    provider: str,
    recipe: str,
    world_size: int,
    points: Sequence[PlanPoint],
    sources: Sources,
) -> list[Prediction]:
    """Predictions of points of one provider, recipe and world size."""
    alone = provider == spec.GEMM_ONLY
    link = NO_LINK if alone else fabrics_of(model.MODEL, sources, world_size)
    if link is None:
        return []
    m, n, k = (np.array([float(p.shape[axis]) for p in points]) for axis in "mnk")
    try:
        product = _products(
            model, sources, provider, recipe, (m / pieces(provider, world_size), n, k)
        )
        ends = [
            None
            if piece is None or fabric is None
            else evaluate(provider, recipe, fabric, (m, k), piece, world_size)
            for fabric, piece in (
                (link.likely, product.total),
                (link.fast, product.low),
                (link.slow, product.high),
            )
        ]
    except KeyError:  # a product, or a way of gathering, that the model does not know
        return []
    likely, low, high = ends
    assert likely is not None
    return [
        _prediction(model.MODEL, point, i, likely, (low, high), product.bound_by[i])
        for i, point in enumerate(points)
    ]


def _products(
    model: Model, sources: Sources, provider: str, recipe: str, sizes: tuple[Array, Array, Array]
) -> Times:
    """Seconds of products; of a gather alone none, for sure."""
    if provider != spec.ALL_GATHER_ONLY:
        return model.product_times(sources, recipe, *sizes)
    nothing = np.zeros_like(sizes[0])
    return Times(total=nothing, low=nothing, high=nothing, bound_by=["link"] * len(nothing))


def _prediction(
    model: str,
    point: PlanPoint,
    i: int,
    parts: Parts,
    ends: tuple[Parts | None, Parts | None],
    product_bound_by: str,
) -> Prediction:
    low, high = (None if end is None else float(end.total[i]) for end in ends)
    return Prediction(
        point_id=point.point_id,
        model=model,
        math_s=None,
        dram_s=None,
        link_s=float(parts.gather[i]),
        launch_s=None,
        total_s=float(parts.total[i]),
        low_s=low,
        high_s=high,
        bound_by="link" if parts.gather[i] > parts.product[i] else product_bound_by,
    )
