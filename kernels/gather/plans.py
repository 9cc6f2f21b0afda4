"""How an all-gather with a product is cut, how long it takes, and whether to fuse at all.

Times of both ways, enough to choose by:

    sequence = NCCL latency + bytes received / NCCL rate + launch + operations / library's rate
    fused    = start + the last program's end

Fused, tile i of T belongs to program i mod P, of P as many as the GPU has SMs, in the order of
kernels.gather.product. A program begins a tile when it has ended its last one and the tile's chunk
has arrived; a tile takes its operations / (rate of the product x rate of the tile / P).

Chunk i that a rank receives, each b bytes, arrives after (i + 1) (b / copy rate + latency), as a
chunk follows the flag of the one before; scales cost half a latency more per peer.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

from kernels.gemm.rule import GemmConfig

MOST_CHUNKS: Final = 8  # of a shard; each has a flag
CHUNKS: Final = (1, 2, 4)  # that are tried

# NVIDIA Hopper and later data centre GPUs. 128x256 with four stages fits in two parts alone.
WIDE: Final = (
    GemmConfig(m=128, n=256, k=64, num_warps=8, num_stages=4, parts=2, rate=1.0),
    GemmConfig(m=128, n=128, k=64, num_warps=8, num_stages=4, rate=0.85),
    GemmConfig(m=64, n=256, k=64, num_warps=4, num_stages=4, parts=2, rate=0.8),
    GemmConfig(m=64, n=128, k=64, num_warps=4, num_stages=5, rate=0.6),
)
NARROW: Final = (
    GemmConfig(m=128, n=256, k=128, num_warps=8, num_stages=4, parts=2, rate=1.0),
    GemmConfig(m=128, n=128, k=128, num_warps=8, num_stages=4, rate=0.9),
    GemmConfig(m=64, n=256, k=128, num_warps=4, num_stages=4, parts=2, rate=0.8),
    GemmConfig(m=64, n=128, k=128, num_warps=4, num_stages=5, rate=0.6),
)
# Less shared memory than Hopper, or no tensor memory unit: compiled only.
SMALL: Final = (GemmConfig(m=64, n=128, k=64, num_warps=8, num_stages=3, rate=1.0),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunks:
    """The cut of a shard's rows: `count` chunks of tiles_each * tile_rows rows.

    The last chunk takes what is left, one whole tile at least: the last tile of a shard that is no
    multiple of tile_rows is moved up to end with the shard, and must not reach into another chunk.
    """

    shard_rows: int
    tile_rows: int
    tiles_each: int
    count: int

    @property
    def tiles(self) -> int:
        """Tiles of a shard along its rows."""
        return -(-self.shard_rows // self.tile_rows)

    def tiles_of(self, chunk: int) -> int:
        """Tiles of a chunk along its rows."""
        first = chunk * self.tiles_each
        return (self.tiles if chunk == self.count - 1 else first + self.tiles_each) - first

    def rows(self, chunk: int) -> tuple[int, int]:
        """(first, end) of a chunk's rows within the shard."""
        each = self.tiles_each * self.tile_rows
        return chunk * each, self.shard_rows if chunk == self.count - 1 else (chunk + 1) * each


