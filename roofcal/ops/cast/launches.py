"""Which kernels a cast launches, from its sizes alone: further launches beside the first.

Inductor's rules are those of `num_splits` and `reduction_split_factor` in torch/_inductor, ours
those of kernels/cast/rule.py. Tests hold both against the names of kernels in published probes.
"""

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from roofcal.core.times import Array
from roofcal.ops.kernel_rules import cast as ours

Rule = Literal["", "inductor", "ours"]

_ONE_PROGRAM: Final = 8192  # elements of one reduction that it leaves to one program
_LOOP: Final = 0.5  # of a launch, in kernels of Inductor
_BLOCK: Final = 128  # sides of the blocks of blockwise recipes
# Inductor keeps a row of up to 1024 columns in registers, and a column of up to 64 rows.
_INDUCTOR_ROW: Final = 1024
_INDUCTOR_COLUMN: Final = 64
_INDUCTOR_BLOCK: Final = 2048  # most columns of a row that a reduction takes at once
# It writes reductions of fewer elements as a sum, in a kernel without a loop.
_INDUCTOR_UNROLLED: Final = 8
# It cuts longer rows in parts, unless there are two rows per multiprocessor.
_INDUCTOR_CUT_COLUMNS: Final = 8192
_INDUCTOR_ROWS_PER_UNIT: Final = 2
# It cuts the columns of a reduction by 128 rows, unless there are 64 of them per multiprocessor.
_INDUCTOR_CUT_ROWS: Final = 128
_INDUCTOR_COLUMNS_PER_UNIT: Final = 64
# A reduction of the whole matrix is cut in parts of `split` elements per thread, of 256 threads:
# two parts per 512 resident threads of a multiprocessor, of 32 to 512 elements per thread.
_INDUCTOR_THREADS: Final = 256
_RESIDENT_THREADS: Final = 2048
_LEAST_SPLIT: Final = 32
_MOST_SPLIT: Final = 512
# It prefers a divisor of all elements that is less than so many away.
_NEAR_SPLIT: Final = 30
_NEAR_MOST_SPLIT: Final = 50
# It cuts reductions of blocks, unless there are two of them per multiprocessor.
_INDUCTOR_BLOCKS_PER_UNIT: Final = 2


def further_launches(rule: Rule, recipe: str, rows: Array, cols: Array, units: int) -> Array:
    """Launches beyond the first of casts of rows x cols, float64 vectors.

    A loop over a row or a column that does not fit in registers counts, too, because it waits for
    memory once more: as one in our kernels, as half of one in Inductor's. "" knows no rule: 0.
    units: multiprocessors of the device.
    """
    nothing = np.zeros_like(rows * cols)
    if not rule:
        return nothing
    if rule == "ours":
        return nothing + ours.further_launches(recipe, rows, cols)
    return nothing + _inductor(recipe, rows, cols, units)


