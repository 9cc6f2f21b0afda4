"""The calibrated equation of a matrix product's time. How it came about: docs/models.md.

    t     = (work^r + power^r)^(1/r)                                                       r = 4
    work  = launch + min over tile and split of (tiles^q + dram^q)^(1/q) + sums            q = 2
    tiles = uneven * (step + (waves - 1) * (step^o + wave^o)^(1/o) + waves * store)
    step  = (math^p + load^p + latency^p)^(1/p)                                            p = 4
      math    = 2 * tile_m * tile_n * k / tile_flops      a tile on one compute unit
      load    = (rows + columns) * k bytes / min(load, l2 / busy units)     its operands from cache
      latency = k bytes * (k_latency^2 + (crowd * busy units * empty)^2)^(1/2)
                the loop over K of a tile, however small, and the wait for rows that all units read
    store = 2 bytes * tile_m * tile_n / store      the end of a tile, where tiles differ in size
    sums  = [split > 1] * (split_k + split * piece + sums' bytes / piece_bytes)
                adding up the parts of K, which begins when all of them are stored
    dram  = least bytes / dram
    power = uneven * flops / sustained_flops      the rate that the power limit leaves

waves       ceil(tiles * split / compute units); a split divides K over `split` tiles
o           1 where a unit ends one tile before it begins the next, 2 where a family overlaps them
rows, columns  of a tile that hold something: the others are not loaded
empty       share of a tile without rows of A, or without columns, whichever is more
sums        fp32 sums of all parts of K: of C, which a second kernel adds (libraries); of one tile,
            which its last program adds (our kernels)
misaligned  multiplies `load` where rows of A or B do not start on 32 bytes
uneven      multiplies all work where they do not start on 256 bytes
_8_byte, _odd  tile_flops and k_latency of rows of A, B or C that start on 8 bytes, or on fewer
ours_*      our kernels on Hopper: tile and split by their own rule (kernels/gemm/rule.py), no
            latency in products of few rows, whose loop over K is short
plain       a family without tiles, for CPUs: any shape has the whole rate of the processor,
            tiles = (math^p + latency^p)^(1/p) with math = flops / (units * tile_flops)
packed*     families for CPUs, with another equation: see the module `packed` beside
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofcal.core.recipes import BITS, GEMM_RECIPES, nbytes
from roofcal.core.times import Array, Value
from roofcal.ops.constant import NO_LIMIT, Constant, Search, by_name, neutral_values
from roofcal.ops.kernel_rules import gemm as gemm_rule
from roofcal.ops.regimes import (
    DECODE_TOKENS,
    MID_SIDE,
    RAGGED_MULTIPLE,
    SKINNY_K,
    SMALL_SIDE,
    gemm_regime,
)

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
_SPLITS: Final = (1, 2, 3, 4, 6, 8, 12, 16)
_MEDIUM: Final = tuple(tile for tile in _ALL if tile[0] * tile[1] <= 128 * 160)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Tiles (rows, columns of C) a library chooses from, and whether it may split K.

    overlaps: whether a unit overlaps its tiles, the exponent o = 2 of the module
    crowds: whether few rows leave tiles empty, see `empty` in the module
    rule: of our kernels, by which a shape has one tile and split (kernels/gemm/rule.py)
    """

    tiles: tuple[tuple[int, int], ...] = ()
    splits: tuple[int, ...] = ()
    overlaps: bool = False
    crowds: bool = False
    rule: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether products are cut in no tiles."""
        return not self.tiles and not self.rule


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedFamily(Family):
    """Of a processor, see the module `packed`; constants: those of its equation."""

    constants: tuple[str, ...]


_PACKED: Final = (
    "launch_s",
    "side_s",
    "tile_flops_per_s",
    "direct_flops_per_s",
    "dram_bytes_per_s",
)
_APART: Final = (*_PACKED, "pack_a_bytes_per_s", "pack_b_bytes_per_s")
_FAR: Final = ("near_bytes", "far")

FAMILIES: Final[dict[str, Family]] = {
    "plain": Family(),
    "any_tile_split_k": Family(tiles=_ALL, splits=_SPLITS),
    "any_tile": Family(tiles=_ALL, splits=(1,)),
    "medium_tile_split_k": Family(tiles=_MEDIUM, splits=_SPLITS),
    "medium_tile": Family(tiles=_MEDIUM, splits=(1,)),
    "tile_128x128": Family(tiles=((128, 128),), splits=(1,), crowds=True),
    "tile_128x128_overlapped": Family(tiles=((128, 128),), splits=(1,), overlaps=True),
    "tile_128x128_split_k": Family(tiles=((128, 128),), splits=_SPLITS, crowds=True),
    "ours_fast": Family(rule="fast"),
    "ours_slow": Family(rule="slow"),
    "ours_blocks": Family(rule="blocks"),
    "packed_alike": PackedFamily(constants=(*_PACKED, "pack_bytes_per_s")),
    "packed": PackedFamily(constants=_APART),
    "packed_far": PackedFamily(constants=(*_APART, *_FAR)),
    "packed_stores": PackedFamily(constants=(*_APART, "update_bytes_per_s")),
}
FAMILY: Final = "tile_family"  # the constant that holds the choice, see roofcal.ops.constants
CEILING: Final = "ceiling_flops_per_s"  # the constant of the fastest probe
# Conversions of fp8 take a hundred times as long as the stream of the bytes.
_COPYING: Final = Search(0.5, 0.002, 30, "stream")

# The constants of one recipe, in the order of tables. `rate` is that of the fastest probe.
TABLE: Final = by_name(
    Constant("sustained_flops_per_s", "flop/s", "Rate the power limit sustains",
             # From the fastest probe itself, some searches end in a worse minimum.
             Search(1, 0.65, 1.7, "rate"), NO_LIMIT, "power", datasheet="peak"),
    Constant("launch_s", "s", "Start of a product", Search(0.9, 0.02, 2, "time"),
             on_cpu=Search(0.5, 0.02, 2, "time"), group="aligned"),
    Constant("tile_flops_per_s", "flop/s per compute unit", "Rate of one compute unit in a tile",
             Search(1.5, 0.7, 2.1, "unit_rate"), NO_LIMIT, "aligned",
             on_cpu=Search(1.5, 0.7, 6, "unit_rate")),
    Constant("load_bytes_per_s", "B/s per compute unit", "Loads of one compute unit",
             Search(1.2e11, 1.5e10, 1e12), NO_LIMIT, "aligned"),
    Constant("l2_bytes_per_s", "B/s", "Loads of all units from cache",
             Search(2, 0.5, 12, "stream"), NO_LIMIT, "aligned"),
    Constant("k_latency_s_per_byte", "s/B", "Latency along K",
             Search(7e-10, 7e-12, 9e-9), 0.0, "aligned"),
    # A slow path without constants of its own is as fast as the aligned one.
    Constant("tile_flops_8_byte_per_s", "flop/s per compute unit",
             "Rate of one compute unit, rows on 8 bytes",
             Search(0.3, 0.02, 1, "unit_rate"), group="8_byte"),
    Constant("k_latency_8_byte_s_per_byte", "s/B", "Latency along K, rows on 8 bytes",
             Search(4e-9, 1e-10, 4e-8), group="8_byte"),
    Constant("tile_flops_odd_per_s", "flop/s per compute unit",
             "Rate of one compute unit, other rows",
             Search(0.15, 0.02, 1, "unit_rate"), group="odd"),
    Constant("k_latency_odd_s_per_byte", "s/B", "Latency along K, other rows",
             Search(7e-9, 1e-10, 4e-8), group="odd"),
    Constant("crowd_s_per_byte", "s/B per compute unit", "Wait per unit that reads the same rows",
             Search(1e-11, 1e-13, 2e-10), 0.0, "aligned"),
    Constant("wave_s", "s", "Start of a further wave", Search(5e-7, 2e-8, 3e-6), 0.0, "aligned"),
    Constant("split_k_s", "s", "Price of splitting K",
             Search(1.5e-6, 1.5e-7, 1.5e-5), 0.0, "aligned"),
    Constant("store_bytes_per_s", "B/s per compute unit",
             "End of a tile: stores of one compute unit",
             Search(1e11, 1e9, 1e13), NO_LIMIT, "aligned"),
    Constant("piece_s", "s", "Price of each part of a split K",
             Search(1e-7, 1e-9, 1e-6), 0.0, "aligned"),
    Constant("piece_bytes_per_s", "B/s", "Adding up the sums of a split K",
             Search(1e11, 1e9, 1e13), NO_LIMIT, "aligned"),
    Constant("misaligned", "1", "Slow-down of misaligned rows",
             Search(1.3, 1.0, 2.0), 1.0, "aligned"),
    Constant("uneven", "1", "Slow-down of rows off 256 bytes",
             Search(1.02, 0.97, 1.15), 1.0, "aligned"),
    Constant("side_s", "s", "Price of a row or a column",
             Search(1e-3, 1e-6, 0.1, "time"), 0.0, "cpu"),
    # 1 / NO_LIMIT: nothing is multiplied unpacked
    Constant("direct_flops_per_s", "flop/s", "Rate of products without packing",
             Search(0.1, 1e-3, 0.3, "rate"), 1 / NO_LIMIT, "cpu"),
    Constant("pack_bytes_per_s", "B/s", "Packing of the operands", _COPYING, NO_LIMIT, "cpu"),
    Constant("pack_a_bytes_per_s", "B/s", "Packing of A", _COPYING, NO_LIMIT, "cpu"),
    Constant("pack_b_bytes_per_s", "B/s", "Packing of B", _COPYING, NO_LIMIT, "cpu"),
    Constant("update_bytes_per_s", "B/s", "Writing of C", _COPYING, NO_LIMIT, "cpu"),
    Constant("near_bytes", "B", "Weights that stay in the cache",
             Search(4e6, 5e5, 6.4e7), NO_LIMIT, "cpu"),
    Constant("far", "1", "Slow-down of larger weights", Search(0.3, 0.01, 4.0), 0.0, "cpu"),
    # The bandwidth is the device's, and the streams have measured it.
    Constant("dram_bytes_per_s", "B/s", "Memory bandwidth in products",
             Search(0.97, 0.75, 1.02, "stream"), group="memory",
             on_cpu=Search(0.5, 0.002, 3, "stream"), datasheet="dram_bytes_per_s"),
)  # fmt: skip
# In the order of the search, which decides the last bits of a fit.
_SEARCHED: Final = ("aligned", "memory", "power", "8_byte", "odd", "cpu")
CONSTANTS: Final = {
    name: constant
    for group in _SEARCHED
    for name, constant in TABLE.items()
    if constant.group == group
}
TILED_CONSTANTS: Final = tuple(name for name, c in CONSTANTS.items() if c.group != "cpu")
# (rate, latency) of a tile, and by path those of rows off 16 bytes.
_ALIGNED_PATH: Final = ("tile_flops_per_s", "k_latency_s_per_byte")
SLOW_PATHS: Final[dict[str, tuple[str, ...]]] = {
    path: tuple(name for name, constant in CONSTANTS.items() if constant.group == path)
    for path in ("8_byte", "odd")
}
EQUATION: Final = 4  # see roofcal.ops.equations; 1 is of calibrations that state none
REQUIRED: Final = (FAMILY,)  # constants without which a calibration is of an older roofcal
NEUTRAL: Final = neutral_values(CONSTANTS)
# Sides that fill tiles, as those of layers do. Of 128, 256 and 512, the one with the best interval
# scores of an H200's probes left out: 0.43, 0.46 and 0.52 (0.50 if they are not told apart).
WHOLE_TILES: Final = 128
_REGIMES: Final = {
    "decode": f"up to {DECODE_TOKENS} rows or columns",
    "skinny_k": f"a K of up to {SKINNY_K} and sides of four times that",
    "small": f"sides of up to {SMALL_SIDE} in the mean",
    "mid": f"sides of up to {MID_SIDE} in the mean",
    "large": f"sides beyond {MID_SIDE} in the mean",
}
# group of shapes whose errors make an interval -> what it has, in words
GROUPS: Final[dict[str, str]] = {
    "unaligned": f"rows of A, B or C off {ALIGNED_BYTES} bytes",
    "partial.ragged": f"sides off multiples of {RAGGED_MULTIPLE}",
    **{f"whole.{name}": f"{words}, in whole tiles" for name, words in _REGIMES.items()},
    **{f"partial.{name}": f"{words}, in partial tiles" for name, words in _REGIMES.items()},
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
    sums: Array
    dram: Array
    power: Array
    total: Array

    @property
    def bound_by(self) -> list[str]:
        """The largest part of each point: launch, tiles, dram or power.

        The sums of a split K count as `launch`: most of their time is the start of a second kernel.
        """
        names = ("launch", "tiles", "dram", "power")
        stacked = np.stack([self.launch + self.sums, self.tiles, self.dram, self.power])
        return [names[index] for index in stacked.argmax(axis=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceSeconds:
    """Seconds on each choice of tile and split: `tiles` and `sums` of the module.

    both: (tiles^q + dram^q)^(1/q) + sums, which the best choice has least of
    """

    tiles: Array
    sums: Array
    both: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class TileChoices:
    """What the time on each choice of tile and split depends on, for any constants.

    Arrays that broadcast together: [shapes, choices] as `describe` makes them.
    flops, k_bytes, load_bytes, store_bytes: of one tile, or of its part of K where K is split.
    sum_bytes: of the sums of all parts of K, 0 without a split
    dram_bytes: of the product
    """

    flops: Array
    k_bytes: Array
    load_bytes: Array
    store_bytes: Array
    waves: Array
    busy_units: Array
    crowd: Array
    is_split: NDArray[np.bool_]
    pieces: Array
    sum_bytes: Array
    dram_bytes: Array
    has_few_rows: NDArray[np.bool_]
    is_misaligned: NDArray[np.bool_]
    is_uneven: NDArray[np.bool_]
    alignment: NDArray[np.int64]

    @property
    def is_one_size(self) -> bool:
        """Whether all tiles have one size."""
        return len(np.unique(self.store_bytes)) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """What the model needs of many shapes of one recipe, computed once for any constants."""

    flops: Array
    unit_flops: Array
    dram_bytes: Array
    k_bytes: Array
    is_uneven: NDArray[np.bool_]
    alignment: NDArray[np.int64]
    choices: TileChoices

    @property
    def path(self) -> NDArray[np.str_]:
        """Which kernels each shape can take: "aligned", "8_byte" or "odd"."""
        small = [self.alignment == ALIGNED_BYTES, self.alignment == 8]
        return np.select(small, ["aligned", "8_byte"], "odd")


def describe(recipe: str, m: Array, n: Array, k: Array, family: str, compute_units: int) -> Shapes:
    """Shapes of vectors m, n, k (float64) on a device of `compute_units`; KeyError for names."""
    width = BITS[GEMM_RECIPES[recipe].a.dtype] / 8
    flops, dram = least_work(recipe, m, n, k)
    alignment = row_alignment_bytes(recipe, n, k)
    rule = FAMILIES[family].rule
    rows, cols, splits = (
        gemm_rule.chosen_tiles(rule, m, n, k, compute_units) if rule else _tile_choices(family)
    )
    count = np.ceil(m[:, None] / rows) * np.ceil(n[:, None] / cols) * splits
    busy = np.minimum(count, compute_units)
    empty = np.maximum(1 - np.minimum(m[:, None] / rows, n[:, None] / cols), 0.0)
    summed = rows * cols if rule else (m * n)[:, None]
    step_k = np.ceil(k[:, None] / splits * width / _K_STEP_BYTES) * _K_STEP_BYTES
    return Shapes(
        flops=flops,
        unit_flops=flops / compute_units,
        dram_bytes=dram,
        k_bytes=k * width,
        is_uneven=(k * width) % _LINE_BYTES != 0,
        alignment=alignment,
        choices=TileChoices(
            flops=2 * rows * cols * step_k / width,
            k_bytes=step_k,
            load_bytes=step_k * (np.minimum(rows, m[:, None]) + np.minimum(cols, n[:, None])),
            store_bytes=2 * rows * cols + np.zeros_like(busy),
            waves=np.ceil(count / compute_units),
            busy_units=busy,
            crowd=busy * empty * FAMILIES[family].crowds,
            is_split=splits > 1,
            pieces=np.where(splits > 1, splits, 0.0) * bool(rule) + np.zeros_like(busy),
            sum_bytes=4 * np.where(splits > 1, splits, 0.0) * summed,
            dram_bytes=dram[:, None],
            has_few_rows=(m[:, None] <= gemm_rule.MOST_FEW_ROWS) & bool(rule),
            is_misaligned=(k[:, None] * width) % _ROW_ALIGNMENT_BYTES != 0,
            is_uneven=(k[:, None] * width) % _LINE_BYTES != 0,
            alignment=alignment[:, None],
        ),
    )


@cache
def _tile_choices(family: str) -> tuple[Array, Array, Array]:
    """(rows, columns, split) of every choice of a family, as vectors of equal length."""
    tiles, splits = FAMILIES[family].tiles, FAMILIES[family].splits
    choices = [(*tile, split) for tile in tiles for split in splits] or [(1, 1, 1)]
    rows, cols, split = np.array(choices, dtype=float).T
    return rows, cols, split


def row_alignment_bytes(recipe: str, n: Array, k: Array) -> NDArray[np.int64]:
    """The largest divisor of 16, in bytes, of the row lengths of A, B and C."""
    spec = GEMM_RECIPES[recipe]
    read = (k * BITS[spec.a.dtype] / 8).astype(np.int64)
    written = (n * BITS[spec.out] / 8).astype(np.int64)
    alignment: NDArray[np.int64] = np.gcd(np.gcd(read, written), ALIGNED_BYTES)
    return alignment


def interval_groups(recipe: str, m: Array, n: Array, k: Array) -> list[str]:
    """The group of each shape whose errors make its interval: kind and regime, or "unaligned".

    "whole" are shapes whose sides are multiples of WHOLE_TILES; few tokens (decode) may be any
    number. Others, whose last tiles are "partial", are harder to predict. Kernels of rows off 16
    bytes differ from shape to shape, and their errors are several times those of others.
    """
    aligned = row_alignment_bytes(recipe, n, k) == ALIGNED_BYTES
    fills_rows = (m % WHOLE_TILES == 0) | (m <= DECODE_TOKENS)
    whole = fills_rows & (n % WHOLE_TILES == 0) & (k % WHOLE_TILES == 0)
    kinds = np.where(whole, "whole", "partial").tolist()
    return [
        f"{kind}.{gemm_regime(int(a), int(b), int(c))}" if inside else "unaligned"
        for a, b, c, kind, inside in zip(m, n, k, kinds, aligned, strict=True)
    ]


def least_work(recipe: str, m: Array, n: Array, k: Array) -> tuple[Array, Array]:
    """(flops, bytes) of roofcal.core.work.gemm_work for vectors of sizes; KeyError for a recipe."""
    spec = GEMM_RECIPES[recipe]
    return 2 * m * n * k, spec.a.nbytes(m, k) + spec.b.nbytes(n, k) + nbytes(spec.out, m * n)


def evaluate(constants: Mapping[str, float], shapes: Shapes, family: str) -> Parts:
    """Seconds of every shape; raises KeyError for a missing constant that is not in NEUTRAL."""
    constants = NEUTRAL | dict(constants)
    if FAMILIES[family].is_plain:
        return plain_parts(constants, shapes)
    seconds = choice_seconds(constants, shapes.choices, family)
    best = seconds.both.argmin(axis=1)[:, None]
    tiles, sums = (
        np.take_along_axis(part, best, axis=1)[:, 0] for part in (seconds.tiles, seconds.sums)
    )
    return tiled_parts(constants, shapes, tiles, sums)


def plain_parts(constants: Mapping[str, Value], shapes: Shapes) -> Parts:
    """Seconds of shapes on a processor without tiles, [..., shapes]."""
    math = shapes.unit_flops / constants["tile_flops_per_s"]
    latency = shapes.k_bytes * constants["k_latency_s_per_byte"]
    tiles = np.sqrt(np.sqrt(math**2 * math**2 + latency**2 * latency**2))
    nothing = np.zeros_like(tiles)
    launch, dram = _launch_and_memory(constants, shapes)
    return joined(launch=launch, tiles=tiles, sums=nothing, dram=dram, power=nothing)


def tiled_parts(constants: Mapping[str, Value], shapes: Shapes, tiles: Array, sums: Array) -> Parts:
    """Seconds of shapes, [..., shapes]; tiles, sums: those of the best choice of tile and split."""
    slower = np.where(shapes.is_uneven, constants["uneven"], 1.0)
    power = shapes.flops / constants["sustained_flops_per_s"] * slower
    launch, dram = _launch_and_memory(constants, shapes)
    return joined(launch=launch, tiles=tiles, sums=sums, dram=dram, power=power)


def _launch_and_memory(constants: Mapping[str, Value], shapes: Shapes) -> tuple[Array, Array]:
    dram = np.asarray(shapes.dram_bytes / constants["dram_bytes_per_s"])
    return constants["launch_s"] + np.zeros_like(dram), dram


def joined(*, launch: Array, tiles: Array, sums: Array, dram: Array, power: Array) -> Parts:
    """The parts with their total: `work` beside `power`, see the module."""
    work = launch + _tiles_and_memory(tiles, dram) + sums
    work_squared, power_squared = work * work, power * power
    total = np.sqrt(np.sqrt(work_squared * work_squared + power_squared * power_squared))
    return Parts(launch=launch, tiles=tiles, sums=sums, dram=dram, power=power, total=total)


def _tiles_and_memory(tiles: Array, dram: Array) -> Array:
    """The norm with q = 2 of the module."""
    norm: Array = np.sqrt(tiles * tiles + dram * dram)
    return norm


def choice_seconds(
    constants: Mapping[str, Value], choices: TileChoices, family: str
) -> ChoiceSeconds:
    """Seconds on each choice of tile and split; constants broadcast with the choices' arrays."""
    bandwidth = np.minimum(
        constants["load_bytes_per_s"], constants["l2_bytes_per_s"] / choices.busy_units
    )
    slower = np.where(choices.is_misaligned, constants["misaligned"], 1.0)
    rate, k_latency = (
        np.where(
            choices.alignment < 8,
            constants.get(odd, constants[aligned]),
            np.where(
                choices.alignment == 8,
                constants.get(eight, constants[aligned]),
                constants[aligned],
            ),
        )
        for aligned, eight, odd in zip(_ALIGNED_PATH, *SLOW_PATHS.values(), strict=True)
    )
    k_latency = np.where(choices.has_few_rows, 0.0, k_latency)
    math = choices.flops / rate
    load = choices.load_bytes / bandwidth * slower
    crowd = choices.crowd * constants["crowd_s_per_byte"]
    latency_squared = choices.k_bytes * choices.k_bytes * (k_latency * k_latency + crowd * crowd)
    # The norm with p = 4 by squares and roots: a general power costs ten times as much.
    math, load = math * math, load * load
    step = np.sqrt(np.sqrt(math * math + load * load + latency_squared * latency_squared))
    wave = constants["wave_s"]
    overlaps = FAMILIES[family].overlaps
    further = np.sqrt(step * step + wave * wave) if overlaps else step + wave
    tiles = (
        step
        + (choices.waves - 1) * further
        + choices.waves * (choices.store_bytes / constants["store_bytes_per_s"])
    )
    tiles = tiles * np.where(choices.is_uneven, constants["uneven"], 1.0)
    sums = (
        choices.is_split * constants["split_k_s"]
        + choices.pieces * constants["piece_s"]
        + choices.sum_bytes / constants["piece_bytes_per_s"]
    )
    dram = choices.dram_bytes / constants["dram_bytes_per_s"]
    return ChoiceSeconds(tiles=tiles, sums=sums, both=_tiles_and_memory(tiles, dram) + sums)


