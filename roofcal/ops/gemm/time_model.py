"""The calibrated model of a matrix product's time: equations, no numbers.

It stands in the op's layer because two stages use it that may not import each other: calibrate fits
its constants on probes, predict evaluates it.

    t = launch + (tiles^q + dram^q + power^q)^(1/q)                                        q = 2.5
    tiles = min over tile and split of
            waves * step + (waves - 1) * wave + [split > 1] * split_k
    step  = (math^p + load^p + latency^p)^(1/p)                                            p = 4
      math    = 2 * tile_m * tile_n * k / tile_flops      a tile on one compute unit
      load    = (tile_m + tile_n) * k bytes / min(load, l2 / busy units)    its operands from cache
      latency = k bytes * k_latency                       the loop over K of a tile, however small
    dram  = least bytes / dram
    power = flops / sustained_flops      the rate that the power limit leaves a large product

waves = ceil(tiles * split / compute units): wave quantisation. A split divides K over `split`
tiles. Rows that do not start on 32 bytes multiply `load` by `misaligned`. The norms with p and q
are conventions: sums overestimate, maxima underestimate where two parts are alike.

Which tiles a library has is a property of the recipe: on an H200, cuBLASLt runs axiswise fp8 on
128 x 128 tiles alone, without splitting K (kernel names in the probe records). So a `family` of
tiles is chosen by cross-validation on the probes. `plain` has no tiles: a processor whose whole
rate is available to any shape (used for CPUs).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofcal.model.dtypes import BITS
from roofcal.model.recipes import GEMM_RECIPES, Operand

Array = NDArray[np.float64]

P: Final = 4.0
Q: Final = 2.5
_ROW_ALIGNMENT_BYTES: Final = 32
_K_STEP_BYTES: Final = 128

_HALF: Final = (
    (64, 8),
    (64, 16),
    (64, 32),
    (64, 64),
    (128, 64),
    (128, 96),
    (128, 128),
    (128, 192),
    (128, 256),
    (192, 192),
    (64, 256),
)
_ALL: Final = tuple(sorted({*_HALF, *((b, a) for a, b in _HALF)}))
_MEDIUM: Final = tuple(tile for tile in _ALL if tile[0] * tile[1] <= 128 * 160)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Tiles (rows, columns of C) a library chooses from, and whether it may split K."""

    code: int
    tiles: tuple[tuple[int, int], ...]
    splits: tuple[int, ...]


FAMILIES: Final[dict[str, Family]] = {
    "plain": Family(code=0, tiles=(), splits=()),
    "any_tile_split_k": Family(code=1, tiles=_ALL, splits=(1, 2, 4, 8)),
    "any_tile": Family(code=2, tiles=_ALL, splits=(1,)),
    "medium_tile_split_k": Family(code=3, tiles=_MEDIUM, splits=(1, 2, 4, 8)),
    "medium_tile": Family(code=4, tiles=_MEDIUM, splits=(1,)),
    "tile_128x128": Family(code=5, tiles=((128, 128),), splits=(1,)),
}
BY_CODE: Final = {family.code: name for name, family in FAMILIES.items()}

# name -> unit; the constants of one recipe, each above zero
CONSTANTS: Final[dict[str, str]] = {
    "launch_s": "s",
    "tile_flops_per_s": "flop/s per compute unit",
    "load_bytes_per_s": "B/s per compute unit",
    "l2_bytes_per_s": "B/s",
    "k_latency_s_per_byte": "s/B",
    "wave_s": "s",
    "split_k_s": "s",
    "misaligned": "1",
    "dram_bytes_per_s": "B/s",
    "sustained_flops_per_s": "flop/s",
}
PLAIN_CONSTANTS: Final = ("launch_s", "tile_flops_per_s", "k_latency_s_per_byte", "dram_bytes_per_s")


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
    dram_bytes: Array
    k_bytes: Array
    misaligned: NDArray[np.bool_]
    step_flops: Array
    step_k_bytes: Array
    step_load_bytes: Array
    waves: Array
    busy_units: Array
    split: NDArray[np.bool_]


