"""Which kernels a cast launches, from its sizes alone: further launches beside the first.

Inductor's rules are those of `num_splits` and `reduction_split_factor` in torch/_inductor, ours
those of kernels.cast, which no model of time may import. Tests hold both against the names of
kernels in published probes, and ours against kernels.cast.
"""

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from roofcal.core.times import Array

Rule = Literal["", "inductor", "ours"]

_ONE_PROGRAM: Final = 8192  # elements of one reduction that both leave to one program
_BLOCK: Final = 128  # sides of the blocks of blockwise recipes
# Inductor keeps a row of up to 1024 columns in registers, and a column of up to 64 rows.
_INDUCTOR_ROW: Final = 1024
_INDUCTOR_COLUMN: Final = 64
# It cuts the columns of a reduction by 128 rows, unless there are 64 of them per multiprocessor.
_INDUCTOR_CUT_ROWS: Final = 128
_INDUCTOR_COLUMNS_PER_UNIT: Final = 64
# It cuts reductions of blocks, unless there are two of them per multiprocessor.
_INDUCTOR_BLOCKS_PER_UNIT: Final = 2
# kernels.cast.rows and kernels.cast.columns
_OUR_ROW: Final = 16384  # columns that are read once
_OUR_BESIDE: Final = 1 << 21  # elements whose rows are cast by the launch of their columns
_OUR_TOGETHER: Final = 1 << 25  # elements from which rows and columns come from one read
_SHORT: Final = (2048, 1 << 22)  # rows, elements
_SHORT_RAGGED: Final = (4096, 1 << 24)
_ALIGNED: Final = 16


def has_long_columns(rows: Array, cols: Array) -> NDArray[np.bool_]:
    """Whether our kernels on Hopper read columns twice, because they do not fit in registers."""
    even = rows % _ALIGNED == 0
    most_rows, most = (np.where(even, *pair) for pair in zip(_SHORT, _SHORT_RAGGED, strict=True))
    beyond: NDArray[np.bool_] = (rows > most_rows) | (rows * cols > most)
    return beyond


def further_launches(rule: Rule, recipe: str, rows: Array, cols: Array, units: int) -> Array:
    """Launches beyond the first of casts of rows x cols, float64 vectors.

    A loop over a row or a column that does not fit in registers counts as one, because it waits for
    memory once more. "" knows no rule: 0. units: multiprocessors of the device.
    """
    nothing = np.zeros_like(rows * cols)
    if not rule:
        return nothing
    launches = (
        _inductor(recipe, rows, cols, units) if rule == "inductor" else _ours(recipe, rows, cols)
    )
    return nothing + launches


def _inductor(recipe: str, rows: Array, cols: Array, units: int) -> Array:
    is_cut_off_rows, is_cut_off_cols = rows % _BLOCK != 0, cols % _BLOCK != 0
    whole_columns = (rows <= _INDUCTOR_CUT_ROWS) | (cols >= _INDUCTOR_COLUMNS_PER_UNIT * units)
    by_columns = np.where(whole_columns, 1.0 * (rows > _INDUCTOR_COLUMN), 2.0)
    blocks = np.ceil(rows / _BLOCK) * np.ceil(cols / _BLOCK)
    has_enough_blocks = blocks >= _INDUCTOR_BLOCKS_PER_UNIT * units
    launches = {
        "fp8_tensorwise": 2.0 * (rows * cols > _ONE_PROGRAM),
        "fp8_rowwise_dim0": 1.0 * (cols > _INDUCTOR_ROW),
        "fp8_rowwise_dim1": by_columns,
        "fp8_rowwise_both": by_columns,
        # A matrix that blocks cut off is padded first.
        "fp8_blockwise_1x128": 1.0 * is_cut_off_cols,
        "fp8_blockwise_1x128_dim1": 1.0 * is_cut_off_rows,
        "fp8_blockwise_128x128": np.where(
            has_enough_blocks, 1.0 * (is_cut_off_rows | is_cut_off_cols), 2.0
        ),
    }
    return np.asarray(launches.get(recipe, 0.0), dtype=float)


def _ours(recipe: str, rows: Array, cols: Array) -> Array:
    long = has_long_columns(rows, cols)
    is_beside = ~long & (cols <= _OUR_ROW) & (rows * cols <= _OUR_BESIDE)
    launches = {
        "fp8_tensorwise": 1.0 * (rows * cols > _ONE_PROGRAM),
        "fp8_rowwise_dim0": 1.0 * (cols > _OUR_ROW),
        "fp8_rowwise_dim1": 1.0 * long,
        "fp8_rowwise_both": np.where(is_beside, 0.0, 1.0 + long),
    }
    return np.asarray(launches.get(recipe, 0.0), dtype=float)


def passes(rule: Rule, recipe: str, rows: Array, cols: Array) -> Array | float:
    """Bytes that a way of a cast moves over those of the way of large ones; 1 where all are alike.

    Our casts along rows and columns read x twice from 2^25 elements on and thrice below: a pass
    over x reads 2 bytes an element, a result writes 1. Short columns are read once, but take as
    long as if they were read twice (cross-validation on probes of an H200).
    """
    if rule != "ours" or recipe != "fp8_rowwise_both":
        return 1.0
    is_together = (rows * cols >= _OUR_TOGETHER) & (cols <= _OUR_ROW)
    return np.where(is_together, 1.0, 8.0 / 6.0)
