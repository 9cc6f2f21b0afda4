"""Which tiles a product gets: the kernel with the least waves x area of a tile / rate.

A wave is one tile per multiprocessor. The rate is what a tile reaches of the best one in plain
Triton on a large product. Rates are those of 8192 x 8192 x 8192 on an H200 (2026-11-21), but for
tiles of 64 rows with a scale per tensor or per row: a guess. Products whose B has a scale per
1 x 128 have rates of their own, as plain Triton is slower there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import torch
import triton

from kernels.common.architecture import has_tensor_memory_unit, shared_memory_bytes

# What the largest tiles below need: 128 x 256 x 128 with four stages takes 230,432 bytes.
LARGE_TILES_BYTES: Final = 232448


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
            assert size == triton.next_power_of_2(size)
        assert self.parts in (1, 2)


def choose(configs: Sequence[Config], m: int, n: int, units: int) -> Config:
    """The config of the least predicted time for an m x n output on `units` multiprocessors."""

    def cost(config: Config) -> float:
        tiles = triton.cdiv(m, config.m) * triton.cdiv(n, config.n)
        return triton.cdiv(tiles, units) * config.m * config.n / config.rate

    return min(configs, key=cost)


def has_large_tiles(x: torch.Tensor) -> bool:
    """Whether x's GPU has the shared memory of large tiles; the interpreter has."""
    if not x.is_cuda:
        return True
    return has_tensor_memory_unit(x) and shared_memory_bytes(x) >= LARGE_TILES_BYTES