def describe(
    recipe: str, m: Array, n: Array, k: Array, family: str, compute_units: int
) -> Shapes:
    """Shapes of vectors m, n, k (float64) on a device of `compute_units`; KeyError for names."""
    width = BITS[GEMM_RECIPES[recipe].a.dtype] / 8
    flops, dram = _least(recipe, m, n, k)
    tiles = np.array(FAMILIES[family].tiles or ((1, 1),), dtype=float)
    splits = np.array(FAMILIES[family].splits or (1,), dtype=float)[None, None, :]
    rows, cols = tiles[:, 0][None, :, None], tiles[:, 1][None, :, None]
    m3, n3, k3 = (x[:, None, None] for x in (m, n, k))
    count = np.ceil(m3 / rows) * np.ceil(n3 / cols) * splits
    step_k = np.ceil(k3 / splits * width / _K_STEP_BYTES) * _K_STEP_BYTES
    return Shapes(
        flops=flops,
        dram_bytes=dram,
        k_bytes=k * width,
        misaligned=(k3 * width) % _ROW_ALIGNMENT_BYTES != 0,
        step_flops=2 * rows * cols * step_k / width,
        step_k_bytes=step_k,
        step_load_bytes=step_k * (rows + cols),
        waves=np.ceil(count / compute_units),
        busy_units=np.minimum(count, compute_units),
        split=np.broadcast_to(splits > 1, count.shape),
    )


def _least(recipe: str, m: Array, n: Array, k: Array) -> tuple[Array, Array]:
    """(flops, bytes) of model.work.gemm_work for vectors of sizes; a test compares the two."""
    spec = GEMM_RECIPES[recipe]
    read = _operand_bytes(spec.a, m, k) + _operand_bytes(spec.b, n, k)
    return 2 * m * n * k, read + BITS[spec.out] / 8 * m * n


def _operand_bytes(operand: Operand, rows: Array, cols: Array) -> Array:
    elements = BITS[operand.dtype] / 8 * rows * cols
    if operand.scale is None:
        return elements
    scales = rows if operand.scale.rows == 1 else np.ones_like(rows)
    return elements + BITS[operand.scale.dtype] / 8 * scales


def evaluate(constants: Mapping[str, float], shapes: Shapes, family: str) -> Parts:
    """Seconds of every shape; raises KeyError for a missing constant."""
    launch = np.full_like(shapes.flops, constants["launch_s"])
    dram = shapes.dram_bytes / constants["dram_bytes_per_s"]
    if family == "plain":
        tiles = _norm(P, shapes.flops / constants["tile_flops_per_s"], _k_latency(constants, shapes))
        power = np.zeros_like(tiles)
    else:
        tiles = _tile_time(constants, shapes)
        power = shapes.flops / constants["sustained_flops_per_s"]
    total = launch + _norm(Q, tiles, dram, power)
    return Parts(launch=launch, tiles=tiles, dram=dram, power=power, total=total)


def _k_latency(constants: Mapping[str, float], shapes: Shapes) -> Array:
    return shapes.k_bytes * constants["k_latency_s_per_byte"]


def _tile_time(constants: Mapping[str, float], shapes: Shapes) -> Array:
    bandwidth = np.minimum(
        constants["load_bytes_per_s"], constants["l2_bytes_per_s"] / shapes.busy_units
    )
    slower = np.where(shapes.misaligned, constants["misaligned"], 1.0)
    step = _norm(
        P,
        shapes.step_flops / constants["tile_flops_per_s"],
        shapes.step_load_bytes / bandwidth * slower,
        shapes.step_k_bytes * constants["k_latency_s_per_byte"],
    )
    time = shapes.waves * step + (shapes.waves - 1) * constants["wave_s"]
    time = time + shapes.split * constants["split_k_s"]
    best: Array = time.min(axis=(1, 2))
    return best


def _norm(power: float, *parts: Array) -> Array:
    """(a^p + b^p + ...)^(1/p), scaled by the largest part so that nothing underflows."""
    largest = parts[0]
    for part in parts[1:]:
        largest = np.maximum(largest, part)
    total: Array = sum((part / largest) ** power for part in parts)  # type: ignore[assignment]
    return largest * total ** (1 / power)
