"""A matrix product by tiles and waves.

A workgroup computes a tile of rows x cols of C on one compute unit, over one of `split` parts of K.
Per tile, in clocks, with w bytes an element of A or B, and k / split for k:

    math = 2 * rows * cols * k / matrix rate
    l2   = ((rows + cols) * k * w + rows * cols * output bytes) / (l2 bandwidth / busy units)
    lds  = ((1 + reads of A) * rows + (1 + reads of B) * cols) * k * w / lds bandwidth
    tile = max(math, l2, lds)                         so that efficiency = math / tile

    waves = ceil(split * ceil(m / rows) * ceil(n / cols) / units)            wave quantisation
    sums  = 2 * split * m * n * 4 bytes / achieved bandwidth, without a split 0
    tiles = min over tiles and splits of waves * tile / (clock * matrix fraction) + sums
    t     = launch + max(tiles, least bytes / achieved bandwidth)

A split leaves partial sums in fp32, which are written and read again. Splits are powers of two; a
part of K takes as long as one of SHORTEST_K columns at least.

A product with fewer than 16 rows or columns is one pass over the weights. The long side is cut into
strips of 16. A workgroup stores its strip and the short operand in LDS once; the cache saves
nothing, because no weight is read twice:

    strips = ceil(long side / 16)
    tiles  = min over splits of
             ceil(strips * split / units) * (16 + short side) * k / split * w / lds bandwidth + sums

Source: the seed mi300_llm_inference_roofline_notebook (gemm_eff, GPU_util, membound_gemm);
docs/models.md lists what differs from it.
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofcal.core.devices import WaveDevice
from roofcal.core.recipes import BITS, GEMM_RECIPES, Recipe
from roofcal.core.times import Array
from roofcal.models.wave.operators import described_value
from roofcal.ops.gemm.tiles import least_work
from roofcal.ops.regimes import DECODE_TOKENS

_LIMITS: Final = ("math", "l2", "lds")
SKINNY_ROWS: Final = 16  # rows of the smallest matrix instruction
SHORTEST_K: Final = 256  # of a part of K: four steps of 64, the depth of a tile in flight
_SPLITS: Final = (1, 2, 4, 8, 16, 32, 64)
_SUM_BYTES: Final = 4  # of a partial sum


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
    tiles = np.where(skinny, skinny_seconds(device, BITS[recipe.a.dtype] / 8, m, n, k), tiles)
    return ProductTimes(
        launch=np.full_like(tiles, device.launch_s),
        tiles=tiles,
        limit=[_LIMITS[i] for i in np.where(skinny, _LIMITS.index("lds"), limit)],
        dram=moved / (device.stream_bytes_per_s * device.product_memory_fraction),
    )


def narrow_product_times(
    device: WaveDevice, moved: Array, m: Array, n: Array, k: Array
) -> ProductTimes:
    """Seconds of products of packed weights: tiles of bf16.

    Up to DECODE_TOKENS rows arithmetic alone bounds a tile. Beyond, it takes as long as one of the
    bf16 product, because weights are unpacked to bf16 before the same arithmetic.

    moved  bytes of packed weights, scales, zero points, activations and output
    """
    unbounded = replace(device, l2_read_bytes_per_clock=inf, lds_bytes_per_clock=inf)
    alone = product_times(unbounded, GEMM_RECIPES["bf16"], m, n, k)
    full = product_times(device, GEMM_RECIPES["bf16"], m, n, k)
    decode = np.minimum(m, n) <= DECODE_TOKENS
    limits = zip(decode, alone.limit, full.limit, strict=True)
    times = replace(
        alone,
        tiles=np.where(decode, alone.tiles, full.tiles),
        limit=[math if few else limit for few, math, limit in limits],
    )
    rate = device.stream_bytes_per_s * device.product_memory_fraction
    return replace(times, dram=moved / rate)


def tile_clocks(device: WaveDevice, recipe: Recipe, k: Array, busy: Array) -> Array:
    """Clocks of one tile by limit (math, l2, lds), by tile of the device and by shape.

    busy  compute units that share the cache, by tile and shape
    """
    rows, cols = np.array(device.tiles, dtype=float).T[:, :, None]
    width, output = BITS[recipe.a.dtype] / 8, BITS[recipe.out] / 8
    reads_of_a, reads_of_b = device.lds_reads
    rate = described_value(device, "matrix_flops_per_clock", recipe.math_dtype)
    math = 2 * rows * cols * k / rate
    cached = (rows + cols) * k * width + rows * cols * output
    stored = ((1 + reads_of_a) * rows + (1 + reads_of_b) * cols) * k * width
    return np.stack(
        [math, cached * busy / device.l2_read_bytes_per_clock, stored / device.lds_bytes_per_clock]
    )


def skinny_seconds(device: WaveDevice, width: float, m: Array, n: Array, k: Array) -> Array:
    """Seconds of loading a product of few rows into LDS; memory is in it for partial sums alone.

    width  bytes an element
    """
    strips = np.ceil(np.maximum(m, n) / SKINNY_ROWS)
    rate = device.lds_bytes_per_clock * device.clock_hz * device.matrix_fraction
    seconds = []
    for split in _SPLITS:
        waves = np.ceil(strips * split / device.compute_units)
        loaded = waves * (SKINNY_ROWS + np.minimum(m, n)) * _part_of_k(k, split) * width
        seconds.append(loaded / rate + _sums_seconds(device, split, m, n))
    least: Array = np.min(seconds, axis=0)
    return least


def _part_of_k(k: Array, split: int) -> Array:
    """Columns of a part of K, or as many as take as long as a very short one."""
    return np.asarray(np.maximum(k / split, np.minimum(k, SHORTEST_K)))


def _sums_seconds(device: WaveDevice, split: int, m: Array, n: Array) -> Array:
    """Seconds of writing and reading the partial sums of a split."""
    passes = 2 * split if split > 1 else 0
    return np.asarray(passes * m * n * _SUM_BYTES / device.stream_bytes_per_s)


def _best_tile(
    device: WaveDevice, recipe: Recipe, m: Array, n: Array, k: Array
) -> tuple[Array, NDArray[np.intp]]:
    """(seconds on the best tile and split of K, index in _LIMITS of what limits it)."""
    rows, cols = np.array(device.tiles, dtype=float).T[:, :, None]
    count = np.ceil(m / rows) * np.ceil(n / cols)
    fastest = np.full_like(m, np.inf)
    limit = np.zeros(len(m), dtype=np.intp)
    at = np.arange(len(m))
    for split in _SPLITS:
        groups = split * count
        busy = np.minimum(groups, device.compute_units)
        clocks = tile_clocks(device, recipe, _part_of_k(k, split), busy)
        waves = np.ceil(groups / device.compute_units)
        seconds = waves * clocks.max(axis=0) / (device.clock_hz * device.matrix_fraction)
        seconds = seconds + _sums_seconds(device, split, m, n)
        best = seconds.argmin(axis=0)
        faster = seconds[best, at] < fastest
        fastest = np.where(faster, seconds[best, at], fastest)
        limit = np.where(faster, clocks.argmax(axis=0)[best, at], limit)
    return fastest, limit