def _inductor(recipe: str, rows: Array, cols: Array, units: int) -> Array:
    is_cut_off_rows, is_cut_off_cols = rows % _BLOCK != 0, cols % _BLOCK != 0
    whole_columns = (rows <= _INDUCTOR_CUT_ROWS) | (cols >= _INDUCTOR_COLUMNS_PER_UNIT * units)
    by_columns = np.where(whole_columns, _LOOP * (rows > _INDUCTOR_COLUMN), 2.0)
    is_unrolled, is_one_row = rows < _INDUCTOR_UNROLLED, rows == 1
    by_unrolled = 1.0 * ~is_one_row  # one row needs no reduction by columns
    cuts_rows = (cols > _INDUCTOR_CUT_COLUMNS) & (rows < _INDUCTOR_ROWS_PER_UNIT * units)
    # Rows of unrolled columns: one kernel, a loop over long rows, or the parts and their maximum.
    beside_unrolled = np.where(cuts_rows, 2.0, by_unrolled * (1.0 + (cols > _INDUCTOR_ROW)))
    blocks = np.ceil(rows / _BLOCK) * np.ceil(cols / _BLOCK)
    has_enough_blocks = blocks >= _INDUCTOR_BLOCKS_PER_UNIT * units
    launches = {
        "fp8_tensorwise": 2.0 * (rows * cols > _ONE_PROGRAM),
        "fp8_rowwise_dim0": np.where(cuts_rows, 2.0, _LOOP * (cols > _INDUCTOR_ROW)),
        "fp8_rowwise_dim1": np.where(is_unrolled, by_unrolled, by_columns),
        "fp8_rowwise_both": np.where(
            is_unrolled, beside_unrolled, np.where(whole_columns, 1.0 + by_columns, 2.0)
        ),
        # A matrix that blocks cut off is padded first; one row is no block to be padded.
        "fp8_blockwise_1x128": 1.0 * is_cut_off_cols,
        "fp8_blockwise_1x128_dim1": 1.0 * (is_cut_off_rows & ~is_one_row),
        "fp8_blockwise_128x128": np.where(
            has_enough_blocks | is_one_row, 1.0 * (is_cut_off_rows | is_cut_off_cols), 2.0
        ),
    }
    return np.asarray(launches.get(recipe, 0.0), dtype=float)


def padded_row_columns(cols: Array) -> Array:
    """Columns that Inductor's kernels along rows take: those of whole blocks of a reduction.

    A block has the next power of two, up to 2048 columns; a longer row is a loop over such blocks.
    """
    whole = np.ceil(cols / _INDUCTOR_BLOCK) * _INDUCTOR_BLOCK
    padded: Array = np.where(cols <= _INDUCTOR_BLOCK, _power_of_two(cols), whole)
    return padded


def is_looped_row(cols: Array) -> NDArray[np.bool_]:
    """Whether Inductor's kernels along rows read x twice, because registers do not hold a row."""
    looped: NDArray[np.bool_] = cols > _INDUCTOR_ROW
    return looped


def reduced_parts(rows: Array, cols: Array, units: int) -> Array:
    """Elements of each part of a reduction of the whole matrix by Inductor, float64.

    All parts are equally long but the last, so that they start on multiples of this.
    """
    elements = rows * cols
    at_once = _RESIDENT_THREADS * units
    target = at_once // (2 * _INDUCTOR_THREADS)
    wanted = np.ceil(elements / (_INDUCTOR_THREADS * target))
    divisor = _closest_divisor(elements, wanted, _NEAR_SPLIT)
    middle = np.where(divisor > 0, np.maximum(divisor, _LEAST_SPLIT), wanted)
    most = np.full(elements.shape, float(_MOST_SPLIT))
    divisor_of_many = _closest_divisor(elements, most, _NEAR_MOST_SPLIT)
    many = np.where(divisor_of_many > 0, divisor_of_many, most)
    split = np.where(elements < _MOST_SPLIT * at_once, middle, many)
    split = np.where(elements <= _LEAST_SPLIT * at_once, _LEAST_SPLIT, split)
    parts = np.ceil(elements / (split * _INDUCTOR_THREADS))
    length: Array = np.ceil(elements / np.where(elements > _ONE_PROGRAM, parts, 1.0))
    return length


def _closest_divisor(elements: Array, wanted: Array, near: int) -> Array:
    """The divisor of a count closest to a wanted one, the smaller of two; 0 where none is near."""
    best = np.zeros_like(elements)
    for distance in range(near):
        for candidate in (wanted - distance, wanted + distance):
            divides = (candidate >= 1) & (elements % np.maximum(candidate, 1.0) == 0)
            best = np.where((best == 0) & divides, candidate, best)
    return best


def _power_of_two(count: Array) -> Array:
    """The next power of two."""
    mantissa, exponent = np.frexp(count)
    power: Array = np.ldexp(1.0, exponent - (mantissa == 0.5))
    return power
