"""Time of an all-gather with its product, in sequence and overlapped, from the times of its parts.

    in sequence  t = gather + product
    gather       = collectives * latency + bytes received / rate

Rows that have scales are gathered by two collectives in one group, which pays for the latency of
both. Overlapped in pieces, the own rows first: piece i, of r in all, begins when the one before has
ended and it has arrived. Arrivals follow each other at even distances, pieces take equal times, so
that the end is linear in i and either the first or the last piece decides:

    overlapped   t = start + max(product, arrival of the last + product of one piece)

start: what nothing overlaps: the two barriers of the ranks and the launch of the copies, which is
the latency of an all-gather by symmetric memory. kernels.gather.plans, by which our kernel chooses
its plan, follows every tile. This equation is its limit for tiles much smaller than a piece.

symm_mem_fused  r = world size * chunks per shard. Each chunk beyond the first of a shard costs the
                latency of one copy more; the kernel takes the best of CHUNKS, or NCCL and product
                one after the other where that is faster
torch_fused     r = world size: a product per shard, r launches of the library. Before, the own
                rows are copied to symmetric memory

A model that knows a link predicts the products, those of the library where it tells providers
apart, and the link. Both are times in a captured graph: launches from the host are not counted. The
datasheet's model answers by itself, torchao's for the product alone. The ends of an interval are
the times with all parts at the fast, and with all parts at the slow ends of theirs. On a CPU the
ranks share the cores that the constants of products were fitted on, so products are predicted
faster than they are. A point without a provider is answered for the fastest one that takes its
shape, bounds left out.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from roofcal.core.environments import CALIBRATED
from roofcal.core.portable_math import exp, log
from roofcal.core.recipes import RECIPES
from roofcal.core.records import Calibration, PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.ops.all_gather_matmul import spec
from roofcal.ops.constants import OpPage
from roofcal.ops.gemm import model as gemm
from roofcal.ops.predictions import (
    TimesAndParts,
    half_widths,
    parts_of_pair,
    predict_groups,
    sizes_of,
)
from roofcal.ops.probe_link.model import NO_LINK, Fabric, calibrated_world_sizes
from roofcal.ops.time_models import Model, Sources, fabrics_of, product_times

CHUNKS: Final = (1, 2, 4)  # of a shard: those that kernels.gather.plans chooses from
PAGE = OpPage(
    meaning="C[M,N] = A[M,K] B[N,K]ᵀ with the rows of A gathered from several devices",
    title="All-gather and product",
    time_includes="Times exclude casts: both operands lie in their format beforehand.",
    time_note="without casts",
    colours={"bf16": "blue", "fp8_axiswise": "green"},
    markers={"symm_mem_fused": "^", "torch_fused": "X"},
)


class GatherParts(NamedTuple):
    """Seconds of many points, vectors of equal length.

    product, gather  each on its own, as bounds are measured; 0 where there is none
    """

    product: Array
    gather: Array
    total: Array


def received_bytes(recipe: str, m: Array, k: Array, world_size: int) -> Array:
    """Bytes of A, scales included, that a device receives; KeyError for an unknown recipe."""
    received: Array = RECIPES[recipe].a.nbytes(m, k) * (world_size - 1) / world_size
    return received


def collectives(recipe: str) -> int:
    """Tensors that a library gathers: rows, and their scales; KeyError for a recipe."""
    return 1 if RECIPES[recipe].a.scale is None else 2


def pieces(provider: str, world_size: int) -> int:
    """Into how many equal parts a provider's product is cut by rows; piece_s is the time of one."""
    return world_size if provider == spec.TORCH else 1


def evaluate(
    provider: str,
    recipe: str,
    fabric: Fabric,
    sizes: tuple[Array, Array],
    piece_s: Array,
    world_size: int,
) -> GatherParts:
    """Times of a provider whose product of m / pieces(provider) rows takes piece_s; sizes: (m, k).

    Raises KeyError for a provider that is unknown, or that needs symmetric memory where the fabric
    knows none.
    """
    received = received_bytes(recipe, *sizes, world_size)
    nothing = np.zeros_like(received)
    gather = fabric.library.seconds(received, collectives(recipe))
    if provider == spec.GEMM_ONLY:
        return GatherParts(product=piece_s, gather=nothing, total=piece_s)
    if provider == spec.ALL_GATHER_ONLY:
        return GatherParts(product=nothing, gather=gather, total=gather)
    if provider in spec.IN_SEQUENCE:
        return GatherParts(product=piece_s, gather=gather, total=gather + piece_s)
    if fabric.direct is None or provider not in (spec.TORCH, spec.OURS):
        raise KeyError(provider)
    line = fabric.direct

    def overlapped(product: Array, last: Array) -> Array:
        """last: seconds between the arrival of the last rows and the end."""
        total: Array = line.latency_s + np.maximum(product, received / line.bytes_per_s + last)
        return total

    if provider == spec.TORCH:
        product = world_size * piece_s
        own = 2 * received / (world_size - 1) / fabric.dram_bytes_per_s
        total = own + overlapped(product, piece_s)
    else:
        product = piece_s
        flags = (world_size - 1) * fabric.copy_latency_s  # of every chunk but the first
        lasts = [product / (world_size * chunks) + (chunks - 1) * flags for chunks in CHUNKS]
        total = np.min([gather + product, *(overlapped(product, last) for last in lasts)], axis=0)
    return GatherParts(product=product, gather=line.seconds(received), total=total)


