"""A matrix product by tiles and waves.

A workgroup computes a tile of rows x cols of C on one compute unit, over the whole of K. Per tile,
in clocks, with w bytes an element of A or B:

    math = 2 * rows * cols * k / matrix rate
    l2   = ((rows + cols) * k * w + rows * cols * output bytes) / (l2 bandwidth / busy units)
    lds  = ((1 + reads of A) * rows + (1 + reads of B) * cols) * k * w / lds bandwidth
    tile = max(math, l2, lds)                         so that efficiency = math / tile

    waves = ceil(ceil(m / rows) * ceil(n / cols) / units)                    wave quantisation
    tiles = min over tiles of waves * tile / (clock * matrix fraction)
    t     = launch + max(tiles, least bytes / achieved bandwidth)

A product with fewer than 16 rows or columns is one pass over the weights. The long side is cut into
strips of 16, and K into 4, 2 or 1 parts so that every compute unit has something to read. A
workgroup stores its strip and the short operand in LDS once; the cache saves nothing, because no
weight is read twice:

    strips = ceil(long side / 16); split = 4 up to one strip a unit, 2 up to two, else 1
    tiles  = ceil(strips * split / units) * (16 + short side) * k / split * w / lds bandwidth

Source: the seed mi300_llm_inference_roofline_notebook (gemm_eff, GPU_util, membound_gemm);
docs/models.md lists what differs from it.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofcal.core.dtypes import BITS
from roofcal.core.recipes import GEMM_RECIPES, Recipe
from roofcal.core.times import Array
from roofcal.core.wave_device import WaveDevice
from roofcal.models.wave.operator_time import OperatorTime, check_sizes, described_value
from roofcal.ops.gemm.model import least_work

_LIMITS: Final = ("math", "l2", "lds")
SKINNY_ROWS: Final = 16  # rows of the smallest matrix instruction


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductTimes:
    """Seconds of many products, vectors of equal length.

    tiles  computing; the name of what limits a tile is in `limit`
    dram   moving every operand and the result once
    """

    launch: Array
    tiles: Array
    limit: list[str]
    dram: Array

    @property
    def total(self) -> Array:
        """A launch, then whatever takes longer."""
        result: Array = self.launch + np.maximum(self.tiles, self.dram)
        return result

    @property
    def bound_by(self) -> list[str]:
        """The largest part of each: launch, dram, or what limits its tiles."""
        return [
            "launch" if launch > max(tiles, dram) else limit if tiles >= dram else "dram"
            for launch, tiles, dram, limit in zip(
                self.launch, self.tiles, self.dram, self.limit, strict=True
            )
        ]


def product_times(device: WaveDevice, recipe: Recipe, m: Array, n: Array, k: Array) -> ProductTimes:
    """Seconds of C[M,N] = A[M,K] @ B[N,K].T; raises PredictError for a dtype without a rate."""
    _, moved = least_work(recipe.name, m, n, k)
    tiles, limit = _best_tile(device, recipe, m, n, k)
    skinny = np.minimum(m, n) < SKINNY_ROWS
    tiles = np.where(skinny, skinny_seconds(device, _operand_bytes(recipe), m, n, k), tiles)
    return ProductTimes(
        launch=np.full_like(tiles, device.launch_s),
        tiles=tiles,
        limit=[_LIMITS[i] for i in np.where(skinny, _LIMITS.index("lds"), limit)],
        dram=moved / (device.stream_bytes_per_s * device.product_memory_fraction),
    )


def product(device: WaveDevice, recipe: str, m: int, n: int, k: int) -> OperatorTime:
    """One product; raises PredictError for bad sizes or a dtype without a rate.

    Raises KeyError for an unknown recipe.
    """
    check_sizes(f"product {recipe}", m=m, n=n, k=k)
    sizes = (np.array([float(size)]) for size in (m, n, k))
    times = product_times(device, GEMM_RECIPES[recipe], *sizes)
    parts = {
        "launch": device.launch_s,
        times.limit[0]: float(times.tiles[0]),
        "dram": float(times.dram[0]),
    }
    return OperatorTime(total_s=float(times.total[0]), bound_by=times.bound_by[0], parts=parts)


def tile_clocks(device: WaveDevice, recipe: Recipe, k: Array, busy: Array) -> Array:
    """Clocks of one tile by limit (math, l2, lds), by tile of the device and by shape.

    busy  compute units that share the cache, by tile and shape
    """
    rows, cols = _tile_sides(device)
    width, output = _operand_bytes(recipe), BITS[recipe.out] / 8
    reads_of_a, reads_of_b = device.lds_reads
    rate = described_value(device, "matrix_flops_per_clock", recipe.math_dtype)
    math = 2 * rows * cols * k / rate
    cached = (rows + cols) * k * width + rows * cols * output
    stored = ((1 + reads_of_a) * rows + (1 + reads_of_b) * cols) * k * width
    return np.stack(
        [math, cached * busy / device.l2_read_bytes_per_clock, stored / device.lds_bytes_per_clock]
    )


def skinny_seconds(device: WaveDevice, width: float, m: Array, n: Array, k: Array) -> Array:
    """Seconds of loading a product of few rows into LDS; memory is not in it.

    width  bytes an element
    """
    strips = np.ceil(np.maximum(m, n) / SKINNY_ROWS)
    split = split_k(device, strips)
    waves = np.ceil(strips * split / device.compute_units)
    loaded = (SKINNY_ROWS + np.minimum(m, n)) * k / split * width
    clocks: Array = waves * loaded / device.lds_bytes_per_clock
    return clocks / (device.clock_hz * device.matrix_fraction)


def split_k(device: WaveDevice, strips: Array) -> Array:
    """The number of parts that K is cut into: more parts for fewer strips."""
    per_unit = strips / device.compute_units
    return np.select([per_unit <= 1, per_unit <= 2], [4.0, 2.0], 1.0)


def _best_tile(
    device: WaveDevice, recipe: Recipe, m: Array, n: Array, k: Array
) -> tuple[Array, NDArray[np.intp]]:
    """(seconds on the best tile, index in _LIMITS of what limits it)."""
    rows, cols = _tile_sides(device)
    count = np.ceil(m / rows) * np.ceil(n / cols)
    clocks = tile_clocks(device, recipe, k, np.minimum(count, device.compute_units))
    waves = np.ceil(count / device.compute_units)
    seconds = waves * clocks.max(axis=0) / (device.clock_hz * device.matrix_fraction)
    best = seconds.argmin(axis=0)
    at = np.arange(len(m))
    return seconds[best, at], clocks.argmax(axis=0)[best, at]


def _tile_sides(device: WaveDevice) -> tuple[Array, Array]:
    """Rows and columns of the tiles, as columns of a matrix."""
    rows, cols = np.array(device.tiles, dtype=float).T[:, :, None]
    return rows, cols


def _operand_bytes(recipe: Recipe) -> float:
    """Bytes of an element of A or B."""
    return BITS[recipe.a.dtype] / 8
