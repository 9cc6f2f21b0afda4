"""Which kernels Inductor launches for a cast, from its sizes alone.

Its rules are those of `num_splits` and `reduction_split_factor` in torch/_inductor. Tests hold them
against the names of kernels in published probes.
"""

from typing import Final

import numpy as np

from roofcal.core.times import Array

_ONE_PROGRAM: Final = 8192  # elements of one reduction that it leaves to one program
_LOOP: Final = 0.5  # of a launch
_BLOCK: Final = 128  # sides of the blocks of blockwise recipes
# It keeps a row of up to 1024 columns in registers, and a column of up to 64 rows.
_REGISTER_ROW: Final = 1024
_REGISTER_COLUMN: Final = 64
_REDUCTION_BLOCK: Final = 2048  # most columns of a row that a reduction takes at once
# It writes reductions of fewer elements as a sum, in a kernel without a loop.
_UNROLLED: Final = 8
# It cuts longer rows in parts, unless there are two rows per multiprocessor.
_CUT_COLUMNS: Final = 8192
_ROWS_PER_UNIT: Final = 2
# It cuts the columns of a reduction by 128 rows, unless there are 64 of them per multiprocessor.
_CUT_ROWS: Final = 128
_COLUMNS_PER_UNIT: Final = 64
# It cuts reductions of blocks, unless there are two of them per multiprocessor.
_BLOCKS_PER_UNIT: Final = 2


def inductor_launches(recipe: str, rows: Array, cols: Array, units: int) -> Array:
    """Launches beyond the first of casts of rows x cols, float64 vectors.

    A loop over a row or a column that does not fit in registers counts as half of one, because it
    waits for memory once more. units: multiprocessors of the device.
    """
    is_cut_off_rows, is_cut_off_cols = rows % _BLOCK != 0, cols % _BLOCK != 0
    whole_columns = (rows <= _CUT_ROWS) | (cols >= _COLUMNS_PER_UNIT * units)
    by_columns = np.where(whole_columns, _LOOP * (rows > _REGISTER_COLUMN), 2.0)
    is_unrolled, is_one_row = rows < _UNROLLED, rows == 1
    by_unrolled = 1.0 * ~is_one_row  # one row needs no reduction by columns
    cuts_rows = (cols > _CUT_COLUMNS) & (rows < _ROWS_PER_UNIT * units)
    # Rows of unrolled columns: one kernel, a loop over long rows, or the parts and their maximum.
    beside_unrolled = np.where(cuts_rows, 2.0, by_unrolled * (1.0 + (cols > _REGISTER_ROW)))
    blocks = np.ceil(rows / _BLOCK) * np.ceil(cols / _BLOCK)
    has_enough_blocks = blocks >= _BLOCKS_PER_UNIT * units
    launches = {
        "fp8_tensorwise": 2.0 * (rows * cols > _ONE_PROGRAM),
        "fp8_rowwise_dim0": np.where(cuts_rows, 2.0, _LOOP * (cols > _REGISTER_ROW)),
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
    return np.asanyarray(np.zeros_like(rows * cols) + launches.get(recipe, 0.0))


def padded_row_columns(cols: Array) -> Array:
    """Columns that Inductor's kernels along rows take: those of whole blocks of a reduction.

    A block has the next power of two, up to 2048 columns; a longer row is a loop over such blocks.
    """
    whole = np.ceil(cols / _REDUCTION_BLOCK) * _REDUCTION_BLOCK
    mantissa, exponent = np.frexp(cols)
    power = np.ldexp(1.0, exponent - (mantissa == 0.5))
    return np.asanyarray(np.where(cols <= _REDUCTION_BLOCK, power, whole))
