"""The calibrated equation of a matrix product's time. How it came about: docs/models.md.

    t     = (work^r + power^r)^(1/r)                                                       r = 5
    work  = launch + (tiles^q + dram^q)^(1/q)                                              q = 2.5
    tiles = uneven * min over tile and split of
            step + (waves - 1) * (step^o + wave^o)^(1/o) + [split > 1] * split_k
    step  = (math^p + load^p + latency^p)^(1/p)                                            p = 4
      math    = 2 * tile_m * tile_n * k / tile_flops      a tile on one compute unit
      load    = (tile_m + tile_n) * k bytes / min(load, l2 / busy units)    its operands from cache
      latency = k bytes * (k_latency^2 + (crowd * busy units * empty)^2)^(1/2)
                the loop over K of a tile, however small, and the wait for rows that all units read
    dram  = least bytes / dram
    power = uneven * flops / sustained_flops      the rate that the power limit leaves

waves       ceil(tiles * split / compute units); a split divides K over `split` tiles
o           1 where a unit ends one tile before it begins the next, 2 where a family overlaps them
empty       share of a tile without rows of A, or without columns, whichever is more
misaligned  multiplies `load` where rows of A or B do not start on 32 bytes
uneven      multiplies all work where they do not start on 256 bytes
_8_byte, _odd  tile_flops and k_latency of rows of A, B or C that start on 8 bytes, or on fewer
plain       the family without tiles, for CPUs: any shape has the whole rate of the processor,
            tiles = (math^p + latency^p)^(1/p) with math = flops / (units * tile_flops)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofcal.core.dtypes import BITS, nbytes
from roofcal.core.recipes import GEMM_RECIPES
from roofcal.core.times import Array

P: Final = 4.0
Q: Final = 2.5
R: Final = 5.0
_ROW_ALIGNMENT_BYTES: Final = 32
_LINE_BYTES: Final = 256
ALIGNED_BYTES: Final = 16
_K_STEP_BYTES: Final = 128

# Tile sides as the kernel names of cuBLAS on Hopper show them: one side 64 or 128 and the other any
# of these, or a few large ones.
_SIDES: Final = (8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 192, 224, 256)
_LARGE: Final = ((192, 64), (192, 128), (192, 192), (256, 64), (256, 128))
_HALF: Final = (*((side, other) for side in (64, 128) for other in _SIDES), *_LARGE)
_ALL: Final = tuple(sorted({*_HALF, *((b, a) for a, b in _HALF)}))
_MEDIUM: Final = tuple(tile for tile in _ALL if tile[0] * tile[1] <= 128 * 160)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Tiles (rows, columns of C) a library chooses from, and whether it may split K.

    overlap: the exponent o of the module, 1 for none
    crowds: whether few rows leave tiles empty, see `empty` in the module
    """

    tiles: tuple[tuple[int, int], ...]
    splits: tuple[int, ...]
    overlap: float = 1.0
    crowds: bool = False


FAMILIES: Final[dict[str, Family]] = {
    "plain": Family(tiles=(), splits=()),
    "any_tile_split_k": Family(tiles=_ALL, splits=(1, 2, 4, 8)),
    "any_tile": Family(tiles=_ALL, splits=(1,)),
    "medium_tile_split_k": Family(tiles=_MEDIUM, splits=(1, 2, 4, 8)),
    "medium_tile": Family(tiles=_MEDIUM, splits=(1,)),
    "tile_128x128": Family(tiles=((128, 128),), splits=(1,), crowds=True),
    "tile_128x128_overlapped": Family(tiles=((128, 128),), splits=(1,), overlap=2.0),
}
FAMILY: Final = "tile_family"  # the constant that holds the choice, see roofcal.ops.constants
CEILING: Final = "ceiling_flops_per_s"  # the constant of the fastest probe

