"""Every tuning configuration as data, per kernel; the compile test walks this table.

Architectures are named as in Triton: 80 to 120 (NVIDIA sm_), "gfx942", "gfx950" (AMD).
"""

from dataclasses import dataclass, replace
from typing import Final

Architecture = int | str
ARCHITECTURES: Final[tuple[Architecture, ...]] = (80, 89, 90, 100, 120, "gfx942", "gfx950")
# Largest dynamic shared memory of one block, bytes (CUDA C++ Programming Guide, compute
# capabilities; AMD CDNA3 and CDNA4 ISA guides for LDS). Triton 3.6 does not check it ahead of time.
SHARED_MEMORY_LIMIT: Final[dict[Architecture, int]] = {
    80: 166912,
    89: 101376,
    90: 232448,
    100: 232448,
    120: 101376,
    "gfx942": 65536,
    "gfx950": 163840,
}
# What an architecture lacks, and why; the compile test tries both. gfx942 converts to e4m3 step by
# step: its own instructions know another format (fnuz: largest value 240).
WITHOUT_E4M3: Final[dict[Architecture, str]] = {
    80: "no instruction converts to e4m3; e5m2 is cut from fp16",
}
WITHOUT_TENSOR_MEMORY_UNIT: Final[dict[Architecture, str]] = dict.fromkeys(
    (80, 89, "gfx942", "gfx950"), "Gluon kernels for it have a twin in plain Triton"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """How a stream is cut into programs.

    block              elements a program handles per step
    programs_per_unit  persistent programs per SM, or None for one program per block
    """

    block: int
    num_warps: int
    programs_per_unit: int | None = None


# On an H200 (4 GiB): read 4.43 TB/s, write 4.65 TB/s.
READ: Final = StreamConfig(block=4096, num_warps=8, programs_per_unit=16)
FILL: Final = StreamConfig(block=4096, num_warps=8)
# One 16-byte load and store per thread: 4.28 TB/s at 4 GiB on an H200, torch's own copy 4.30; four
# per thread (block 4096) reach 4.10, persistent programs less.
COPY: Final = StreamConfig(block=1024, num_warps=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class CastConfig:
    """How a cast of a vector is cut: programs of `steps` blocks."""

    block: int
    steps: int
    num_warps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsConfig:
    """How rows that are kept in registers are cut into programs.

    largest_block        columns up to which a row is read once; a power of two
    least_elements       elements of a program: shorter rows share one
    most_rows            rows of a program at most
    elements_per_thread  decides the warps
    most_warps           of a program
    long_block           columns of a step, for rows beyond largest_block
    long_warps           of a program, for rows beyond largest_block
    """

    largest_block: int
    least_elements: int
    most_rows: int
    elements_per_thread: int
    most_warps: int
    long_block: int
    long_warps: int


# Casts to fp8, kernels.cast.tensorwise. Chosen on an H200 among variants, with 8192^2 and 16384^2
# bf16; times below are of those two, in us. AMAX: 8 programs per SM with 4096 elements beat 4 with
# 8192, 86.1 and 327 against 87.9 and 332 with both passes. CAST, with a given scale: one load of 16
# bytes per thread, 50.3 and 194 against 53.0 and 203 of CAST_MADE, whose programs are few because
# each reads all partial maxima.
AMAX: Final = StreamConfig(block=4096, num_warps=8, programs_per_unit=8)
CAST: Final = CastConfig(block=1024, steps=1, num_warps=4)
CAST_MADE: Final = CastConfig(block=4096, steps=4, num_warps=8)
# What one program casts alone, with a scale of its own making: `block` elements at most.
FEW: Final = StreamConfig(block=8192, num_warps=16)
# 8192 columns: 51.5 with 16 elements per thread, 52.5 with 32; 16384: the same, in 16 or 32 warps.
ROWS: Final = RowsConfig(
    largest_block=16384,
    least_elements=4096,
    most_rows=64,
    elements_per_thread=16,
    most_warps=16,
    long_block=8192,
    long_warps=8,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TileConfig:
    """A tile of rows x cols."""

    rows: int
    cols: int
    num_warps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnsConfig:
    """How the maxima of columns are found: programs walk down tiles of rows x cols.

    programs_per_unit  programs per SM that are wanted
    wide_partials      programs per column up to which more than wanted are taken; a power of two
    most_partials      programs per column at most, as narrow matrices need, each with a maximum of
                       its own, which the next kernel reads all; a power of two
    """

    rows: int
    cols: int
    num_warps: int
    programs_per_unit: int
    wide_partials: int
    most_partials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortColumnsConfig:
    """How columns that are kept in registers are cut into programs.

    most_rows, most_elements    of a matrix whose columns are read once; rows a power of two
    least_rows                  of a program's tile
    most_ragged_rows, most_ragged_elements  the same on Hopper, of rows no multiple of 16
    least_cols, most_cols       columns of a program, powers of two
    most_elements_of_program    fewer columns where they are longer, down to least_cols
    elements_per_thread         decides the warps
    most_warps                  of a program
    """

    most_rows: int
    most_elements: int
    least_rows: int
    most_ragged_rows: int
    most_ragged_elements: int
    least_cols: int
    most_cols: int
    most_elements_of_program: int
    elements_per_thread: int
    most_warps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HopperConfig:
    """A tile of 32 rows per warp and 32 * columns_per_thread columns.

    columns_per_thread  1, 2 or 4
    group               tiles that are walked down before the next column of tiles
    """

    columns_per_thread: int
    num_warps: int
    group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentConfig:
    """Programs that stay: as many as fill a unit with warps; `stages` of loads in flight in each.

    stages            1: none ahead of their use; n: n - 1 of them, through shared memory
    most_bytes_ahead  of these loads in a program: fewer stages where they are larger
    """

    warps_per_unit: int
    stages: int
    most_bytes_ahead: int


# Columns: kernels.cast.columns and kernels.cast.hopper.row_scales. Four partial maxima per column,
# 91.9 and 340, beat atomics, 95.9 and 340. Narrow matrices take up to sixteen, 26.2 at 13440 x 1024
# and 26.4 at 4096^2; in tiles of 128 x 128 27.0 and 27.2 (with four 45.1 and 30.1). Both casts, 16
# elements per thread and three rows ahead of the one that is cast: 121 and 413; 32 elements and two
# rows 126 and 417, with none ahead 134 and 470.
COLUMNS_AMAX: Final = ColumnsConfig(
    rows=128, cols=64, num_warps=4, programs_per_unit=4, wide_partials=4, most_partials=16
)
# Tiles of 64 x 64 took 111 at 4095 x 4097, where HOPPER_TRANSPOSE does not fit, these 69.9.
TRANSPOSE: Final = TileConfig(rows=32, cols=128, num_warps=4)
HOPPER_TRANSPOSE: Final = HopperConfig(columns_per_thread=4, num_warps=8, group=1)
BOTH_ROWS: Final = replace(ROWS, most_warps=32)
BOTH: Final = PersistentConfig(warps_per_unit=16, stages=4, most_bytes_ahead=65536)
# Below, rows and columns are cast one after the other: on an H200 in us, apart and together, 11.9
# and 24.2 at 1024^2, 43.1 and 47.1 at 4096^2, 74.6 and 71.6 at 4096 x 8192, 142 and 122 at 8192^2.
BOTH_LEAST_ELEMENTS: Final = 1 << 25

# Short columns: kernels.cast.columns, each read once; beside them their rows, in one launch, of
# matrices of up to SHORT_BOTH_MOST elements. Once and twice, on an H200 in us: 1.8 and 4.4 at
# 1 x 8192, 4.4 and 9.1 at 1024^2, 9.3 and 13.4 at 2048^2, 39.3 and 31.8 at 4096^2, but 44.0 and
# 69.9 at 4095 x 4097. Rows in the same launch: 5.5 and 6.9 at 1024^2, 20.9 and 14.3 at 2048^2.
SHORT_COLUMNS: Final = ShortColumnsConfig(
    most_rows=2048,
    most_elements=1 << 22,
    least_rows=16,
    most_ragged_rows=4096,
    most_ragged_elements=1 << 24,
    least_cols=8,
    most_cols=64,
    most_elements_of_program=8192,
    elements_per_thread=32,
    most_warps=32,
)
SHORT_BOTH_MOST: Final = 1 << 21
# Up to FEW_ROWS rows: a thread that has eight columns makes as many divisions, one after the other.
# 1 and 16 rows of 8192: 1.36 and 2.39, as SHORT_COLUMNS 1.89 and 2.58.
SHORT_FEW_ROWS: Final = replace(
    SHORT_COLUMNS, least_rows=1, least_cols=32, most_cols=32, elements_per_thread=4
)

# Blocks: kernels.cast.blocks and kernels.cast.hopper.mx_by_threads. BLOCKS: 16 elements per thread,
# 53.1 of mxfp8_dim0 at 8192^2, beat 8 of them, 61.3; at 4095 x 4097 programs of 1024 beat those of
# 2048, 32.6 and 37.6. BLOCKS_BOTH, where neither Hopper kernel fits: 55.4 at 4095 x 4097 against
# 63.0 with 128 x 64, which is the best tile along the columns alone, 27.1.
BLOCKS: Final = StreamConfig(block=1024, num_warps=2)
# Up to BLOCKS_SMALL_MOST elements: along rows 2.8 at 1000 x 1000 (BLOCKS 3.2), along columns 4.3
# (BLOCKS_TRANSPOSED 5.1), both 4.7 (BLOCKS_BOTH 5.4).
BLOCKS_SMALL: Final = StreamConfig(block=1024, num_warps=4)
BLOCKS_TRANSPOSED_SMALL: Final = TileConfig(rows=32, cols=64, num_warps=2)
BLOCKS_SMALL_MOST: Final = 1 << 21
BLOCKS_TRANSPOSED: Final = TileConfig(rows=128, cols=64, num_warps=4)
BLOCKS_BOTH: Final = TileConfig(rows=32, cols=128, num_warps=4)
# Up to FEW_ROWS, the tiles of the casts that follow would be empty for the most part. As many rows
# as there are, 1 and 16 of 8192: along columns 1.4 and 2.5, both 1.5 and 2.7 (rows of zeros up to
# 32, as wide: 1.9, 2.5, 2.1 and 3.1).
FEW_ROWS: Final = 64
BLOCKS_FEW_ROWS: Final = TileConfig(rows=32, cols=64, num_warps=2)
SQUARES_WARPS: Final = 4
HOPPER_MX: Final = HopperConfig(columns_per_thread=4, num_warps=8, group=4)
HOPPER_MX_BOTH: Final = HopperConfig(columns_per_thread=4, num_warps=4, group=1)
# kernels.cast.hopper.mx_by_tma. Along the columns 54.8 and 207 with 8 warps, 57.0 and 215 with 4;
# by HOPPER_MX 59.2 and 228. Both 80.9 and 326 in groups of 1 tile, 83.2 and 329 in groups of 4,
# 85.0 and 337 with two columns per thread; persistent programs, on another card, 85.0 and 366 where
# one tile per program took 83.8 and 334; by HOPPER_MX_BOTH 88.9 and 354.
TILES_MX: Final = HopperConfig(columns_per_thread=2, num_warps=8, group=1)
TILES_MX_BOTH: Final = HopperConfig(columns_per_thread=4, num_warps=4, group=1)
# Fused casts: kernels.cast.fused keeps whole rows in registers; a layer norm of 32768 columns would
# spill on NVIDIA GPUs.
FUSED_MOST_COLUMNS: Final = {
    "rms_norm": 16384,
    "layer_norm": 16384,
    "sigmoid": 32768,
    "silu_mul": 32768,
    "sigmoid_grad": 32768,
}
BOTH_MOST_COLUMNS: Final = 16384  # the columns' maxima of longer rows would spill as well
# 8192^2 and 16384^2 on an H200, in us: norms with 64 elements per thread, layer norm 65.0 and 295,
# rms norm 58.1 and 232, against 71.0, 293 and 58.2, 247 with 32; activations with 16, sigmoid 52.7
# and 214, silu_mul 89.9 and 344, against 52.8, 217 and 90.6, 371 with 32. Without PTX (rounding to
# bf16 in pairs, a sigmoid of four instructions) layer norm takes 505 at 16384, sigmoid 63.2, 253.
_FUSED: Final = RowsConfig(
    largest_block=32768,
    least_elements=4096,
    most_rows=64,
    elements_per_thread=32,
    most_warps=32,
    long_block=0,
    long_warps=0,
)
FUSED: Final = {
    "rms_norm": replace(_FUSED, elements_per_thread=64),
    "layer_norm": replace(_FUSED, elements_per_thread=64),
    "sigmoid": replace(_FUSED, elements_per_thread=16),
    "silu_mul": replace(_FUSED, elements_per_thread=16),
    "sigmoid_grad": replace(_FUSED, elements_per_thread=16),  # not measured: has two inputs, too
}
# With the maxima of columns in the same pass, by whether a program has room for rows ahead: 200 KiB
# of shared memory. Layer norm: 181 and 681 with two rows ahead, 199 and 814 with none.
FUSED_BOTH: Final = {
    True: (
        replace(_FUSED, elements_per_thread=64),
        PersistentConfig(warps_per_unit=8, stages=3, most_bytes_ahead=65536),
    ),
    False: (_FUSED, PersistentConfig(warps_per_unit=16, stages=1, most_bytes_ahead=65536)),
}
FUSED_BOTH_LEAST_ELEMENTS: Final = 1 << 25  # below, y is cast along its columns by itself
ROOM_FOR_ROWS_AHEAD: Final = 200 << 10
