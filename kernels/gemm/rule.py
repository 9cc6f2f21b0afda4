"""Which tile an fp8 product takes, and how K is split: what a host decides from sizes.

NumPy alone. kernels.gemm asks for one product (`choose`, `split_of_k`); models of time, and pages
by TILES, ask for many at once (`chosen_tiles`).

A product of up to MOST_FEW_ROWS rows has the rows of B on the matrix unit's M side and its K split
among programs (kernels.gemm.skinny). Any other takes the configuration with the least
waves x area of a tile / rate, and no split. A wave is one tile per multiprocessor. The rate is what
a tile reaches of the best one in plain Triton on a large product. Rates are those of 8192 x 8192 x
8192 on an H200 (2026-11-21), but for tiles of 64 rows with a scale per tensor or per row: a guess.
Products whose B has a scale per 1 x 128 have rates of their own, as plain Triton is slower there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Tiled(Protocol):
    """A configuration as the choice sees it: a tile of m x n."""

    @property
    def m(self) -> int:
        """Rows of a tile."""

    @property
    def n(self) -> int:
        """Columns of a tile."""

    @property
    def rate(self) -> float:
        """Speed of a large product, relative to the best tile in plain Triton."""


Config = TypeVar("Config", bound=Tiled)


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmConfig:
    """A persistent product in plain Triton, in tiles m x n, k columns at a time.

    parts  the tile leaves in this many halves (1 or 2): two need half the buffer
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

    def __post_init__(self) -> None:
        """Triton's blocks are powers of two; products of at least 16 in every dimension."""
        for size in (self.m, self.n // self.parts, self.k):
            assert size >= 16
            assert size & (size - 1) == 0
        assert self.parts in (1, 2)


class Tile(NamedTuple):
    """A tile of a product in Gluon, as Tiled; its kernel has the rest of its configuration."""

    m: int
    n: int
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SkinnyConfig:
    """Tiles of n rows of B (the matrix unit's M side), k columns at a time, K split.

    least_steps        steps of k columns that a program makes at least
    programs_per_unit  programs per multiprocessor that the split of K aims at
    """

    n: int
    k: int
    num_warps: int
    num_stages: int
    least_steps: int = 4
    programs_per_unit: int = 2


# --- scales per tensor or per row: kernels.gemm.axiswise ------------------------------------------

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
# Architectures with less shared memory than Hopper, or without a tensor memory unit: compiled only.
SMALL: Final = (GemmConfig(m=128, n=128, k=64, num_warps=8, num_stages=3, rate=1.0),)
PINGPONG: Final = Tile(128, 128, 1.03)

# --- scales per block: kernels.gemm.blockwise -----------------------------------------------------

BLOCKS: Final = (
    GemmConfig(m=128, n=128, k=128, num_warps=8, num_stages=4, rate=1.0),
    GemmConfig(m=64, n=128, k=128, num_warps=4, num_stages=4, rate=0.91),
)
SMALL_BLOCKS: Final = (GemmConfig(m=64, n=64, k=128, num_warps=4, num_stages=2, rate=1.0),)
STAGED_SQUARES: Final = (Tile(192, 128, 1.82), Tile(128, 256, 1.74))
STAGED_STRIPS: Final = (Tile(192, 128, 1.87), Tile(128, 128, 1.72))

# --- few rows: kernels.gemm.skinny ----------------------------------------------------------------

MOST_FEW_ROWS: Final = 64  # of A: products of more rows are faster in tiles with A on the M side
FEW_ROWS: Final = SkinnyConfig(n=64, k=128, num_warps=4, num_stages=6)
# With scales per block; AMD GPUs take FEW_ROWS, as this spills there. In us on an H200, [28672,
# 8192] and [3584, 8192]: 62.4 and 12.2 with 16 rows, 68.1 and 21.1 with 64; as FEW_ROWS 75.9, 13.3,
# 89.8 and 17.1; torch's product 67.7, 15.9, 68.8 and 25.2.
FEW_ROWS_BLOCKS: Final = SkinnyConfig(n=128, k=128, num_warps=8, num_stages=4)

Choices = tuple[tuple[Tiled, ...], SkinnyConfig]  # of large products, and what few rows take

# Accumulation, or blocks with B scaled per 128 x 128 -> what Hopper chooses from.
TILES: Final[dict[str, Choices]] = {
    "fast": ((*FAST, PINGPONG), FEW_ROWS),
    "slow": (SLOW, FEW_ROWS),
    "blocks": ((*BLOCKS, *STAGED_SQUARES), FEW_ROWS_BLOCKS),
}


def choose(configs: Sequence[Config], m: int, n: int, units: int) -> Config:
    """The config of the least predicted time for an m x n output on `units` multiprocessors."""
    return min(configs, key=lambda config: _cost(config, m, n, units))


def _cost(tile: Tiled, m: Any, n: Any, units: int) -> Any:
    """Waves x area / rate, of one product or of many."""
    tiles = _parts(m, tile.m) * _parts(n, tile.n)
    return _parts(tiles, units) * tile.m * tile.n / tile.rate


def _parts(size: Any, part: Any) -> Any:
    """Parts that a size is cut in, the last of which may be smaller; whole numbers."""
    return -(-size // part)


def split_of_k(config: SkinnyConfig, n: Any, k: Any, units: int) -> Any:
    """Programs that share the K of a tile; all of them fit on the GPU at once, where possible.

    n, k: whole numbers, of one product or of many.
    """
    steps = _parts(k, config.k)
    for_all_units = config.programs_per_unit * units // _parts(n, config.n)
    split = np.maximum(1, np.minimum(for_all_units, steps // config.least_steps))
    return _parts(steps, _parts(steps, split))  # none is left without a step


def chosen_tiles(
    choices: Choices, m: Array, n: Array, k: Array, units: int
) -> tuple[Array, Array, Array]:
    """(rows, columns, split) of the tile of every product, [products, 1]."""
    configs, narrow = choices
    whole_m, whole_n, whole_k = (size.astype(np.int64) for size in (m, n, k))
    costs = np.stack([_cost(config, whole_m, whole_n, units) for config in configs])
    best = costs.argmin(axis=0)
    padded = np.select([m <= 16, m <= 32], [16.0, 32.0], float(MOST_FEW_ROWS))
    few_rows = m <= MOST_FEW_ROWS
    rows, cols = (
        np.where(few_rows, narrow_side, np.take_along_axis(sides, best, axis=0))
        for narrow_side, sides in (
            (padded, np.array([float(config.m) for config in configs])),
            (float(narrow.n), np.array([float(config.n) for config in configs])),
        )
    )
    split = np.where(few_rows, split_of_k(narrow, whole_n, whole_k, units), 1.0)
    return rows[:, None], cols[:, None], split[:, None]
