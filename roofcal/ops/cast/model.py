"""The calibrated equation of a cast's time. See docs/models.md.

    t = fixed + fill * x / (1 + x) + launches * further + bytes * slower / bandwidth

bytes      least bytes of the cast (roofcal.ops.cast.spec), times `passes` where one of our ways
           reads the matrix more often
fixed      start of its first kernel, however small the matrix
fill       what it takes longer to start many programs than one; x = elements / 20,000. Of our
           casts along short columns half of it is of their rows:
           (x / (1 + x) + rows / (rows + 4)) / 2
launches   further kernels of its way, by Inductor (roofcal.ops.cast.launches); 0 for others
bandwidth  least bytes per second that a large matrix reaches; passes and waits that a better kernel
           would not need keep it below the copy bandwidth
slower     `misaligned` where the sizes are none that loads of 16 bytes take, see `loads` there,
           times `uneven` where rows of the output do not start on `line` elements

Inductor's kernels along rows have a program per row, which takes whole blocks of columns (`rows`):

    slower = padded columns / columns where loads of 16 bytes take the columns, else misaligned

Narrow loads take longer than idle lanes of a block, so neither adds to the other.

Our casts along more than 128 rows of more than 16,384 columns read them twice, which `misaligned`
loads hide. Our casts with one scale read the matrix twice, the second time from the cache as far as
it holds the matrix: min(2 rows columns, near) fewer bytes count. Our casts along rows and columns
are two casts, each with a start, where no kernel does both.

`misaligned` and `uneven` may be below 1: Inductor casts the blocks of columns twice as fast where
rows of x do not start on 8 bytes.

Casts of torch on a processor (`threads`) are passes of ATen over the elements:

    t = fixed + [threads > 1] * fork + bytes / serial_bandwidth
        + (bytes * (cached / cached_bandwidth + (1 - cached) / bandwidth) + rows' * row) / threads

threads    min(units, ceil(elements / 32768)): the least that ATen gives a thread
           (at::internal::GRAIN_SIZE); both bandwidths are those of one thread
fork       what it costs to share out all passes
serial     passes that one thread does alone: those that copy a transposed matrix
cached     min(1, near / bytes): what is written in fp32 between two passes stays in the cache
rows'      rows whose columns are no multiple of 64: each ends in elements one by one

Constants are `cast.<provider>.<recipe>.*`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roofcal.core.recipes import nbytes
from roofcal.core.times import Array, Value
from roofcal.ops.cast import spec
from roofcal.ops.cast.launches import inductor_launches, padded_row_columns
from roofcal.ops.cast.spec import SMALL_ELEMENTS, read_bytes, written_bytes
from roofcal.ops.constants import (
    NO_LIMIT,
    Constant,
    OpPage,
    Search,
    by_name,
    neutral_values,
)
from roofcal.ops.kernel_rules import cast as ours

OP: Final = spec.OP
# The constants of one provider and recipe; `rate`: most elements per second of a probe. Casts of
# processors have those of `both` and `cpu`.
CONSTANTS: Final = by_name(
    # On a GPU a start takes 0.3 of the shortest cast at least: from few small casts a fit cannot
    # tell starts from further launches, and found less than an empty kernel takes.
    Constant("fixed_s", "s", "Start of a cast", Search(1, 0.3, 5, "time"), group="both",
             on_cpu=Search(1, 0.02, 5, "time")),
    Constant("fill_s", "s", "Start of many programs, beyond that of one",
             # Small casts scatter from shape to shape, which a longer start would follow.
             Search(0.3, 0.001, 3, "time"), 0.0),
    Constant("further_s", "s", "Each further kernel or loop of a cast",
             Search(0.5, 0.01, 2, "time"), 0.0),
    Constant("bytes_per_s", "B/s", "Bandwidth of a large cast",
             Search(3, 0.05, 50, "rate"), group="both", datasheet="dram_bytes_per_s"),
    Constant("misaligned", "1", "Slow-down of sizes that loads of 16 bytes do not take",
             Search(1.2, 0.3, 6.0), 1.0),
    Constant("uneven", "1", "Slow-down of rows of the result off its lines",
             Search(1.05, 0.5, 6.0), 1.0),
    Constant("cached_bytes_per_s", "B/s", "Bandwidth of a cached cast",
             Search(3, 0.05, 50, "rate"), NO_LIMIT, "cpu"),
    Constant("fork_s", "s", "Sharing out the passes of a cast",
             Search(1, 0.02, 20, "time"), 0.0, "cpu"),
    Constant("serial_bytes_per_s", "B/s", "Bandwidth of what one thread does alone",
             Search(10, 0.3, 300, "rate"), NO_LIMIT, "cpu"),
    Constant("near_bytes", "B", "Casts that stay in the cache",
             Search(2e7, 1e6, 2e8), NO_LIMIT, "both", Search(1e6, 1e5, 1e8)),
    Constant("row_s", "s", "End of a row off 64 elements",
             Search(5e-3, 1e-4, 0.1, "time"), 0.0, "cpu"),
)  # fmt: skip
GPU_CONSTANTS: Final = tuple(name for name, c in CONSTANTS.items() if c.group != "cpu")
PROCESSOR_CONSTANTS: Final = tuple(name for name, c in CONSTANTS.items() if c.group)
Rule = Literal["", "inductor", "ours"]
Loads = Literal["multiples_of_16", "columns", "by_divisor", "multiples_of_4", "rows", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CastFamily:
    """Whose kernels cut a cast, and which sizes slow them.

    loads     which sizes are `misaligned`:
              multiples_of_16  others of rows or columns
              columns          other columns, and none of those that are cast from registers: there
                               loads do not decide, and neither do rows of the result off a line
              by_divisor       columns off 8, less by the square of their largest divisor of 8:
                               vectors of so many elements are loaded
              multiples_of_4   other columns
              rows             columns off 8; others are padded to whole blocks of a reduction
              any              no size: all load alike, and only rows of the output off a line
                               are slow
    line      elements off whose multiples rows of the output are `uneven`
    rule      whose rules say which kernels there are, and how often they read
    grain     least elements of a thread of a processor; 0 on GPUs
    """

    loads: Loads = "multiples_of_16"
    line: int = 1
    rule: Rule = ""
    grain: int = 0


FAMILIES: Final[dict[str, CastFamily]] = {
    "plain": CastFamily(),
    "inductor": CastFamily(line=16, rule="inductor"),
    "inductor_lines_of_1024": CastFamily(loads="multiples_of_4", line=1024, rule="inductor"),
    "inductor_rows": CastFamily(loads="rows", rule="inductor"),
    "ours_divisor": CastFamily(loads="by_divisor", line=16, rule="ours"),
    "ours_columns": CastFamily(loads="columns", line=16, rule="ours"),
    "ours_256": CastFamily(line=256, rule="ours"),
    "threads": CastFamily(grain=1 << 15),
    "inductor_lines_of_16": CastFamily(loads="any", line=16, rule="inductor"),
}
# Whose kernels each provider runs on a GPU; any other has a family without a rule.
RULES: Final[dict[str, Rule]] = {"torch_compile": "inductor", "triton": "ours"}
# Which families of Inductor's kernels a recipe may have, where fewer than all: see docs/models.md.
INDUCTOR_FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    "fp8_rowwise_dim0": ("inductor_rows",),
    "fp8_rowwise_both": ("inductor_rows",),
    # Large probes are off 16 along both sides, and cannot tell which one slows a cast; this one
    # runs along the rows.
    "fp8_blockwise_1x128": ("inductor_lines_of_16",),
    "mxfp8_dim1": ("inductor_lines_of_1024",),
    "mxfp8_both": ("inductor_lines_of_1024",),
}
# The same of our kernels; every other recipe has OUR_OTHERS.
OUR_FAMILIES: Final = dict.fromkeys(("fp8_rowwise_dim1", "fp8_rowwise_both"), ("ours_columns",))
OUR_OTHERS: Final = ("ours_divisor", "ours_256")
FAMILY: Final = "cast_family"  # the constant that holds the choice, see roofcal.ops.constants
EQUATION: Final = 12  # see roofcal.ops.constants; 1 is of calibrations that state none
NEUTRAL: Final = neutral_values(CONSTANTS)
# group of shapes whose errors make an interval -> what it has, in words
GROUPS: Final[dict[str, str]] = {
    "unaligned": "rows off 16 bytes",
    "few_rows": "up to 128 rows or columns",
    "small": "fewer than 2^24 elements",
    "large": "2^24 elements and more",
}
_ALIGNED: Final = 16
_VECTOR: Final = 8  # elements of bf16 in 16 bytes
_LOOP: Final = 64  # elements that a vectorised loop of ATen takes at once
_FILL_ELEMENTS: Final = 20_000.0  # chosen among 4,000 to 250,000 by cross-validation on an H200
# A program of short columns holds all rows, and stores them one after the other. Without this,
# casts along columns of layers that no study lists are 10.5 instead of 8.1 % off on an H200, and
# 8.0 instead of 7.6 % on an H100; with it for casts both ways, those are 14.7 instead of 11.4 % off
# on the H200 and unchanged on the H100.
_FILL_ROWS: Final = 4.0
_FEW_ROWS: Final = 128
_SHARED_ROWS: Final = 1024  # tiles of so many rows leave room for others on a multiprocessor
# Long rows that are read twice: the second time from the cache, at three times the speed of memory.
# 5 bytes an element for 3 take 1.14 to 1.23 times as long on an H100.
_READ_TWICE: Final = 1.2


class CastParts(NamedTuple):
    """Seconds per cast, vectorised."""

    fixed: Array
    moving: Array

    @property
    def total(self) -> Array:
        """Their sum."""
        return self.fixed + self.moving

    @property
    def bound_by(self) -> list[str]:
        """The longer of the two."""
        longer: list[str] = np.where(self.moving >= self.fixed, "dram", "launch").tolist()
        return longer

    @property
    def seconds(self) -> dict[str, Array]:
        """Field of a Prediction -> its part."""
        return {"dram_s": self.moving, "launch_s": self.fixed}


def least_bytes(recipe: str, rows: Array, cols: Array) -> Array:
    """Bytes of roofcal.ops.cast.spec.work for vectors; raises KeyError for an unknown recipe."""
    moved: Array = read_bytes(recipe, rows, cols) + written_bytes(recipe, rows, cols)
    return moved


def groups_of(_recipe: str, sizes: Iterable[Array]) -> NDArray[np.str_]:
    """The group of each cast, of GROUPS, whose errors make its interval.

    Rows of x off 16 bytes are loaded in pieces, and predicted worse: the mean |log error| of an
    H200's probes left out is 0.20 there and 0.11 elsewhere.
    """
    rows, cols = sizes
    unaligned = cols % _VECTOR != 0
    few = np.minimum(rows, cols) <= _FEW_ROWS
    small = rows * cols < SMALL_ELEMENTS
    return np.select([unaligned, few, small], ["unaligned", "few_rows", "small"], "large")


def evaluate(
    constants: Mapping[str, Value],
    family: str,
    recipe: str,
    sizes: Sequence[Array],
    compute_units: int,
) -> CastParts:
    """Seconds of casts of sizes (rows, cols), float64 vectors.

    A constant is a number, or an array that broadcasts with the vectors. compute_units: of the
    device; they matter to families with a rule, and of threads, alone.
    """
    constants = NEUTRAL | dict(constants)
    rows, cols = sizes
    how = FAMILIES[family]
    if how.grain:
        threads = np.minimum(compute_units, np.ceil(rows * cols / how.grain))
        return _threaded_parts(constants, recipe, (rows, cols), threads)
    moved = least_bytes(recipe, rows, cols)
    if how.loads == "columns":
        moved = moved * _passes(recipe, rows, cols, compute_units)
    if how.rule == "ours" and recipe == "fp8_tensorwise":
        moved = moved - np.minimum(nbytes("bf16", rows * cols), constants["near_bytes"])
    moving = _slower(constants, how, recipe, rows, cols) * moved / constants["bytes_per_s"]
    filled = rows * cols / (rows * cols + _FILL_ELEMENTS)
    if how.loads == "columns" and recipe == "fp8_rowwise_dim1":
        by_rows = 0.5 * (filled + rows / (rows + _FILL_ROWS))
        filled = np.where(ours.has_short_columns(rows, cols), by_rows, filled)
    start = constants["fixed_s"] + constants["fill_s"] * filled
    if how.loads == "columns" and recipe == "fp8_rowwise_both":
        start = start + constants["fixed_s"] * _casts_apart(rows, cols)
    if how.rule == "inductor":
        launches = inductor_launches(recipe, rows, cols, compute_units)
        start = start + constants["further_s"] * launches
    return CastParts(fixed=start + np.zeros_like(moving), moving=moving)


def _threaded_parts(
    constants: Mapping[str, Value], recipe: str, sizes: tuple[Array, Array], threads: Array
) -> CastParts:
    """Seconds of casts by so many threads of a processor."""
    rows, cols = sizes
    moved = least_bytes(recipe, rows, cols)
    cached = np.minimum(1.0, constants["near_bytes"] / moved)
    per_byte = cached / constants["cached_bytes_per_s"] + (1 - cached) / constants["bytes_per_s"]
    shared = moved * per_byte + rows * (cols % _LOOP != 0) * constants["row_s"]
    moving = shared / threads + moved / constants["serial_bytes_per_s"]
    fixed = constants["fixed_s"] + (threads > 1) * constants["fork_s"]
    return CastParts(fixed=fixed + np.zeros_like(moving), moving=moving)


def _slower(
    constants: Mapping[str, Value], how: CastFamily, recipe: str, rows: Array, cols: Array
) -> Array:
    """`slower` of the equation, see CastFamily."""
    misaligned = constants["misaligned"]
    if how.loads == "rows":
        return np.where(cols % _VECTOR != 0, misaligned, padded_row_columns(cols) / cols)
    is_ragged = (rows % _ALIGNED != 0) | (cols % _ALIGNED != 0)
    if how.loads == "multiples_of_4":
        slower = np.where(cols % 4 != 0, misaligned, 1.0)
    elif how.loads == "columns":
        slower = np.where(cols % _ALIGNED != 0, misaligned, 1.0)
    elif how.loads == "by_divisor":
        # less for vectors than for single elements: loads and memory add as squares
        divisor = np.gcd(cols.astype(np.int64), _VECTOR).astype(float)
        more = (misaligned * misaligned - 1) / (divisor * divisor)
        slower = np.where(divisor < _VECTOR, np.sqrt(1 + more), 1.0)
    else:
        slower = np.where(is_ragged, misaligned, 1.0)
    if how.rule == "ours" and recipe == "fp8_rowwise_dim0":
        # Loads in pieces hide the second read; few rows that do not fit count as read once.
        reads_twice = (cols > ours.MOST_COLUMNS_OF_ROW) & (rows > ours.FEW_LONG_ROWS)
        slower = np.maximum(slower, np.where(reads_twice, _READ_TWICE, 1.0))
    # Of the transposed result where there is one.
    result_columns = rows if recipe.endswith(("_dim1", "_both")) else cols
    slower = slower * np.where(result_columns % how.line, constants["uneven"], 1.0)
    in_registers = how.loads == "columns" and ours.has_short_columns(rows, cols)
    return np.where(in_registers, 1.0, slower)


def _passes(recipe: str, rows: Array, cols: Array, units: int) -> Array:
    """Bytes that our casts along columns move over those of the way of large ones.

    Casts along rows and columns read x twice, and thrice where they are two casts (_casts_apart): a
    pass over x reads 2 bytes an element, a result writes 1. Columns in registers are read once, but
    take as long as if they were read twice, times _idle_columns. units: multiprocessors.
    """
    short = ours.has_short_columns(rows, cols)
    moved = np.where(short, _idle_columns(rows, cols, units), 1.0)
    if recipe == "fp8_rowwise_both":
        moved = moved * np.where(_casts_apart(rows, cols), 8.0 / 6.0, 1.0)
    return np.asanyarray(moved)


def _casts_apart(rows: Array, cols: Array) -> Array:
    """Whether our cast along rows and columns is two casts, one after the other.

    Else one kernel casts short columns and rows, or casts rows and finds the maxima of columns.
    Two starts, and two reads of what one kernel reads, bring the error on probes left out from 11.3
    to 8.6 % on an H100 and from 12.0 to 8.9 % on an H200.
    """
    in_one = ours.has_short_columns(rows, cols) & ours.casts_rows_beside_columns(rows, cols)
    return np.asanyarray(~(in_one | ours.takes_maxima_beside_rows(rows, cols)))


def _idle_columns(rows: Array, cols: Array, units: int) -> Array:
    """What programs of short columns take longer, because a last wave and padding rows idle.

    The busiest multiprocessor decides for tiles of more than 1024 rows, whose programs hardly share
    one: 1536^2 and 2328 x 1924 were predicted 17 to 40 % too fast on both cards. Rows that pad such
    a tile are not loaded, only reduced. Of lower tiles several run beside each other: 128 x 8704
    was predicted 27 % too slow. Roots stand for what overlaps (probes left out, both cards: along
    columns 7.2 and 10.8 %, now 6.1 and 9.3; along both 10.2 and 12.3, now 8.4 and 9.9).
    """
    few, many = (
        ours.short_columns_tile(rows, cols, units, how)
        for how in (ours.SHORT_COLUMNS_OF_FEW_ROWS, ours.SHORT_COLUMNS)
    )
    high, across = (np.where(rows <= ours.FEW_ROWS, few[side], many[side]) for side in (0, 1))
    idle = np.ceil(np.ceil(cols / across) / units) * units * across / cols
    return np.asanyarray(np.where(high > _SHARED_ROWS, idle * np.sqrt(high / rows), np.sqrt(idle)))


PAGE = OpPage(
    meaning="turns bf16 into fp8 with scales from the data",
    title="Casts to fp8",
    colours={
        "fp8_tensorwise": "vermillion",
        "fp8_rowwise_dim0": "green",
        "fp8_rowwise_dim1": "sky",
        "fp8_rowwise_both": "purple",
        "mxfp8_dim0": "blue",
        "mxfp8_dim1": "orange",
        "mxfp8_both": "grey",
        "fp8_blockwise_1x128": "olive",
        "fp8_blockwise_1x128_dim1": "wine",
        "fp8_blockwise_128x128": "ink",
    },
    markers={"torch_eager": "s", "torch_compile": "D", "triton": "^"},
    constants=by_name(Constant(FAMILY, "code", "How the provider's kernels block a cast"))
    | CONSTANTS,
)
