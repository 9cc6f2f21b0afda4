"""How fp8 products are cut into tiles, as data; the compile test walks this table.

Choosing: the kernel with the least waves x area of a tile / rate. A wave is one tile per SM, the
rate what the tile reaches of the best one on a large product. Rates of Hopper's tables are those of
8192 x 8192 x 8192 on an H200 (2026-11-21), but for tiles of 64 rows in FAST and SLOW: a guess.
BLOCKS_ROWS has products of its own, whose plain Triton has the rate 1.0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import triton

from kernels.common.architecture import Architecture


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmConfig:
    """A persistent product of tiles m x n, k columns at a time.

    parts  the tile leaves in this many halves (1 or 2): a smaller buffer
    group  tiles walked down before the next column of tiles
    flat   whether loads of the next tile overlap the end of this one
    rate   of a large product, relative to the best tile
    """

    m: int
    n: int
    k: int
    num_warps: int
    num_stages: int
    parts: int = 1
    group: int = 8
    flat: bool = True
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SkinnyConfig:
    """A product of few rows: tiles of n rows of B (the matrix unit's M side), K split.

    least_steps         steps of k columns that a program makes at least
    programs_per_unit   programs per SM that the split of K aims at
    """

    n: int
    k: int
    num_warps: int
    num_stages: int
    least_steps: int
    programs_per_unit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HopperGemmConfig:
    """A product in Gluon, kernels.gemm.hopper.cooperative.

    m, n       a tile; two warpgroups of 64 rows
    box        rows of B fetched at once
    stages     of 128 columns of K in shared memory
    group      tiles walked down before the next column of tiles
    registers  per thread of a multiplying warpgroup
    rate       of a large product, relative to the best tile in plain Triton
    """

    n: int
    box: int
    stages: int
    rate: float
    group: int = 8
    registers: int = 232
    m: int = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class PingpongConfig:
    """A product in Gluon, kernels.gemm.hopper.pingpong: tiles of 128 x 128, one per warpgroup.

    stages     of 128 columns of K in shared memory
    buffers    per warpgroup, through which halves of tiles leave
    group      tiles walked down before the next column of tiles
    registers  per thread of a multiplying warpgroup
    rate       of a large product, relative to the best tile in plain Triton
    """

    rate: float
    stages: int = 6
    buffers: int = 1
    group: int = 12
    registers: int = 216
    m: int = 128
    n: int = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class BlocksConfig:
    """A product with scales per block in Gluon, kernels.gemm.hopper.staged_scales.

    m, n       a tile: a warpgroup per 64 rows, two or three; n 128 or, of two, 256
    stages     of 128 columns of K in shared memory
    buffers    per warpgroup, through which tiles leave
    group      tiles walked down before the next column of tiles
    registers  per thread of a multiplying warpgroup
    rate       of a large product, relative to the best tile in plain Triton
    """

    m: int
    n: int
    rate: float
    stages: int
    buffers: int = 2
    group: int = 8
    registers: int = 216


AnyConfig = GemmConfig | HopperGemmConfig | PingpongConfig | BlocksConfig
Tiled = TypeVar("Tiled", bound=AnyConfig)

# NVIDIA Hopper. 128x256 with four stages fits into shared memory only in two parts.
FAST: Final = (
    GemmConfig(m=128, n=256, k=128, num_warps=8, num_stages=4, parts=2, rate=1.0),
    GemmConfig(m=256, n=128, k=128, num_warps=8, num_stages=3, parts=2, rate=0.9),
    GemmConfig(m=128, n=128, k=128, num_warps=8, num_stages=4, rate=0.9),
    GemmConfig(m=64, n=128, k=128, num_warps=4, num_stages=5, rate=0.6),
)
# Two-level accumulation holds two accumulators: larger tiles spill.
SLOW: Final = (
    GemmConfig(m=256, n=128, k=128, num_warps=8, num_stages=3, parts=2, rate=1.0),
    GemmConfig(m=128, n=128, k=128, num_warps=8, num_stages=4, rate=0.86),
    GemmConfig(m=64, n=128, k=128, num_warps=4, num_stages=5, rate=0.7),
)
BLOCKWISE: Final = (
    GemmConfig(m=128, n=128, k=128, num_warps=8, num_stages=4, rate=1.0),
    GemmConfig(m=64, n=128, k=128, num_warps=4, num_stages=4, rate=0.91),
)
# Architectures with less shared memory than Hopper, or without a tensor memory unit: compiled only.
SMALL: Final = (GemmConfig(m=128, n=128, k=64, num_warps=8, num_stages=3, rate=1.0),)
SMALL_BLOCKWISE: Final = (GemmConfig(m=64, n=64, k=128, num_warps=4, num_stages=2, rate=1.0),)
SKINNY: Final = SkinnyConfig(
    n=64, k=128, num_warps=4, num_stages=6, least_steps=4, programs_per_unit=2
)
# With scales per block; AMD GPUs take SKINNY, as this spills there. In us on an H200, [28672, 8192]
# and [3584, 8192]: 62.4 and 12.2 with 16 rows, 68.1 and 21.1 with 64; as SKINNY 75.9, 13.3, 89.8
# and 17.1; torch's product 67.7, 15.9, 68.8 and 25.2.
SKINNY_BLOCKS: Final = SkinnyConfig(
    n=128, k=128, num_warps=8, num_stages=4, least_steps=4, programs_per_unit=2
)
HOPPER: Final = {
    "slow": HopperGemmConfig(n=256, box=128, stages=4, rate=1.32),
    "blocks": HopperGemmConfig(n=128, box=128, stages=6, rate=1.57),
}
# Against torch's product, geometric means: by axis scales 0.99 over eight shapes, with tensor
# scales 1.04 over ten; warpgroups that shared tiles of 128 x 256 reached 0.94 and 0.94. Groups of 8
# and 16 tiles: within 1 % of 12.
PINGPONG: Final = PingpongConfig(rate=1.03)
# Of torch's product over six shapes 0.86 and 0.94, the better one of each shape 0.96; 128 x 128 by
# kernels.gemm.hopper.cooperative 0.84, of two parts one above the other (256 x 128) 0.92.
BLOCKS: Final = (
    BlocksConfig(m=192, n=128, stages=4, registers=152, group=6, rate=1.82),
    BlocksConfig(m=128, n=256, stages=4, rate=1.74),
)
# B scaled per row, too: 128 more scales in every step, for which 128 x 256 has no registers. 970
# and 895 TFLOP/s at 8192, plain Triton 519.
BLOCKS_ROWS: Final = (
    BlocksConfig(m=192, n=128, stages=4, registers=152, group=6, rate=1.87),
    BlocksConfig(m=128, n=128, stages=6, buffers=1, rate=1.72),
)
SKINNY_ROWS: Final = 64  # the most rows of A that such a product takes at once
WITH_LARGE_TILES: Final[tuple[Architecture, ...]] = (90, 100)


def choose(configs: Sequence[Tiled], m: int, n: int, units: int) -> Tiled:
    """The config of the least predicted time for an m x n output on `units` SMs."""
    return min(configs, key=lambda config: _cost(config, m, n, units))


def _cost(config: AnyConfig, m: int, n: int, units: int) -> float:
    tiles = triton.cdiv(m, config.m) * triton.cdiv(n, config.n)
    return triton.cdiv(tiles, units) * config.m * config.n / config.rate


def split_of(config: SkinnyConfig, n: int, k: int, units: int) -> int:
    """Programs that share the K of a tile; all of them fit on the GPU at once, where possible."""
    steps = triton.cdiv(k, config.k)
    wanted = config.programs_per_unit * units // triton.cdiv(n, config.n)
    split = max(1, min(wanted, steps // config.least_steps))
    return triton.cdiv(steps, triton.cdiv(steps, split))  # none is left without a step
