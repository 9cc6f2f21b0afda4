"""The calibrated equation of a matrix product's time. How it came about: docs/models.md.

    t     = (work^4 + power^4)^(1/4)
    work  = launch + min over tile and split of (tiles^4 + dram^4)^(1/4) + sums
    tiles = step + (waves - 1) * (step + wave) + waves * store
    step  = (math^4 + load^4 + latency^4)^(1/4)
      math    = 2 * tile_m * tile_n * k / tile_flops      a tile on one compute unit
      load    = (tile_m + tile_n) * k bytes / (l2 / busy units)     its operands from the cache
      latency = k bytes * k_latency                   the loop over K of a tile, however small
    store = 2 bytes * tile_m * tile_n / store      the end of a tile, where tiles differ in size
    sums  = [split > 1] * (split_k + sums' bytes / piece_bytes)
                adding up the parts of K, which begins when all of them are stored
    dram  = least bytes / dram
    power = flops / sustained_flops      the rate that the power limit leaves

waves       ceil(tiles * split / compute units); a split divides K over `split` tiles. Of our
            kernels, a last wave that is not the only one counts (1 + share of busy units) / 2
sums        fp32 sums of all parts of K: of C, which a second kernel adds (libraries); of one tile,
            which its last program adds (our kernels)
misaligned  multiplies `load` where rows of A or B do not start on 64 bytes
_8_byte, _odd  k_latency of rows of A, B or C that start on 8 bytes, or on fewer
ours_*      our kernels on Hopper: tile and split by their own rule (kernels/gemm/rule.py), no
            latency in products of few rows, whose loop over K is short
plain       a family without tiles, for CPUs: any shape has the whole rate of the processor,
            tiles = (math^4 + latency^4)^(1/4) with math = flops / (units * tile_flops)
packed*     families for CPUs, with the equation of `packed_parts`

Constants are `gemm.<provider>.<recipe>.*`. A point without a provider is answered for the fastest
provider that was calibrated. Vectors (`product_times` of the models) without a provider are
answered for one provider throughout, `default_provider`: recipes that are compared by them then run
in one library.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf, nan
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roofcal.core.portable_math import fourth_norm
from roofcal.core.recipes import GEMM_RECIPES, nbytes
from roofcal.core.records import Calibration, Ceiling
from roofcal.core.times import Array, Value
from roofcal.ops.constants import (
    NO_LIMIT,
    Constant,
    OpPage,
    Search,
    by_name,
    calibrated_pairs,
    calibrated_providers,
    neutral_values,
)
from roofcal.ops.gemm import spec
from roofcal.ops.gemm.tiles import (
    ALIGNED_BYTES,
    FAMILIES,
    PackedFamily,
    Shapes,
    TileChoices,
    describe,
    row_alignment_bytes,
)
from roofcal.ops.regimes import (
    DECODE_TOKENS,
    MID_SIDE,
    RAGGED_MULTIPLE,
    SKINNY_K,
    SMALL_SIDE,
    regime_conditions,
)

OP: Final = spec.OP
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
    Constant("l2_bytes_per_s", "B/s", "Loads of all units from cache",
             Search(2, 0.5, 12, "stream"), NO_LIMIT, "aligned"),
    Constant("k_latency_s_per_byte", "s/B", "Latency along K",
             Search(7e-10, 7e-12, 9e-9), 0.0, "aligned"),
    # A slow path without a latency of its own is as fast as the aligned one.
    Constant("k_latency_8_byte_s_per_byte", "s/B", "Latency along K, rows on 8 bytes",
             Search(4e-9, 1e-10, 4e-8), group="8_byte"),
    Constant("k_latency_odd_s_per_byte", "s/B", "Latency along K, other rows",
             Search(7e-9, 1e-10, 4e-8), group="odd"),
    Constant("wave_s", "s", "Start of a further wave", Search(5e-7, 2e-8, 3e-6), 0.0, "aligned"),
    Constant("split_k_s", "s", "Price of splitting K",
             Search(1.5e-6, 1.5e-7, 1.5e-5), 0.0, "aligned"),
    Constant("store_bytes_per_s", "B/s per compute unit",
             "End of a tile: stores of one compute unit",
             Search(1e11, 1e9, 1e13), NO_LIMIT, "aligned"),
    Constant("piece_bytes_per_s", "B/s", "Adding up the sums of a split K",
             Search(1e11, 1e9, 1e13), NO_LIMIT, "aligned"),
    Constant("misaligned", "1", "Slow-down of misaligned rows",
             Search(1.3, 1.0, 2.0), 1.0, "aligned"),
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
# Latency along K of rows on 16 bytes, and by path that of others.
ALIGNED_LATENCY: Final = "k_latency_s_per_byte"
SLOW_LATENCIES: Final = {
    "8_byte": "k_latency_8_byte_s_per_byte",
    "odd": "k_latency_odd_s_per_byte",
}
EQUATION: Final = 9  # see roofcal.ops.constants; 1 is of calibrations that state none
NEUTRAL: Final = neutral_values(CONSTANTS)
# Sides that fill tiles, as those of layers do. Of 128, 256 and 512, the one with the best interval
# scores of an H200's probes left out: 0.43, 0.46 and 0.52 (0.50 if they are not told apart).
WHOLE_TILES: Final = 128
_REGIMES: Final = {
    "ragged": f"sides off multiples of {RAGGED_MULTIPLE}",
    "decode": f"up to {DECODE_TOKENS} rows or columns",
    "skinny_k": f"a K of up to {SKINNY_K} and sides of four times that",
    "small": f"sides of up to {SMALL_SIDE} in the mean",
    "mid": f"sides of up to {MID_SIDE} in the mean",
    "large": f"sides beyond {MID_SIDE} in the mean",
}
# group of shapes whose errors make an interval -> what it has, in words
GROUPS: Final[dict[str, str]] = {
    "unaligned": f"rows of A, B or C off {ALIGNED_BYTES} bytes",
    **{f"whole.{name}": f"{words}, in whole tiles" for name, words in _REGIMES.items()},
    **{f"partial.{name}": f"{words}, in partial tiles" for name, words in _REGIMES.items()},
}
PLAIN_CONSTANTS: Final = (
    "launch_s",
    "tile_flops_per_s",
    "k_latency_s_per_byte",
    "dram_bytes_per_s",
)


LIBRARIES: Final = ("cublaslt", "torch_cpu")  # what torch calls for a product, by backend
_CHUNK: Final = 128  # shapes at once, 250 choices of tile and split each: fits a 256 KiB cache


class ProductParts(NamedTuple):
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
        names = np.array(["launch", "tiles", "dram", "power"])
        stacked = np.stack([self.launch + self.sums, self.tiles, self.dram, self.power])
        longest: list[str] = np.take_along_axis(names, stacked.argmax(axis=0), axis=0).tolist()
        return longest

    @property
    def seconds(self) -> dict[str, Array]:
        """Field of a Prediction -> its part."""
        math, launch = np.maximum(self.tiles, self.power), self.launch + self.sums
        return {"math_s": math, "dram_s": self.dram, "launch_s": launch}


def groups_of(recipe: str, sizes: Iterable[Array]) -> NDArray[np.str_]:
    """The group of each shape whose errors make its interval: kind and regime, or "unaligned".

    "whole" are shapes whose n and k are multiples of WHOLE_TILES, as those of layers are, with any
    number of tokens. Others, whose last tiles are "partial", are harder to predict. Kernels of rows
    off 16 bytes differ from shape to shape, and their errors are several times those of others.
    """
    m, n, k = sizes
    aligned = row_alignment_bytes(recipe, n, k) == ALIGNED_BYTES
    whole = (n % WHOLE_TILES == 0) & (k % WHOLE_TILES == 0)
    # floor: tokens of an expert are a mean
    regimes = regime_conditions(*(np.floor(size) for size in (m, n, k)))
    in_whole, in_partial = (
        np.select([*regimes.values()], [f"{kind}.{name}" for name in regimes], f"{kind}.large")
        for kind in ("whole", "partial")
    )
    return np.where(aligned, np.where(whole, in_whole, in_partial), "unaligned")


def evaluate(
    constants: Mapping[str, Value],
    family: str,
    recipe: str,
    sizes: Sequence[Array],
    compute_units: int,
) -> ProductParts:
    """Seconds of products of sizes (m, n, k), float64 vectors, on so many units.

    Raises KeyError for a missing constant that is not in NEUTRAL.
    """
    m, n, k = sizes
    if isinstance(FAMILIES[family], PackedFamily):
        return packed_parts(constants, recipe, (m, n, k), compute_units)
    chunks = [
        _parts_of_shapes(
            NEUTRAL | dict(constants),
            describe(recipe, m[s], n[s], k[s], family, compute_units),
            family,
        )
        for s in (slice(i, i + _CHUNK) for i in range(0, max(1, len(m)), _CHUNK))
    ]
    return ProductParts(*(np.concatenate(part, axis=-1) for part in zip(*chunks, strict=True)))


def _parts_of_shapes(constants: Mapping[str, Value], shapes: Shapes, family: str) -> ProductParts:
    if FAMILIES[family].is_plain:
        return plain_parts(constants, shapes)
    tiles, sums, both = choice_seconds(constants, shapes.choices)
    best = both.argmin(axis=1)[:, None]
    tiles, sums = (np.take_along_axis(part, best, axis=1)[:, 0] for part in (tiles, sums))
    return tiled_parts(constants, shapes, tiles, sums)


def plain_parts(constants: Mapping[str, Value], shapes: Shapes) -> ProductParts:
    """Seconds of shapes on a processor without tiles, which knows no power limit: [..., shapes]."""
    math = shapes.unit_flops / constants["tile_flops_per_s"]
    latency = shapes.k_bytes * constants["k_latency_s_per_byte"]
    tiles = fourth_norm(math, latency)
    unlimited = {**constants, "sustained_flops_per_s": inf}
    return tiled_parts(unlimited, shapes, tiles, np.zeros_like(tiles))


def tiled_parts(
    constants: Mapping[str, Value], shapes: Shapes, tiles: Array, sums: Array
) -> ProductParts:
    """Seconds of shapes, [..., shapes]; tiles, sums: those of the best choice of tile and split."""
    dram = np.asanyarray(shapes.dram_bytes / constants["dram_bytes_per_s"])
    power = np.asanyarray(shapes.flops / constants["sustained_flops_per_s"])
    launch = constants["launch_s"] + np.zeros_like(dram)
    return joined(launch=launch, tiles=tiles, sums=sums, dram=dram, power=power)


def joined(*, launch: Array, tiles: Array, sums: Array, dram: Array, power: Array) -> ProductParts:
    """The parts with their total: `work` beside `power`, see the module."""
    total = fourth_norm(launch + fourth_norm(tiles, dram) + sums, power)
    return ProductParts(launch=launch, tiles=tiles, sums=sums, dram=dram, power=power, total=total)


def choice_seconds(
    constants: Mapping[str, Value], choices: TileChoices
) -> tuple[Array, Array, Array]:
    """(`tiles`, `sums`, (tiles^4 + dram^4)^(1/4) + sums) of the module on each choice of tile.

    The best choice has least of the third. Constants broadcast with the choices' arrays.
    """
    k_latency = aligned = np.asanyarray(constants[ALIGNED_LATENCY])
    slow_paths = {"8_byte": choices.alignment == 8, "odd": choices.alignment < 8}
    for path, is_slow in slow_paths.items():
        if is_slow.any():
            slow = np.asanyarray(constants.get(SLOW_LATENCIES[path], nan))
            k_latency = np.where(is_slow, np.where(np.isnan(slow), aligned, slow), k_latency)
    math = choices.flops / constants["tile_flops_per_s"]
    shared = constants["l2_bytes_per_s"] / choices.busy_units
    slower = np.where(choices.is_misaligned, constants["misaligned"], 1.0)
    load = choices.load_bytes / shared * slower
    latency = choices.k_bytes * np.where(choices.has_few_rows, 0.0, k_latency)
    # The norm by squares and roots, as fourth_norm has it, of three terms.
    math, load, latency = math * math, load * load, latency * latency
    step = np.sqrt(np.sqrt(math * math + load * load + latency * latency))
    tiles = (
        step
        + (choices.waves - 1) * (step + constants["wave_s"])
        + choices.waves * (choices.store_bytes / constants["store_bytes_per_s"])
    )
    sums = (
        choices.is_split * constants["split_k_s"]
        + choices.sum_bytes / constants["piece_bytes_per_s"]
    )
    dram = choices.dram_bytes / constants["dram_bytes_per_s"]
    return tiles, sums, fourth_norm(tiles, dram) + sums


def packed_parts(
    constants: Mapping[str, Value],
    recipe: str,
    sizes: tuple[Array, Array, Array],
    compute_units: int,
) -> ProductParts:
    """Seconds of products of sizes (m, n, k), float64 vectors, on so many cores: [..., shapes].

        t      = launch + side * (M + N) + min(packed, direct)
        packed = flops / (units * tile_flops) + C's bytes / update
                 + (A's bytes / pack_a + B's bytes / pack_b + both / pack) * slower
        direct = flops / direct_flops + B's bytes / dram * slower
        slower = 1 + far * max(0, 1 - near / B's bytes)

    packed  a library copies the operands into panels, in the order in which its kernel reads them,
            and multiplies panels (Goto & van de Geijn, ACM TOMS 34, 2008). Copying and multiplying
            take turns, so their times add. Their rates are fitted, where the analytical model of
            BLIS (Low et al., ACM TOMS 43, 2016) derives them from caches and registers: these are
            not known of a processor behind a hypervisor, and oneDNN and MKL choose among kernels by
            rules of their own
    direct  few rows are multiplied straight from B, because a copy costs more than it saves
    side    what begins anew with every row and column, such as a panel
    slower  copies of large weights leave the caches between the steps of a product
    emulated products (fp8) convert both operands to fp32: pack and dram are then the rates of that

    Bytes are those of the operands as they are stored. Families differ in the constants they have.

    A constant is a number, or an array that broadcasts with the vectors. Raises KeyError for a
    missing constant that is not in NEUTRAL.
    """
    c = NEUTRAL | dict(constants)
    m, n, k = sizes
    formats = GEMM_RECIPES[recipe]
    a_bytes, b_bytes = formats.a.nbytes(m, k), formats.b.nbytes(n, k)
    flops = 2 * m * n * k
    slower = 1 + c["far"] * np.maximum(0.0, 1 - c["near_bytes"] / b_bytes)
    copying = (
        a_bytes / c["pack_a_bytes_per_s"]
        + b_bytes / c["pack_b_bytes_per_s"]
        + (a_bytes + b_bytes) / c["pack_bytes_per_s"]
    ) * slower
    multiplying = flops / (compute_units * c["tile_flops_per_s"])
    storing = nbytes(formats.out, m * n) / c["update_bytes_per_s"]
    reading = b_bytes / c["dram_bytes_per_s"] * slower
    unpacked = flops / c["direct_flops_per_s"]
    is_direct = reading + unpacked < copying + multiplying + storing
    tiles = np.where(is_direct, unpacked, multiplying)
    dram = np.where(is_direct, reading, copying + storing)
    launch = c["launch_s"] + c["side_s"] * (m + n) + np.zeros_like(tiles)
    return ProductParts(
        launch=launch,
        tiles=tiles,
        sums=np.zeros_like(tiles),
        dram=dram,
        power=np.zeros_like(tiles),
        total=launch + tiles + dram,
    )


def calibrated_recipes(calibration: Calibration) -> list[str]:
    """Recipes of products a calibration has constants of, by any provider."""
    pairs = calibrated_pairs(calibration.constants, OP.name)
    return list(dict.fromkeys(recipe for _, recipe in pairs))


def default_provider(constants: Mapping[str, Ceiling], recipe: str) -> str:
    """The provider that is meant where none is named: the library's, one of LIBRARIES.

    Where the library was not calibrated, the provider of the fastest probe. Raises KeyError for a
    recipe that was not calibrated.
    """
    providers = calibrated_providers(constants, OP.name, recipe)
    if not providers:
        raise KeyError(recipe)
    library = next((name for name in LIBRARIES if name in providers), None)
    names = {provider: f"{OP.name}.{provider}.{recipe}.{CEILING}" for provider in providers}
    rates = {p: constants[name].value for p, name in names.items() if name in constants}
    return library or max(rates, key=lambda provider: rates[provider], default=providers[0])


PAGE = OpPage(
    meaning="C[M,N] = A[M,K] B[N,K]ᵀ",
    title="Matrix products",
    time_includes="Times exclude the casts to the narrow format: this is what the products alone "
    "allow.",
    time_note="without casts",
    is_headline=True,
    health=True,
    library_providers=LIBRARIES,
    colours={
        "bf16": "blue",
        "fp32": "grey",
        "int8": "purple",
        "fp8_tensorwise": "vermillion",
        "fp8_tensorwise_slow_accum": "orange",
        "fp8_axiswise": "green",
        "fp8_axiswise_slow_accum": "sky",
        "fp8_blockwise_128x128": "ink",
    },
    markers={"cublaslt": "o", "torch_cpu": "o", "triton": "^"},
    constants=by_name(
        Constant(CEILING, "flop/s", "Fastest probe", datasheet="peak", headline=True),
        TABLE["sustained_flops_per_s"],
        Constant("sustained_sm_clock_hz", "Hz", "Clock under load", headline=True),
        Constant(
            "sustained_power_w", "W", "Power under load", datasheet="power_limit_w", headline=True
        ),
        Constant(FAMILY, "code", "Tiles the library chooses from"),
    )
    | TABLE,
)
PROBE_PAGE = OpPage(health=True)
