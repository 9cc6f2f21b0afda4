"""Which way a cast goes, and how it holds columns: what a host decides from sizes.

NumPy alone. kernels.cast asks for one matrix, models of time for many at once: sizes are numbers
or vectors.
"""

from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

# kernels.cast.rows: rows of more columns are held in two parts, or read twice, so many columns at a
# time. docs/kernels/long_rows.csv has times of both.
MOST_COLUMNS_OF_ROW: Final = 16384
LONG_ROWS_BLOCK: Final = 8192
FEW_LONG_ROWS_BLOCK: Final = 16384  # of few rows that no multiprocessor holds
MOST_BYTES_OF_LONG_ROW: Final = 98304  # of x, that HELD_ROW_WARPS hold in registers without spills
# kernels.cast.columns: matrices of fewer elements are cast one way after the other. Apart and
# together, on an H200 in us: 11.9 and 24.2 at 1024^2, 43.1 and 47.1 at 4096^2, 74.6 and 71.6 at
# 4096 x 8192, 142 and 122 at 8192^2.
BOTH_LEAST_ELEMENTS: Final = 1 << 25
# kernels.cast.short_columns: rows of up to so many elements are cast by the same launch: 5.5
# together and 6.9 apart at 1024^2, but 20.9 and 14.3 at 2048^2.
ROWS_BESIDE_MOST_ELEMENTS: Final = 1 << 21
# Kernels in Triton are compiled for sizes in multiples of this, or for any.
ALIGNMENT: Final = 16
# kernels.cast.columns: columns of any number or stride are read one element at a time, at addresses
# of their own. 64 elements per thread do not fit in registers so; a quarter of the rows does.
RAGGED_MAXIMA_ROWS_DIVISOR: Final = 4
FEW_LONG_ROWS: Final = 128  # an H100 and an H200 have 132 multiprocessors
FEW_ROWS: Final = 64  # matrices of up to so many rows get tiles as high as they are


class LongRowTile(NamedTuple):
    """A row in two parts of `head` and up to `tail` columns, powers of two, in registers."""

    head: int
    tail: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortColumnsConfig:
    """How columns that stay in registers are cut into programs.

    most_rows, most_elements    of a matrix whose columns are read once; rows a power of two
    most_ragged_rows, most_ragged_elements  the same on Hopper, where rows are no multiple of 16
    least_rows                  of a program's tile
    least_cols, most_cols       columns of a program, powers of two
    most_elements_of_program    longer columns get fewer columns per program, down to least_cols
    elements_per_thread         decides the warps
    most_warps                  of a program
    """

    most_rows: int
    most_elements: int
    most_ragged_rows: int
    most_ragged_elements: int
    least_rows: int
    least_cols: int
    most_cols: int
    most_elements_of_program: int
    elements_per_thread: int
    most_warps: int


# Read once or twice, on an H200 in us: 1.8 and 4.4 at 1 x 8192, 4.4 and 9.1 at 1024^2, 9.3 and 13.4
# at 2048^2, 39.3 and 31.8 at 4096^2. Ragged rows are worth reading once up to more elements, as
# kernels.cast.hopper.columns does not take them: 44.0 and 69.9 at 4095 x 4097.
SHORT_COLUMNS: Final = ShortColumnsConfig(
    most_rows=2048,
    most_elements=1 << 22,
    most_ragged_rows=4096,
    most_ragged_elements=1 << 24,
    least_rows=16,
    least_cols=8,
    most_cols=64,
    most_elements_of_program=8192,
    elements_per_thread=32,
    most_warps=32,
)
# With few rows, a thread that holds eight columns makes eight divisions one after the other. 1 and
# 16 rows of 8192 take 1.36 and 2.39 so, 1.89 and 2.58 as SHORT_COLUMNS.
SHORT_COLUMNS_OF_FEW_ROWS: Final = replace(
    SHORT_COLUMNS, least_rows=1, least_cols=32, most_cols=32, elements_per_thread=4
)


def has_short_columns(rows: Any, cols: Any, *, on_hopper: bool = True) -> Any:
    """Whether whole columns are cast from one read, because they fit in registers.

    Columns of 4096 rows fit on Hopper only. Elsewhere they would spill; there, x with rows in
    multiples of 16 goes to the tensor memory unit (kernels.cast.hopper.columns), which is faster
    from 2048 rows on.
    """
    how, elements = SHORT_COLUMNS, rows * cols
    fits = (rows <= how.most_rows) & (elements <= how.most_elements)
    fits_ragged = (rows <= how.most_ragged_rows) & (elements <= how.most_ragged_elements)
    return fits | (is_ragged(rows) & on_hopper & fits_ragged)


def long_row_tile(rows: int, cols: int, element_bytes: int = 2) -> LongRowTile | None:
    """How a program holds a row of more than MOST_COLUMNS_OF_ROW columns; None: it reads it twice.

    Only of few rows, which have a multiprocessor each. Of more rows it depends on the columns, and
    no study has measured it yet: see docs/kernels. element_bytes: of x.
    """
    head = MOST_COLUMNS_OF_ROW * (1 if cols <= 2 * MOST_COLUMNS_OF_ROW else 2)
    tail = 1 << max(0, cols - head - 1).bit_length()
    fits = (head + tail) * element_bytes <= MOST_BYTES_OF_LONG_ROW
    return LongRowTile(head, tail) if fits and rows <= FEW_LONG_ROWS else None


def casts_rows_beside_columns(rows: Any, cols: Any) -> Any:
    """Whether the launch that casts short columns casts the rows as well."""
    return (cols <= MOST_COLUMNS_OF_ROW) & (rows * cols <= ROWS_BESIDE_MOST_ELEMENTS)


def takes_maxima_beside_rows(rows: Any, cols: Any) -> Any:
    """Whether one kernel casts the rows and finds the maxima of columns that are not short."""
    return (rows * cols >= max(1, BOTH_LEAST_ELEMENTS)) & (cols <= MOST_COLUMNS_OF_ROW)


def is_ragged(*sizes: Any) -> Any:
    """Whether a size, stride or address is no multiple of 16: then an access moves one element.

    Sizes are integers, of which every call asks (NumPy would take it 10 us), or arrays.
    """
    ragged = False
    for size in sizes:
        ragged = ragged | (size % ALIGNMENT != 0)
    return ragged


def holds_blocks_in_parts(rows: Any, cols: Any, *, strips: bool) -> Any:
    """Whether blocks cast both ways are read in parts, as whole ones would spill registers.

    strips: with a scale per row and column of a block, which hold more than one for the block does.
    """
    return (is_ragged(rows) | is_ragged(cols)) if strips else (is_ragged(rows) & is_ragged(cols))


def short_columns_tile(
    rows: Any, cols: Any, units: int, how: ShortColumnsConfig
) -> tuple[Any, Any, Any]:
    """(rows and columns of the tile, warps) of a program that casts whole columns.

    The tile is narrower than `most_cols` where there would be fewer programs than `units`.
    """
    block_m = _power_of_two(np.maximum(how.least_rows, rows))
    for_all_units = _power_of_two(np.ceil(cols / units))
    in_registers = how.most_elements_of_program // block_m
    widest = np.minimum(how.most_cols, np.minimum(for_all_units, in_registers))
    block_n = np.maximum(how.least_cols, widest)
    warps = block_m * block_n // (32 * how.elements_per_thread)
    return block_m, block_n, np.maximum(1, np.minimum(how.most_warps, warps))


def _power_of_two(count: Any) -> Any:
    """The next power of two."""
    mantissa, exponent = np.frexp(count)
    return np.ldexp(1.0, exponent - (mantissa == 0.5))