# name -> unit; the constants of one recipe, each above zero
CONSTANTS: Final[dict[str, str]] = {
    "launch_s": "s",
    "tile_flops_per_s": "flop/s per compute unit",
    "load_bytes_per_s": "B/s per compute unit",
    "l2_bytes_per_s": "B/s",
    "k_latency_s_per_byte": "s/B",
    "crowd_s_per_byte": "s/B per compute unit",
    "wave_s": "s",
    "split_k_s": "s",
    "misaligned": "1",
    "uneven": "1",
    "dram_bytes_per_s": "B/s",
    "sustained_flops_per_s": "flop/s",
    "tile_flops_8_byte_per_s": "flop/s per compute unit",
    "k_latency_8_byte_s_per_byte": "s/B",
    "tile_flops_odd_per_s": "flop/s per compute unit",
    "k_latency_odd_s_per_byte": "s/B",
}
# Constants of the paths that rows off 16 bytes take: path -> (rate, latency).
SLOW_PATHS: Final[dict[str, tuple[str, str]]] = {
    "8_byte": ("tile_flops_8_byte_per_s", "k_latency_8_byte_s_per_byte"),
    "odd": ("tile_flops_odd_per_s", "k_latency_odd_s_per_byte"),
}
REQUIRED: Final = (FAMILY,)  # constants without which a calibration is of an older roofcal
# Constants that some recipes or probes do not have, and the value that leaves them out. A slow path
# without constants of its own is taken to be as fast as the aligned one.
NEUTRAL: Final[dict[str, float]] = {
    "crowd_s_per_byte": 0.0,
    "split_k_s": 0.0,
    "misaligned": 1.0,
    "uneven": 1.0,
}
PLAIN_CONSTANTS: Final = (
    "launch_s",
    "tile_flops_per_s",
    "k_latency_s_per_byte",
    "dram_bytes_per_s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Seconds per point, vectorised; `total` is not their sum, see the module."""

    launch: Array
    tiles: Array
    dram: Array
    power: Array
    total: Array

    @property
    def bound_by(self) -> list[str]:
        """The largest part of each point: launch, tiles, dram or power."""
        names = ("launch", "tiles", "dram", "power")
        stacked = np.stack([getattr(self, name) for name in names])
        return [names[index] for index in stacked.argmax(axis=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """What the model needs of many shapes of one recipe, computed once for any constants."""

    flops: Array
    unit_flops: Array
    dram_bytes: Array
    k_bytes: Array
    misaligned: NDArray[np.bool_]
    uneven: NDArray[np.bool_]
    alignment: NDArray[np.int64]
    step_flops: Array
    step_k_bytes: Array
    step_load_bytes: Array
    waves: Array
    busy_units: Array
    crowd: Array
    split: NDArray[np.bool_]

    @property
    def path(self) -> NDArray[np.str_]:
        """Which kernels each shape can take: "aligned", "8_byte" or "odd"."""
        small = [self.alignment == ALIGNED_BYTES, self.alignment == 8]
        return np.select(small, ["aligned", "8_byte"], "odd")


def describe(recipe: str, m: Array, n: Array, k: Array, family: str, compute_units: int) -> Shapes:
    """Shapes of vectors m, n, k (float64) on a device of `compute_units`; KeyError for names."""
    width = BITS[GEMM_RECIPES[recipe].a.dtype] / 8
    flops, dram = least_work(recipe, m, n, k)
    rows, cols, splits = _choices(family)
    count = np.ceil(m[:, None] / rows) * np.ceil(n[:, None] / cols) * splits
    busy = np.minimum(count, compute_units)
    step_k = np.ceil(k[:, None] / splits * width / _K_STEP_BYTES) * _K_STEP_BYTES
    return Shapes(
        flops=flops,
        unit_flops=flops / compute_units,
        dram_bytes=dram,
        k_bytes=k * width,
        misaligned=(k[:, None] * width) % _ROW_ALIGNMENT_BYTES != 0,
        uneven=(k * width) % _LINE_BYTES != 0,
        alignment=row_alignment(recipe, n, k),
        step_flops=2 * rows * cols * step_k / width,
        step_k_bytes=step_k,
        step_load_bytes=step_k * (rows + cols),
        waves=np.ceil(count / compute_units),
        busy_units=busy,
        crowd=busy * _empty(m, n, rows, cols) * FAMILIES[family].crowds,
        split=splits > 1,
    )


def _empty(m: Array, n: Array, rows: Array, cols: Array) -> Array:
    """Share of a tile's rows or columns, whichever is more, that hold nothing."""
    filled = np.minimum(m[:, None] / rows, n[:, None] / cols)
    empty: Array = np.maximum(1 - filled, 0.0)
    return empty


@cache
def _choices(family: str) -> tuple[Array, Array, Array]:
    """(rows, columns, split) of every choice of a family, as vectors of equal length."""
    found = FAMILIES[family]
    every = [(a, b, s) for a, b in found.tiles for s in found.splits] or [(1, 1, 1)]
    rows, cols, splits = np.array(every, dtype=float).T
    return rows, cols, splits


def row_alignment(recipe: str, n: Array, k: Array) -> NDArray[np.int64]:
    """Bytes, at most 16, on which every row of A, B and C starts."""
    spec = GEMM_RECIPES[recipe]
    read = (k * BITS[spec.a.dtype] / 8).astype(np.int64)
    written = (n * BITS[spec.out] / 8).astype(np.int64)
    alignment: NDArray[np.int64] = np.gcd(np.gcd(read, written), ALIGNED_BYTES)
    return alignment


def least_work(recipe: str, m: Array, n: Array, k: Array) -> tuple[Array, Array]:
    """(flops, bytes) of roofcal.core.work.gemm_work for vectors of sizes; KeyError for a recipe."""
    spec = GEMM_RECIPES[recipe]
    return 2 * m * n * k, spec.a.nbytes(m, k) + spec.b.nbytes(n, k) + nbytes(spec.out, m * n)


def evaluate(constants: Mapping[str, float], shapes: Shapes, family: str) -> Parts:
    """Seconds of every shape; raises KeyError for a missing constant that is not in NEUTRAL."""
    constants = NEUTRAL | dict(constants)
    launch = np.full_like(shapes.flops, constants["launch_s"])
    dram = shapes.dram_bytes / constants["dram_bytes_per_s"]
    if family == "plain":
        tiles = _norm(
            P, shapes.unit_flops / constants["tile_flops_per_s"], _k_latency(constants, shapes)
        )
        power = np.zeros_like(tiles)
    else:
        slower = np.where(shapes.uneven, constants["uneven"], 1.0)
        tiles = _tile_time(constants, shapes, FAMILIES[family].overlap) * slower
        power = shapes.flops / constants["sustained_flops_per_s"] * slower
    return joined(launch, tiles, dram, power)


def joined(launch: Array, tiles: Array, dram: Array, power: Array) -> Parts:
    """The parts with their total: `work` beside `power`, see the module."""
    total = _norm(R, launch + _norm(Q, tiles, dram), power)
    return Parts(launch=launch, tiles=tiles, dram=dram, power=power, total=total)


def _k_latency(constants: Mapping[str, float], shapes: Shapes) -> Array:
    return shapes.k_bytes * constants["k_latency_s_per_byte"]


def _tile_time(constants: Mapping[str, float], shapes: Shapes, overlap: float) -> Array:
    bandwidth = np.minimum(
        constants["load_bytes_per_s"], constants["l2_bytes_per_s"] / shapes.busy_units
    )
    slower = np.where(shapes.misaligned, constants["misaligned"], 1.0)
    rate, k_latency = _path_constants(constants, shapes)
    math = shapes.step_flops / rate[:, None]
    load = shapes.step_load_bytes / bandwidth * slower
    crowd = shapes.crowd * constants["crowd_s_per_byte"]
    latency = shapes.step_k_bytes * np.hypot(k_latency[:, None], crowd)
    # The norm with p = 4 by squares and roots: a general power costs ten times as much.
    step = np.sqrt(np.sqrt(math**2 * math**2 + load**2 * load**2 + latency**2 * latency**2))
    wave = constants["wave_s"]
    further = step + wave if overlap == 1 else (step**overlap + wave**overlap) ** (1 / overlap)
    time = step + (shapes.waves - 1) * further + shapes.split * constants["split_k_s"]
    best: Array = time.min(axis=1)
    return best


def _path_constants(constants: Mapping[str, float], shapes: Shapes) -> tuple[Array, Array]:
    """(rate of a tile, latency of its loop over K) of each shape, by the alignment of its rows."""
    fast = (constants["tile_flops_per_s"], constants["k_latency_s_per_byte"])
    # By number, not by `path`: comparing words took half of the time of a fit.
    on_8_byte, below = shapes.alignment == 8, shapes.alignment < 8
    chosen = []
    for i, value in enumerate(fast):
        eight, odd = (constants.get(SLOW_PATHS[path][i], value) for path in ("8_byte", "odd"))
        chosen.append(np.where(below, odd, np.where(on_8_byte, eight, value)))
    return chosen[0], chosen[1]


def _norm(power: float, *parts: Array) -> Array:
    """(a^p + b^p + ...)^(1/p), scaled by the largest part so that nothing underflows."""
    largest = parts[0]
    for part in parts[1:]:
        largest = np.maximum(largest, part)
    total: Array = sum((part / largest) ** power for part in parts)  # type: ignore[assignment]
    return largest * total ** (1 / power)
