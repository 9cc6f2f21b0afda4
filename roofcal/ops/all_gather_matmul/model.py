"""Time of an all-gather with its product, in sequence and overlapped, from the times of its parts.

    in sequence  t = gather + product
    gather       = collectives * latency + bytes received / rate

Rows that have scales are gathered by two collectives in one group, which pays for the latency of
both. Overlapped in pieces, the own rows first: piece i, of r in all, begins when the one before has
ended and it has arrived. Arrivals follow each other at even distances, pieces take equal times, so
that the end is linear in i and either the first or the last piece decides:

    overlapped   t = start + max(product, arrival of the last + product of one piece)

start: what nothing overlaps: the two barriers of the ranks and the launch of the copies, which is
the latency of an all-gather by symmetric memory. kernels.gather.model, by which our kernel chooses
its plan, follows every tile. This equation is its limit for tiles much smaller than a piece.

symm_mem_fused  r = world size * chunks per shard. Each chunk beyond the first of a shard costs the
                latency of one copy more; the kernel takes the best of CHUNKS, or NCCL and product
                one after the other where that is faster
torch_fused     r = world size: a product per shard, r launches of the library. Before, the own
                rows are copied to symmetric memory
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from roofcal.core.recipes import RECIPES
from roofcal.core.times import Array
from roofcal.ops.all_gather_matmul.spec import (
    ALL_GATHER_ONLY,
    GEMM_ONLY,
    IN_SEQUENCE,
    OURS,
    TORCH,
)
from roofcal.ops.probe_link.model import Fabric, Line

CHUNKS: Final = (1, 2, 4)  # of a shard: those that kernels.gather.plans chooses from


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
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
    return world_size if provider == TORCH else 1


def evaluate(
    provider: str,
    recipe: str,
    fabric: Fabric,
    sizes: tuple[Array, Array],
    piece_s: Array,
    world_size: int,
) -> Parts:
    """Times of a provider whose product of m / pieces(provider) rows takes piece_s; sizes: (m, k).

    Raises KeyError for a provider that is unknown, or that needs symmetric memory where the fabric
    knows none.
    """
    received = received_bytes(recipe, *sizes, world_size)
    nothing = np.zeros_like(received)
    gather = fabric.library.seconds(received, collectives(recipe))
    if provider == GEMM_ONLY:
        return Parts(product=piece_s, gather=nothing, total=piece_s)
    if provider == ALL_GATHER_ONLY:
        return Parts(product=nothing, gather=gather, total=gather)
    if provider in IN_SEQUENCE:
        return Parts(product=piece_s, gather=gather, total=gather + piece_s)
    if fabric.direct is None:
        raise KeyError(provider)
    direct = fabric.direct.seconds(received)
    if provider == TORCH:
        product = world_size * piece_s
        own = 2 * received / (world_size - 1) / fabric.dram_bytes_per_s
        total = own + _overlapped_seconds(fabric.direct, received, product, piece_s)
        return Parts(product=product, gather=direct, total=total)
    if provider != OURS:
        raise KeyError(provider)
    ways = [gather + piece_s, *_by_chunks(fabric, fabric.direct, received, piece_s, world_size)]
    return Parts(product=piece_s, gather=direct, total=np.min(ways, axis=0))


def _by_chunks(
    fabric: Fabric, direct: Line, received: Array, product: Array, world_size: int
) -> Iterator[Array]:
    for chunks in CHUNKS:
        flags = (chunks - 1) * (world_size - 1) * fabric.copy_latency_s
        last = product / (world_size * chunks)
        yield _overlapped_seconds(direct, received, product, last + flags)


def _overlapped_seconds(direct: Line, received: Array, product: Array, last: Array) -> Array:
    """last: seconds between the arrival of the last rows and the end."""
    total: Array = direct.latency_s + np.maximum(product, received / direct.bytes_per_s + last)
    return total
