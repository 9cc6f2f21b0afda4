"""Which tile, how many chunks, and whether to fuse at all."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kernels.gather.configs import Chunks, chunks_of
from kernels.gather.model import (
    Gathered,
    LinkTimes,
    ProductTimes,
    fused_s,
    link_times,
    product_times,
    sequence_s,
)
from kernels.gemm.rule import GemmConfig

CHUNKS: Final = (1, 2, 4)
# What eager calls took on H200s where the GPU was done earlier, 2026-11: 550 to 662 us on 2, 621 to
# 702 us on 4.
EAGER_HOST_S: Final = 700e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How an all-gather is fused with its product, and the seconds that the model expects.

    units  multiprocessors that the product takes
    """

    tile: GemmConfig
    cut: Chunks
    units: int
    fused_s: float
    sequence_s: float

    @property
    def is_faster(self) -> bool:
        """Whether fused is expected to beat the sequence, in a CUDA graph."""
        return self.fused_s < self.sequence_s

    @property
    def is_faster_eagerly(self) -> bool:
        """Whether it is when the host has to issue every copy and kernel anew."""
        return max(self.fused_s, EAGER_HOST_S) < self.sequence_s


def choose(
    what: Gathered,
    tiles: Sequence[GemmConfig],
    *,
    units: int,
    chunks: Sequence[int] = CHUNKS,
    link: LinkTimes | None = None,
    product: ProductTimes | None = None,
) -> Plan | None:
    """The plan of the least expected time; None where no tile fits into a shard.

    units: SMs; link and product: None for the defaults of kernels.gather.model. Of equals the
    first wins, so fewer chunks.
    """
    link = link or link_times(what.world)
    product = product or product_times(what.dtype)
    in_sequence = sequence_s(what, link, product)
    plans = [
        Plan(
            tile=tile,
            cut=cut,
            units=units,
            fused_s=fused_s(what, tile, cut, link, product, units=units),
            sequence_s=in_sequence,
        )
        for tile in tiles
        if tile.m <= what.shard_rows
        for cut in dict.fromkeys(chunks_of(what.shard_rows, tile.m, wanted) for wanted in chunks)
    ]
    return min(plans, key=lambda plan: plan.fused_s, default=None)