def chunks_of(shard_rows: int, tile_rows: int, wanted: int) -> Chunks:
    """At most `wanted` chunks of nearly as many tiles; raises ValueError for too few rows."""
    whole = shard_rows // tile_rows
    if whole < 1:
        raise ValueError(
            f"shard_rows: wanted at least one tile of {tile_rows} rows, got {shard_rows}"
        )
    tiles_each = -(-whole // max(1, min(wanted, MOST_CHUNKS)))
    count = -(-whole // tiles_each)
    return Chunks(shard_rows=shard_rows, tile_rows=tile_rows, tiles_each=tiles_each, count=count)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTimes:
    """Of what a rank receives.

    nccl_latency_s, nccl_bytes_per_s  of an all-gather
    copy_latency_s, copy_bytes_per_s  of a chunk by a copy engine, its flag included: two copies
    start_s                           from a call to the first byte, or to the first tile
    """

    nccl_latency_s: float
    nccl_bytes_per_s: float
    copy_latency_s: float = 5.5e-6
    copy_bytes_per_s: float = 360e9
    start_s: float = 10e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductTimes:
    """What large products reach: the library's, and ours with the best tile; launch of either."""

    library_flops_per_s: float
    own_flops_per_s: float
    launch_s: float = 5e-6


# H200s over NVLink (18 links each, no multicast), 2026-11, by world size. 8: NCCL's all-gathers of
# 34 to 537 MB lie on 35 us + received / 326 GB/s within 7 %; copy engines reach 360 GB/s. 4: NCCL's
# of the same on 31 us + received / 308 GB/s within 3 %; copies to three peers 348 GB/s. 2: NCCL's
# on 30 us + received / 250 GB/s within 6 %; our pushes on 16 us + bytes / 392 GB/s, and 5.5 us more
# for each further chunk.
H200_LINKS: Final[dict[int, LinkTimes]] = {
    2: LinkTimes(nccl_latency_s=30e-6, nccl_bytes_per_s=250e9, copy_bytes_per_s=392e9),
    4: LinkTimes(nccl_latency_s=31e-6, nccl_bytes_per_s=308e9, copy_bytes_per_s=348e9),
    8: LinkTimes(nccl_latency_s=35e-6, nccl_bytes_per_s=326e9),
}
# On an H200 at its power limit: 16384 x 3584 x 8192 takes 1242 us by cuBLAS and 1272 us by ours in
# bf16, 664 and 710 us in fp8 with scales per row (torch._scaled_mm).
BF16_PRODUCT: Final = ProductTimes(library_flops_per_s=775e12, own_flops_per_s=756e12)
FP8_PRODUCT: Final = ProductTimes(library_flops_per_s=1449e12, own_flops_per_s=1355e12)


def link_times(world: int) -> LinkTimes:
    """The defaults of a world size: those of the largest measured one that is not larger."""
    return H200_LINKS[max((size for size in H200_LINKS if size <= world), default=2)]


def warn_of_defaults(gpu_name: str) -> None:
    """Warn where the defaults are of another GPU than this one."""
    if "H200" not in gpu_name:
        warnings.warn(
            f"AllGatherMatmul chooses between fused and in sequence by times of H200s, but this is "
            f"{gpu_name}: pass Tuning(link=..., product=...) with times of its own, or fused=True "
            "or False",
            stacklevel=2,
        )


def product_times(dtype: torch.dtype) -> ProductTimes:
    """The defaults of a type."""
    return FP8_PRODUCT if dtype.itemsize == 1 else BF16_PRODUCT


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """A product of what `world` ranks hold: shard_rows rows of k values each, by n columns."""

    world: int
    shard_rows: int
    k: int
    n: int
    dtype: torch.dtype

    @property
    def shard_bytes(self) -> int:
        """What one rank sends to each other: rows, and the scales of fp8 rows."""
        scales = 4 if self.dtype.itemsize == 1 else 0
        return self.shard_rows * (self.k * self.dtype.itemsize + scales)

    @property
    def flops(self) -> int:
        """Operations of the whole product."""
        return 2 * self.world * self.shard_rows * self.k * self.n


def sequence_s(what: Gathered, link: LinkTimes, product: ProductTimes) -> float:
    """Seconds of NCCL's all-gather and then a library's product."""
    received = (what.world - 1) * what.shard_bytes
    gather = link.nccl_latency_s + received / link.nccl_bytes_per_s
    return gather + product.launch_s + what.flops / product.library_flops_per_s


def arrivals_s(what: Gathered, cut: Chunks, link: LinkTimes) -> list[float]:
    """When chunks have arrived, after the start, in their order; the own ones are there at 0."""
    received = (what.world - 1) * cut.count
    each_s = what.shard_bytes / cut.count / link.copy_bytes_per_s + link.copy_latency_s
    scales_s = link.copy_latency_s / 2 if what.dtype.itemsize == 1 else 0.0
    others = [(i + 1) * each_s + (i // cut.count + 1) * scales_s for i in range(received)]
    return [0.0] * cut.count + others


def fused_s(
    what: Gathered,
    tile: GemmConfig,
    cut: Chunks,
    link: LinkTimes,
    product: ProductTimes,
    *,
    units: int,
) -> float:
    """Seconds of a product that follows arrival."""
    per_unit = product.own_flops_per_s * tile.rate / units
    tile_s = 2 * tile.m * tile.n * what.k / per_unit
    columns = -(-what.n // tile.n)
    ends = [product.launch_s] * units
    i = 0
    for chunk, arrived in enumerate(arrivals_s(what, cut, link)):
        for _ in range(cut.tiles_of(chunk % cut.count) * columns):
            ends[i % units] = max(ends[i % units], arrived) + tile_s
            i += 1
    return link.start_s + max(ends)


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

    units: SMs; link and product: None for the defaults. Of equals the first wins, so fewer chunks.
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