# A fit evaluates every probe thousands of times, on up to 228 choices of tile and split. A choice
# that needs no less of anything than another one of the same shape is never the fastest, whatever
# the constants are: the time grows with each term of choice_seconds. 42 of the 228 are left on
# average.
_BLOCK_ELEMENTS: Final = 1 << 15  # of one array of fits x candidates: some twenty stay in the cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The candidates of all shapes in one row: [candidates], ordered by shape.

    shape  number of the shape of each candidate
    first  number of the first candidate of each shape
    """

    choices: TileChoices
    shape: NDArray[np.int64]
    first: NDArray[np.int64]

    def best(self, constants: Mapping[str, Array], family: str) -> NDArray[np.int64]:
        """Number of the best candidate of each shape, [fits, shapes].

        constants: [fits, 1] each.
        """
        fits = len(next(iter(constants.values())))
        size = max(1, _BLOCK_ELEMENTS // len(self.shape))
        blocks = [
            self._best_of_block({name: c[i : i + size] for name, c in constants.items()}, family)
            for i in range(0, fits, size)
        ]
        return np.concatenate(blocks)

    def _best_of_block(self, constants: Mapping[str, Array], family: str) -> NDArray[np.int64]:
        seconds = choice_seconds(constants, self.choices, family).both
        least = np.minimum.reduceat(seconds, self.first, axis=1)
        numbers = np.arange(len(self.shape))
        # The first candidate of a shape that is as fast as the fastest.
        is_best = seconds == least[:, self.shape]
        return np.minimum.reduceat(np.where(is_best, numbers, len(numbers)), self.first, 1)

    def take(self, numbers: NDArray[np.int64]) -> TileChoices:
        """The candidates of given numbers, in arrays of their shape."""
        rows = {
            field.name: getattr(self.choices, field.name)[numbers] for field in fields(self.choices)
        }
        return TileChoices(**rows)


def candidates_of(choices: TileChoices) -> Candidates:
    """The choices [shapes, choices] that no other choice of their shape is at least as good as."""
    shapes, count = choices.flops.shape
    full = {
        field.name: np.broadcast_to(getattr(choices, field.name), (shapes, count))
        for field in fields(choices)
    }
    # Of all terms that differ between the choices of a shape, less is faster; more busy units share
    # the second-level cache.
    terms = (
        "store_bytes",
        "flops",
        "k_bytes",
        "load_bytes",
        "waves",
        "busy_units",
        "crowd",
        "is_split",
        "sum_bytes",
    )
    costs = np.stack([full[name].astype(float) for name in terms])
    kept = [_undominated_columns(costs[:, row]) for row in range(shapes)]
    shape = np.repeat(np.arange(shapes), [len(columns) for columns in kept])
    column = np.concatenate(kept)
    rows = {name: array[shape, column] for name, array in full.items()}
    first = np.flatnonzero(np.diff(shape, prepend=-1))
    return Candidates(choices=TileChoices(**rows), shape=shape, first=first)


def _undominated_columns(costs: Array) -> NDArray[np.int64]:
    """Columns of costs [terms, choices] that cost less than each other one in some term."""
    is_no_worse = (costs[:, :, None] <= costs[:, None, :]).all(axis=0)
    is_equal = is_no_worse & is_no_worse.T
    # Of equal columns the first is kept.
    is_dominated = (is_no_worse & ~is_equal).any(axis=0) | np.triu(is_equal, 1).any(axis=0)
    return np.flatnonzero(~is_dominated)