def predict_composed(
    model: Model, points: Sequence[PlanPoint], sources: Sources
) -> list[Prediction]:
    """A prediction per point of several devices that the model can answer."""
    own = [point for point in points if point.world_size > 1]
    return predict_groups(
        own, model.MODEL, _candidates, lambda name, group: _answer(model, name, group, sources)
    )


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
    if point.provider == spec.GEMM_ONLY or fabrics_of(model, sources, world_size) is not None:
        return None
    if sources.calibration is None or model.MODEL != CALIBRATED:
        return f"it knows no link between {world_size} devices there"
    calibrated = calibrated_world_sizes(sources.calibration, "all_gather")
    return (
        f"its calibration has no link constants of world size {world_size}; world sizes it has: "
        f"{', '.join(map(str, calibrated)) or 'none'}; measure probe_link there, or ask --by wave"
    )


def _answer(
    model: Model, provider: str, points: Sequence[PlanPoint], sources: Sources
) -> TimesAndParts | None:
    """Seconds of points of one recipe and world size by a provider; None if it is unknown."""
    recipe, world_size = points[0].recipe, points[0].world_size
    alone = provider == spec.GEMM_ONLY
    link = NO_LINK if alone else fabrics_of(model, sources, world_size)
    if link is None:
        return None
    m, n, k = sizes_of(points, "mnk")
    rows = m / pieces(provider, world_size)
    try:
        product = _product_times(model, sources, provider, recipe, (rows, n, k))
        likely = evaluate(provider, recipe, link.likely, (m, k), product.total, world_size)
        low, high = (
            None
            if fabric is None or piece_s is None
            else evaluate(provider, recipe, fabric, (m, k), piece_s, world_size).total
            for fabric, piece_s in ((link.fast, product.low), (link.slow, product.high))
        )
    except KeyError:  # a product, or a way of gathering, that the model does not know
        return None
    bound_by = np.where(likely.gather > likely.product, "link", product.bound_by).tolist()
    times = Times(total=likely.total, low=low, high=high, bound_by=bound_by)
    return TimesAndParts(times, {"link_s": likely.gather})


def _product_times(
    model: Model, sources: Sources, provider: str, recipe: str, sizes: tuple[Array, Array, Array]
) -> Times:
    """Seconds of products; of a gather alone exactly none."""
    if provider == spec.ALL_GATHER_ONLY:
        nothing = np.zeros_like(sizes[0])
        return Times(total=nothing, low=nothing, high=nothing, bound_by=["link"] * len(nothing))
    times = product_times(model, sources, "", recipe, sizes)
    if model.MODEL != CALIBRATED or sources.calibration is None or times.low is None:
        return times
    # Ranks wait for each other before every sample, so that cards rest. On H200s they clocked
    # 1.55 to 1.95 GHz in large products, where those of one card in turns held 1.42 to 1.56.
    library = gemm.default_provider(sources.calibration.constants, recipe)
    rested = fastest_times(sources.calibration, library, recipe, sizes)
    return replace(times, low=np.minimum(times.low, rested))


def fastest_times(
    calibration: Calibration, provider: str, recipe: str, sizes: Sequence[Array]
) -> Array:
    """The low end of the interval of products, s, on cards that may rest between them.

    Such a card stays below the power limit that bounded the probes. How much it rests is
    independent of the error of the model, so their logarithms add as squares (Zou and Donner,
    Statistics in Medicine 27, 2008).
    """
    parts = parts_of_pair(gemm, calibration, provider, recipe, sizes)
    own = {name: part for name, part in parts._asdict().items() if name != "total"}
    unlimited = gemm.joined(**own | {"power": np.zeros_like(parts.power)}).total
    # Equations of processors know no power limit, and join their parts in another way.
    unlimited = np.where(parts.power > 0, unlimited, parts.total)
    resting = log(parts.total / unlimited)
    groups = gemm.groups_of(recipe, sizes)
    widths = half_widths(calibration, f"{gemm.OP.name}.{provider}.{recipe}", groups)
    error = log(exp(widths))  # published bits have gone both ways
    fastest: Array = parts.total / exp(np.sqrt(resting**2 + error**2))
    return fastest
