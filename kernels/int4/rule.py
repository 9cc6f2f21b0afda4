"""Which block an int4 product takes on sm_90: what a host decides from sizes, before any launch.

NumPy alone. kernels.int4.gemm asks for one product (`choose`); models of time, and pages by RULES,
ask for many at once (`chosen_blocks`). On every other GPU kernels.int4.plain runs (`plain`).

A product takes the first row of its rule that covers it and has a configuration which fits. Of
several of kernels.int4.direct it takes the first that fits; of others the one with the least
estimate. Estimates rank configurations and predict no time.

Rows of kernels.int4.direct were filled from docs/kernels/int4_blocks.csv: times of half of its
configurations that fit (8 parts of K with 8 warps alone, 4 with 4 and 8), beside staged blocks,
for 1 to 16 tokens of 109 products with groups of 128, 64 and 32, symmetric, bf16
(tools/time_int4_blocks.py, 2026-11-28): plain launches on three H100s, chained ones (programmatic
dependent launch) on an H200. Rows of chained launches were filled on those H100s, when a kernel
let the next one start before it had waited itself. On these same products what the rows choose
takes 3 to 5 % longer than the fastest block timed, in the mean, and 29 % at worst
(tests/kernels/int4/test_rule.py). Not measured: zero points, a scale per row, fp16, groups of 64
and 32 of more than 16 million weights.

Rows of kernels.int4.staged were filled from measurements on an H200 of 2026-11-21: bf16, symmetric
weights, groups of 128 (of 64 too at [3584, 8192] and, for 16 tokens, [28672, 8192]), launches plain
and chained, graphs over weights that do not stay in the L2 cache, of

    [3584, 8192]     1, 4, 8, 16, 32 and 64 tokens
    [28672, 8192]    1, 8, 16, 32 and 64 tokens
    [4096, 14336], [5120, 8192], [8192, 28672], [10240, 8192]    1, 16, 32 and 64 tokens
    [8192, 3584]     1, 16 and 64 tokens

Not measured, and taken from the nearest of these: other sizes and numbers of tokens, groups of 32
and of a whole row, zero points, fp16.

Costs of staged blocks were fitted to the same measurements: least squares of the logarithm of the
estimate over the measured time, robust (soft L1 from 10 %), on all measured splits, plain and
chained launches together, configurations more than 30 % slower than the best of their shape at a
weight of 0.3. Where the memory's bandwidth decides, estimates are up to a third too low. With
constants fitted without a shape, the choice took on that shape 0.7 % longer than the best one
measured (geometric mean of 46 cases of 16 to 64 tokens; at most 6.8 %). The candidates and the
bounds of rows were picked with all shapes in sight.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Weights lie in units of 16 rows x 128 columns, rows padded to 64 (kernels.int4.packing).
UNIT_ROWS: Final = 16
UNIT_COLUMNS: Final = 128
ROW_MULTIPLE: Final = 64
# Of compute capability 9.0 (CUDA C++ Programming Guide, technical specifications).
_MOST_BYTES_OF_BLOCK: Final = 232448  # of shared memory
_BYTES_OF_MULTIPROCESSOR: Final = 228 * 1024
_WARPS_OF_MULTIPROCESSOR: Final = 64
_BETWEEN_BUFFERS: Final = 1024  # bytes that aligning the buffers of a block can cost
_H200_UNITS: Final = 132  # multiprocessors
# Token tile -> units of activations that a warp of kernels.int4.direct has registers for without
# spilling (the compile tests walk them); of 8 tokens one less where weights of two tiles or more
# are in flight.
MOST_UNITS: Final = {8: 8, 16: 2}
MATRIX: Final = ("sync", "group", "overlapped")  # how kernels.int4.staged multiplies
MOST_PARTS_OF_K: Final = 8  # of kernels.int4.specialised; its word would hold 15


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightSizes:
    """What the rule asks of weights: rows x k, columns that share a scale, zero points or None."""

    rows: int
    k: int
    group: int
    zeros: Any = None

    @property
    def padded_rows(self) -> int:
        """Rows in memory: a multiple of ROW_MULTIPLE."""
        return padded(self.rows)


def padded(rows: int) -> int:
    """Rows rounded up to ROW_MULTIPLE."""
    return -(-rows // ROW_MULTIPLE) * ROW_MULTIPLE


class Sizes(NamedTuple):
    """Sizes of many products, vectors.

    tokens, rows, k   of out[tokens, rows] and of what it sums over
    group             columns that share a scale; k for one scale per row
    stored            numbers stored per group: 2 with zero points, else 1
    """

    tokens: Array
    rows: Array
    k: Array
    group: Array
    stored: Array

    @property
    def padded_rows(self) -> Array:
        """Rows in memory."""
        return np.asanyarray(np.ceil(self.rows / ROW_MULTIPLE) * ROW_MULTIPLE)

    @property
    def units(self) -> Array:
        """Units of 128 columns in K."""
        return np.asanyarray(np.ceil(self.k / UNIT_COLUMNS))


def sizes_of(weights: WeightSizes, tokens: int = 1) -> Sizes:
    """Sizes of one product."""
    stored = 1 if weights.zeros is None else 2
    sizes = (tokens, weights.rows, weights.k, weights.group, stored)
    return Sizes(*np.array(sizes, dtype=np.float64)[:, None])


class Cost(NamedTuple):
    """Microseconds of a block: the three terms of an estimate, see `_costs`."""

    start_us: float = 0.0
    unit_us: float = 0.0
    part_us: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockConfig:
    """A product in blocks of rows x tokens x a part of K.

    token_tile  tokens of a block
    split       parts of K that go to different blocks
    cost        by which the rule ranks it; a caller's own configuration needs none
    """

    token_tile: int
    split: int
    num_warps: int
    cost: Cost = field(default=Cost(), compare=False, repr=False)

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        raise NotImplementedError

    def fits(self, weights: WeightSizes) -> bool:
        """Whether rows and K divide evenly among blocks and warps, which have room for them."""
        return bool(_resident(type(self), _table((self,)), sizes_of(weights)).item())

    def shared_bytes(self, weights: WeightSizes) -> int:
        """Most shared memory of a block of kernels.int4.staged or kernels.int4.specialised."""
        return int(_shared_bytes(type(self), _table((self,)), sizes_of(weights)).item())

    def misfit(self, weights: WeightSizes) -> str | None:
        """Why the configuration does not fit the weights, and what would; None where it fits."""
        if self.fits(weights):
            return None
        return (
            f"got {self}, wanted one that divides {weights.padded_rows} rows x {weights.k} columns "
            "and fits in shared memory (its method fits)"
        )

    def cut(self, weights: WeightSizes, tokens: int) -> tuple[int, int, int]:
        """(tiles along the rows, tiles along the tokens, parts of K)."""
        across, down = -(-weights.padded_rows // self.block_rows), -(-tokens // self.token_tile)
        return across, down, self.split

    def grid(self, weights: WeightSizes, tokens: int) -> tuple[int, int, int]:
        """Blocks as they are launched: here (rows, tokens, parts of K)."""
        return self.cut(weights, tokens)

    def exchange_sizes(self, weights: WeightSizes, tokens: int) -> tuple[int, int]:
        """(fp32 partial sums, counters) by which the parts of K of a product meet."""
        across, down, split = self.cut(weights, tokens)
        if split == 1:
            return 0, 0
        rows = 1 << (self.block_rows - 1).bit_length()
        return across * down * split * rows * self.token_tile, across * down


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4PlainConfig(BlockConfig):
    """kernels.int4.plain: blocks of 16 * row_tiles rows; it fits any weights."""

    row_tiles: int

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        return UNIT_ROWS * self.row_tiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4DirectConfig(BlockConfig):
    """kernels.int4.direct: each warp owns a slice of K and streams its weights to registers.

    row_tiles   tiles of 16 rows a block works through, one after another
    depth       tiles whose weights are in flight at once
    token_tile  8 or 16

    K is cut in `split` parts, and each of these among the warps.
    """

    row_tiles: int
    depth: int

    def __post_init__(self) -> None:
        """The kernel joins the sums of up to 8 tiles."""
        assert self.token_tile in MOST_UNITS
        assert 1 <= self.row_tiles <= 8

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        return UNIT_ROWS * self.row_tiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4StagedConfig(BlockConfig):
    """kernels.int4.staged: weights and activations pass through a ring in shared memory.

    rows        rows of a block: 64, 128 or 256
    stages      slots of the ring
    unroll      units of 128 columns per slot
    token_tile  8 to 128, a power of two
    matrix      how it multiplies: "sync" (mma.sync), "group" (wgmma), "overlapped" (wgmma, the next
                unit is dequantised meanwhile)
    """

    rows: int
    stages: int
    unroll: int
    matrix: str

    def __post_init__(self) -> None:
        """wgmma takes 64 rows and columns in powers of two."""
        assert self.rows in (64, 128, 256)
        assert self.token_tile in (8, 16, 32, 64, 128)
        assert self.matrix in MATRIX

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        return self.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4SpecialisedConfig(BlockConfig):
    """kernels.int4.specialised: a warp fetches, warpgroups dequantise and multiply.

    parts        multiplying warpgroups, 2 to 4, each with rows of its own
    part_rows    64 or 128
    token_tile   16 to 128, a power of two
    slots        of the ring, of 128 columns each
    """

    parts: int = 2
    part_rows: int
    slots: int
    num_warps: int = 4

    def __post_init__(self) -> None:
        """Check sizes; of sums a thread has 128 registers at most, 64 and 32 with 3 and 4 parts.

        The threads of more multiplying warpgroups have fewer registers.
        """
        assert self.parts in (2, 3, 4)
        assert self.part_rows in (64, 128)
        assert self.token_tile in (16, 32, 64, 128)
        assert self.part_rows * self.token_tile <= {2: 1 << 14, 3: 1 << 13, 4: 1 << 12}[self.parts]
        assert self.slots >= 2
        assert self.num_warps == 4
        assert 1 <= self.split <= MOST_PARTS_OF_K

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        return self.parts * self.part_rows

    def misfit(self, weights: WeightSizes) -> str | None:
        """Why the configuration does not fit the weights, and what would; None where it fits."""
        if self.fits(weights):
            return None
        if weights.group == 32:
            return f"got {self} for groups of 32, wanted weights in groups of 64 columns or more"
        units = weights.k // UNIT_COLUMNS
        if not _has_work(units, self.split):
            largest = next(s for s in range(self.split, 0, -1) if _has_work(units, s))
            return (
                f"got {self}, whose split leaves a part of K without any of its {units} units of "
                f"{UNIT_COLUMNS} columns, wanted another split, as {largest}"
            )
        return (
            f"got {self}, whose ring takes {self.shared_bytes(weights):,} bytes of shared memory, "
            f"wanted {_MOST_BYTES_OF_BLOCK:,} at most: fewer slots, part_rows or tokens"
        )

    def grid(self, weights: WeightSizes, tokens: int) -> tuple[int, int, int]:
        """Blocks: (parts of K, rows, tokens).

        GPUs start blocks along the first side first, so that parts of a tile start together.
        """
        across, down, split = self.cut(weights, tokens)
        return split, across, down

    def exchange_sizes(self, weights: WeightSizes, tokens: int) -> tuple[int, int]:
        """(fp32 partial sums, counters) by which the parts of K of a product meet.

        For each warpgroup's rows of a tile, the sums of every part of K and one counter.
        """
        across, down, split = self.cut(weights, tokens)
        if split == 1:
            return 0, 0
        tiles = across * down * self.parts
        return tiles * split * self.part_rows * self.token_tile, tiles


Int4Config = Int4PlainConfig | Int4DirectConfig | Int4StagedConfig | Int4SpecialisedConfig


# --- the rules ------------------------------------------------------------------------------------

_NO_LIMIT: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of a rule: the products that it covers, and how to run them.

    most_tokens   tokens, up to
    least_group   columns of a group, from
    most_weights  rows * k, up to
    most_rows     rows, up to
    configs       of one kernel: of kernels.int4.direct the preferred one first
    otherwise     the same, where none of `configs` fits
    """

    most_tokens: int = _NO_LIMIT
    least_group: int = 0
    most_weights: int = _NO_LIMIT
    most_rows: int = _NO_LIMIT
    configs: tuple[Int4Config, ...]
    otherwise: tuple[Int4Config, ...] = ()

    def covers(self, sizes: Sizes) -> NDArray[np.bool_]:
        """Whether the row is about such products."""
        is_small = (sizes.rows * sizes.k <= self.most_weights) & (sizes.rows <= self.most_rows)
        return is_small & (sizes.group >= self.least_group) & (sizes.tokens <= self.most_tokens)


def _direct(
    row_tiles: int, depth: int, token_tile: int, *cuts: tuple[int, int]
) -> tuple[Int4DirectConfig, ...]:
    """One configuration per (split, warps) that K may divide by, the preferred one first."""
    return tuple(
        Int4DirectConfig(
            row_tiles=row_tiles, split=split, num_warps=warps, depth=depth, token_tile=token_tile
        )
        for split, warps in cuts
    )


def _staged(
    block: tuple[int, int],
    ring: tuple[int, int],
    *splits: int,
    matrix: str = "sync",
    us: tuple[float, float],
) -> tuple[Int4StagedConfig, ...]:
    """One configuration of four warps per number of splits that K may divide by.

    block  (rows, tokens)
    ring   (stages, unroll)
    us     (start, per unit) of its cost
    """
    whole = Int4StagedConfig(
        rows=block[0],
        split=1,
        num_warps=4,
        stages=ring[0],
        unroll=ring[1],
        token_tile=block[1],
        matrix=matrix,
        cost=Cost(*us),
    )
    return tuple(replace(whole, split=split) for split in splits)


def _specialised(
    parts: int, part_rows: int, token_tile: int, slots: int, us: tuple[float, float, float]
) -> tuple[Int4SpecialisedConfig, ...]:
    """One configuration per number of parts that K may be cut in. us: of its cost."""
    whole = Int4SpecialisedConfig(
        parts=parts,
        part_rows=part_rows,
        token_tile=token_tile,
        slots=slots,
        split=1,
        cost=Cost(*us),
    )
    # not 7: the largest blocks would spill registers
    return tuple(replace(whole, split=split) for split in (1, 2, 3, 4, 5, 6, 8))


# How kernels.int4.direct cuts K, (split, warps): the order where parts of K are whole if they can.
_CUTS: Final = ((1, 8), (4, 8), (1, 4), (1, 2), (1, 1), (2, 8), (2, 4), (4, 4), (8, 8))
# Two tiles in flight where few warps divide K, else one.
_PAIRS_OF_TILES: Final = _direct(2, 2, 8, (1, 4), (1, 2), (1, 1)) + _direct(1, 1, 8, *_CUTS)
# Bounds on weights, rows * k.
# 9 to 16 tokens take one tile at a time (plain) or two (chained) up to here, more tiles beyond.
_SMALLEST: Final = 1 << 23
# Up to here, plain launches of up to 8 tokens take one tile at a time, and those of 9 to 16 tokens
# the direct kernel.
_SMALL: Final = 1 << 24
# Chained launches of 9 to 16 tokens take the direct kernel up to here: [3584, 8192] takes 9.1 us,
# and 10.9 by the staged one.
_MIDDLE: Final = 1 << 25
# 8 tokens take the direct kernel up to here, plain and chained. Beyond, plain: [28672, 4096] would
# take 26 to 29 us, and 25 by the staged kernel; chained: 22 and 24, [10240, 8192] 17.9 and 16.9.
_LARGE: Final = 1 << 26
_LARGEST: Final = 1 << 27
_SPLITS: Final = (2, 4, 1)
_ODD_SPLITS: Final = (4, 2, 3, 5, 7, 1)

# Rings of unroll 1 are for a K that is an odd multiple of 128; those for 32 and 64 tokens saw
# [3584, 8192] alone.
_ROWS_128_8: Final = _staged((128, 8), (3, 2), *_SPLITS, us=(3.09, 0.370))
_ROWS_64_8: Final = _staged((64, 8), (4, 2), *_SPLITS, us=(2.73, 0.273))
_SHORT_8: Final = _staged((64, 8), (8, 1), *_ODD_SPLITS, us=(3.21, 0.322))
_ROWS_128_16: Final = _staged((128, 16), (3, 2), *_SPLITS, us=(2.37, 0.431))
_ROWS_64_16: Final = _staged((64, 16), (4, 2), *_SPLITS, matrix="group", us=(3.27, 0.305))
_SHORT_16: Final = _staged((64, 16), (8, 1), *_ODD_SPLITS, us=(3.09, 0.374))
_LONG_32: Final = _staged((64, 32), (2, 4), *_SPLITS, matrix="overlapped", us=(3.76, 0.294))
_ROWS_64_32: Final = _staged((64, 32), (2, 2), *_SPLITS, matrix="overlapped", us=(6.06, 0.337))
_SHORT_32: Final = _staged((64, 32), (8, 1), *_ODD_SPLITS, matrix="group", us=(6.72, 0.210))
_LONG_64: Final = _staged((64, 64), (2, 4), *_SPLITS, matrix="overlapped", us=(3.26, 0.306))
_ROWS_64_64: Final = _staged((64, 64), (2, 2), *_SPLITS, matrix="overlapped", us=(4.79, 0.459))
_SHORT_64: Final = _staged((64, 64), (8, 1), *_ODD_SPLITS, matrix="group", us=(2.69, 0.406))

_UP_TO_8: Final = Row(most_tokens=8, configs=_ROWS_128_8, otherwise=_ROWS_64_8 + _SHORT_8)
_UP_TO_16: Final = Row(most_tokens=16, configs=_ROWS_128_16 + _ROWS_64_16, otherwise=_SHORT_16)
_MORE: Final = (
    # with groups of 32 and zero points the overlapped product spills
    Row(least_group=64, configs=_LONG_64 + _ROWS_64_64, otherwise=_SHORT_64),
    Row(configs=_SHORT_64),
)
# Costs of kernels.int4.specialised: least squares of the logarithm of the estimate over the time
# (soft L1 from 10 %; configurations 25 % behind the best at a weight of 0.3), on three H100s
# (2026-11-25; not published; groups of 128, graphs of plain launches, turns of 10 ms over weights
# that do not stay in the L2 cache), 14 shapes and 24 to 256 tokens. What they choose took 0.7 %
# longer than the best configuration timed (geometric mean; 11 % at most). In us:
# chosen, direct_or_staged, bf16 of cuBLASLt.
#
#     rows x k       32 tokens    64             128            192             256 tokens
#     8192 x 28672   53  52 167   62  68 172     89 130 182     177 200 186     180 268 185
#     28672 x 8192   50  58 164   68  77 170     99 154 170     172 212 179     188 279 206
#     28672 x 4096   29  27  84   35  39  87     52  79  89      92 114  95     106 142 105
#     10240 x 8192   24  24  67   26  33  60     40  64  63      64  74  72      75 115  69
#     8192 x 8192    19  19  48   21  23  49     30  36  51      53  69  54      52  77  55
#     7168 x 8192    18  17  43   20  23  44     30  34  45      51  64  55      52  74  48
#     4096 x 14336   18  18  45   19  23  46     28  34  52      44  59  52      48  62  56
#     5120 x 8192    14  16  35   16  22  36     21  34  33      36  35  39      38  62  37
#     7168 x 4096    11  12  23   13  13  23     18  19  24      26  36  26      26  37  27
#     3584 x 8192    11  13  25   13  15  28     19  23  24      24  33  41      29  34  29
#     8192 x 3584    12  10  23   13  12  23     18  17  24      24  31  25      25  34  27
#     6144 x 4096    10  11  21   12  13  20     19  19  21      26  36  23      27  40  24
#     4096 x 4096     8  10  14    9  11  14     14  13  15      17  18  16      19  18  19
#     8192 x 2048     9   9  14   10   9  14     14  12  15      15  19  16      16  20  17
#
# Chained, by this kernel and by the others: 32 tokens of 28672 x 8192 46 and 52, 28672 x 4096 26
# and 27, 10240 x 8192 21 and 22, 8192 x 8192 18 and 17, 7168 x 8192 17 and 15, 4096 x 4096 8 and 8;
# 64 tokens of 7168 x 8192 20 and 21, 3584 x 8192 13 and 14, 7168 x 4096 13 and 12, 4096 x 4096 10
# and 9, 28672 x 4096 33 and 37. 16 tokens took longer than by the others everywhere.
# Where the last part of K to arrive added all, 64 tokens of 5120 x 8192 took 31 us, 256 took 47.
# Until 2026-11-26 blocks could share all units, and parts of K waited for each other: side by side
# with that, 28672 x 8192 takes 10 to 14 % longer with 192 tokens and 4 to 5 % with 256, and all of
# the table 1 % less in the mean (turns of 60 ms). Costs were not fitted again.
_BLOCKS_OF_32: Final = (
    *_specialised(2, 64, 32, 12, us=(4.31, 0.425, 0.27)),
    *_specialised(3, 64, 32, 8, us=(5.13, 0.590, 0.03)),
    *_specialised(4, 64, 32, 8, us=(4.83, 0.775, 0.14)),
)
_BLOCKS_OF_64: Final = (
    *_specialised(2, 64, 64, 8, us=(4.83, 0.507, 0.20)),
    *_specialised(3, 64, 64, 6, us=(4.92, 0.722, 0.15)),
    *_specialised(4, 64, 64, 6, us=(5.22, 0.911, 0.24)),
)
_BLOCKS_OF_128: Final = (
    *_specialised(2, 64, 128, 5, us=(4.44, 0.776, 0.78)),
    *_specialised(3, 64, 128, 5, us=(7.89, 1.089, 0.02)),
    *_specialised(2, 128, 128, 4, us=(10.06, 1.442, 0.01)),
)

PLAIN_LAUNCHES: Final = "int4"
CHAINED_LAUNCHES: Final = "int4_chained"
SPECIALISED: Final = "int4_specialised"
RULES: Final[dict[str, tuple[Row, ...]]] = {
    PLAIN_LAUNCHES: (
        Row(most_tokens=8, most_weights=_SMALL, configs=_direct(1, 1, 8, *_CUTS)),
        Row(
            most_tokens=2,
            least_group=128,
            most_weights=_LARGE,
            configs=_direct(2, 2, 8, (2, 8), (4, 4)) + _PAIRS_OF_TILES,
        ),
        Row(
            most_tokens=8,
            least_group=128,
            most_weights=_LARGE,
            configs=_direct(2, 2, 8, (8, 8), (4, 4)) + _PAIRS_OF_TILES,
        ),
        # Up to 4096 rows, staged blocks of 64 rows were 5 to 121 % faster where rings of one unit
        # let K be cut in more parts (13 probes of the H100), beyond that 6 to 17 % slower (5).
        Row(
            most_tokens=8,
            most_rows=4096,
            most_weights=_LARGE,
            configs=_direct(1, 1, 8, *_CUTS),
            otherwise=_ROWS_64_8 + _SHORT_8,
        ),
        Row(
            most_tokens=8,
            most_weights=_LARGE,
            configs=_direct(1, 1, 8, *_CUTS),
            otherwise=_ROWS_64_8,
        ),
        _UP_TO_8,
        Row(
            most_tokens=16,
            least_group=64,
            most_weights=_SMALLEST,
            configs=_direct(1, 1, 16, (1, 8), (1, 4), (4, 8)),
        ),
        Row(
            most_tokens=16,
            least_group=64,
            most_weights=_SMALL,
            configs=_direct(2, 2, 16, (2, 8), (1, 8), (1, 4)),
        ),
        _UP_TO_16,
        Row(most_tokens=32, configs=_LONG_32 + _ROWS_64_32, otherwise=_SHORT_32),
        *_MORE,
    ),
    CHAINED_LAUNCHES: (
        Row(
            most_tokens=8,
            least_group=128,
            most_weights=_SMALL,
            configs=_direct(2, 2, 8, (1, 8), (4, 4)) + _PAIRS_OF_TILES,
        ),
        Row(
            most_tokens=8,
            least_group=128,
            most_weights=_LARGEST,
            configs=_direct(4, 2, 8, (8, 8)) + _PAIRS_OF_TILES,
        ),
        # with smaller groups and zero points two tiles in flight would spill
        Row(
            most_tokens=8,
            most_weights=_LARGEST,
            configs=_direct(1, 1, 8, *_CUTS),
            otherwise=_ROWS_64_8 + _SHORT_8,
        ),
        _UP_TO_8,
        Row(
            most_tokens=16,
            least_group=64,
            most_weights=_SMALLEST,
            configs=_direct(2, 2, 16, (1, 8), (2, 8)),
        ),
        Row(
            most_tokens=16,
            least_group=64,
            most_weights=_SMALL,
            configs=_direct(4, 4, 16, (4, 8), (2, 8), (1, 8)),
        ),
        Row(
            most_tokens=16,
            least_group=128,
            most_weights=_MIDDLE,
            configs=_direct(7, 4, 16, (2, 8), (4, 8)),
            otherwise=_direct(4, 4, 16, (8, 8), (4, 8)),
        ),
        Row(
            most_tokens=16,
            least_group=64,
            most_weights=_MIDDLE,
            configs=_direct(7, 7, 16, (2, 8), (4, 8)),
            otherwise=_direct(4, 4, 16, (8, 8), (4, 8)),
        ),
        _UP_TO_16,
        Row(most_tokens=32, configs=_LONG_32, otherwise=_ROWS_64_32 + _SHORT_32),
        *_MORE,
    ),
    SPECIALISED: (
        Row(most_tokens=32, least_group=64, configs=_BLOCKS_OF_32),
        Row(most_tokens=64, least_group=64, configs=_BLOCKS_OF_64),
        Row(most_tokens=128, least_group=64, configs=_BLOCKS_OF_128),
        Row(most_tokens=192, least_group=64, configs=_BLOCKS_OF_64 + _BLOCKS_OF_128),
        Row(least_group=64, configs=_BLOCKS_OF_128),
    ),
}
# kernels.int4.plain, by tokens; never timed. Four row tiles of 64 tokens would spill on sm_80.
INT4_PLAIN: Final = tuple(
    Int4PlainConfig(row_tiles=row_tiles, token_tile=tokens, split=1, num_warps=4)
    for tokens, row_tiles in ((16, 4), (32, 4), (64, 2))
)
# What stands for it among the blocks of many products.
_NOT_TUNED: Final = Int4PlainConfig(row_tiles=4, token_tile=64, split=1, num_warps=4)
_LEAST_TOKENS: Final = 17
_LEAST_K: Final = 4096  # from which up to 128 tokens were faster: see 3584 and 2048 in the table


# --- one product ----------------------------------------------------------------------------------


def choose(
    weights: WeightSizes, tokens: int, *, chained: bool = False, units: int = _H200_UNITS
) -> Int4Config:
    """How a sm_90 with so many multiprocessors runs this product, so launched.

    By kernels.int4.specialised where `is_for_specialised`, else by `direct_or_staged`.
    """
    if is_for_specialised(weights, tokens, chained=chained):
        config = for_many_tokens(weights, tokens, units)
        if config is not None:
            return config
    return direct_or_staged(weights, tokens, chained=chained, units=units)


def is_for_specialised(weights: WeightSizes, tokens: int, *, chained: bool) -> bool:
    """Whether kernels.int4.specialised was faster, or at most 7 % slower, where both were timed.

    Symmetric weights in groups of 128, bf16, H100s. An H200, zero points, other groups and fp16
    were not timed.
    """
    if tokens < _LEAST_TOKENS:
        return False
    if weights.k < _LEAST_K:
        return tokens > 128
    if tokens > 64 or not chained:
        return True
    # the others gain 1 to 3 us by starting while the kernel before ends: times stand with the costs
    is_long = weights.k >= 6144 and tokens > 32
    return is_long or weights.rows >= (10240 if tokens <= 32 else 16384)


def direct_or_staged(
    weights: WeightSizes, tokens: int, *, chained: bool = False, units: int = _H200_UNITS
) -> Int4Config:
    """The same by the other kernels alone: kernels.int4.plain where no row has one that fits."""
    rule = CHAINED_LAUNCHES if chained else PLAIN_LAUNCHES
    return _choice(rule, weights, tokens, units) or plain(tokens)


def for_many_tokens(
    weights: WeightSizes, tokens: int, units: int = _H200_UNITS
) -> Int4SpecialisedConfig | None:
    """How kernels.int4.specialised runs this product on sm_90; None where it does not."""
    config = _choice(SPECIALISED, weights, tokens, units) if tokens >= _LEAST_TOKENS else None
    assert config is None or isinstance(config, Int4SpecialisedConfig)
    return config


def plain(tokens: int) -> Int4PlainConfig:
    """The configuration of the kernel in plain Triton: the smallest token tile that suffices."""
    large_enough = (config for config in INT4_PLAIN if tokens <= config.token_tile)
    return next(large_enough, INT4_PLAIN[-1])


def _choice(rule: str, weights: WeightSizes, tokens: int, units: int) -> Int4Config | None:
    places, _ = _choices(rule, sizes_of(weights, tokens), units)
    config = _CONFIGS[rule][places.item()]
    return None if config is _NOT_TUNED else config


# --- many products --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The blocks of products, vectors of float64.

    direct             1 for those of kernels.int4.direct, else 0
    rows, tokens       of a block
    split              parts of K
    warps              of a block
    resident           blocks of the staged kernel that a multiprocessor holds at once; of the
                       direct one, which uses hardly any shared memory, and others 1
    count              blocks of the product
    unroll             units of 128 columns in a slot of the staged kernel's ring; of others 1
    """

    direct: Array
    rows: Array
    tokens: Array
    split: Array
    warps: Array
    resident: Array
    count: Array
    unroll: Array


def chosen_blocks(rule: str, sizes: Sizes, units: int) -> Blocks:
    """The blocks that products take by a rule of RULES on so many multiprocessors.

    64 x 64 stand for kernels.int4.plain, which was never timed on sm_90. Raises KeyError for
    another rule.
    """
    if (count := sizes.tokens.size) > _AT_ONCE:
        starts = range(0, count, _AT_ONCE)
        parts = [Sizes(*(size[start : start + _AT_ONCE] for size in sizes)) for start in starts]
        blocks = [chosen_blocks(rule, part, units) for part in parts]
        columns = {
            one.name: np.concatenate([getattr(part, one.name) for part in blocks])
            for one in fields(Blocks)
        }
        return Blocks(**columns)
    places, resident = _choices(rule, sizes, units)
    names = ("direct", "rows", "tokens", "split", "warps", "unroll")
    chosen = {
        name: np.take_along_axis(np.ascontiguousarray(_TABLES[rule][name]), places, axis=0)
        for name in names
    }
    return Blocks(**chosen, resident=resident, count=_count(chosen, sizes))


_AT_ONCE: Final = 1 << 14  # products for which all configurations of a row are ranked at once


def _choices(rule: str, sizes: Sizes, units: int) -> tuple[NDArray[np.intp], Array]:
    """(each product's place in _CONFIGS[rule], the blocks that a multiprocessor holds at once)."""
    none = len(_CONFIGS[rule]) - 1
    places = np.full_like(sizes.tokens, none, dtype=np.intp)
    resident, first = np.ones_like(sizes.tokens), 0
    for row in RULES[rule]:
        is_covered = row.covers(sizes)
        for configs in filter(None, (row.configs, row.otherwise)):
            table = _TABLES[rule][first : first + len(configs), None]
            is_asking = is_covered & (places == none)
            if is_asking.any():
                its = Sizes(*(size[is_asking] for size in sizes))
                held = _resident(type(configs[0]), table, its)
                costs = _costs(type(configs[0]), table, its, units, held)
                best = np.where(held > 0, costs, np.inf).argmin(axis=0)
                held = np.take_along_axis(held, best[None], axis=0)[0]
                places[is_asking] = np.where(held > 0, first + best, none)
                resident[is_asking] = np.maximum(1.0, held)
            first += len(configs)
    return places, resident


def _costs(kernel: type, table: NDArray[Any], sizes: Sizes, units: int, held: Array) -> Array:
    """What each configuration [configurations, 1] costs for each product: the least is taken.

    Of kernels.int4.direct, its place. Of others microseconds, as far as they depend on the
    configuration. Blocks run in turns, as many at once as fit on the multiprocessors:

        staged        turns * (start + units of K * unit) + merging the splits of K
        specialised   turns * (start + units of a block * unit) + parts of K * part, if several

    The start is until a ring is filled and until sums are stored; an exchange of two to eight parts
    takes 0.1 to 6 us.
    """
    count = _count(table, sizes)
    if kernel is Int4DirectConfig:
        return np.broadcast_to(np.arange(len(table), dtype=float)[:, None], count.shape)
    turns = np.ceil(np.ceil(count / units) / np.maximum(1.0, held))
    split, unit_us = table["split"], table["unit_us"]
    if kernel is Int4SpecialisedConfig:
        parts = table["part_us"] * np.where(split > 1, split, 0.0)
        of_block = table["start_us"] + unit_us * np.ceil(sizes.units / split)
        return np.asanyarray(turns * of_block + parts)
    of_block = table["start_us"] + unit_us * sizes.k / UNIT_COLUMNS / split
    return np.asanyarray(turns * of_block + _HALVING_US * table["halvings"])


_HALVING_US: Final = 1.76  # each time that K is cut in two


# log2 of the parts of K that rules have, with the same bits everywhere (NumPy's log2 differs)
_HALVINGS: Final = {
    1: 0.0, 2: 1.0, 3: 1.584962500721156, 4: 2.0,
    5: 2.321928094887362, 6: 2.584962500721156, 7: 2.807354922057604, 8: 3.0,
}  # fmt: skip


def _count(table: Mapping[str, Array] | NDArray[Any], sizes: Sizes) -> Array:
    """Blocks of products."""
    across = np.ceil(sizes.padded_rows / table["rows"])
    return np.asanyarray(across * np.ceil(sizes.tokens / table["tokens"]) * table["split"])


def _resident(kernel: type, table: NDArray[Any], sizes: Sizes) -> Array:
    """Blocks that a multiprocessor holds at once; 0 where a configuration does not fit the weights.

    Shared memory and warps limit those of the staged kernel; of the others it is 1.
    """
    if kernel is Int4PlainConfig:
        return np.ones(np.broadcast(table["rows"], sizes.k).shape)
    if kernel is Int4SpecialisedConfig:
        has_room = _shared_bytes(kernel, table, sizes) <= _MOST_BYTES_OF_BLOCK
        return 1.0 * (has_room & (sizes.group > 32) & _has_work(sizes.units, table["split"]))
    divides = sizes.padded_rows % table["rows"] == 0
    if kernel is Int4DirectConfig:
        warps = table["split"] * table["warps"]
        has_registers = sizes.units <= table["most_units"] * warps
        # groups of 32 take masks, for which blocks of 16 tokens have no registers
        has_registers &= (table["tokens"] == 8) | (sizes.group > 32)
        return 1.0 * (divides & has_registers & (sizes.units % warps == 0))
    divides &= sizes.units % (table["split"] * table["unroll"]) == 0
    # what aligning buffers can cost is as much as the 1 KiB that CUDA reserves per block
    needed = _shared_bytes(kernel, table, sizes)
    by_memory = np.maximum(1.0, np.floor(_BYTES_OF_MULTIPROCESSOR / needed))
    held = np.minimum(by_memory, _WARPS_OF_MULTIPROCESSOR // table["warps"])
    return held * (divides & (needed <= _MOST_BYTES_OF_BLOCK))


def _has_work(units: Any, split: Any) -> Any:
    """Whether each of the equal parts of K, of which the last may be shorter, has a unit."""
    return np.ceil(units / split) * (split - 1) < units


def _shared_bytes(kernel: type, table: NDArray[Any], sizes: Sizes) -> Array:
    """Most shared memory of a block: a ring with its barriers, and staged also all scales."""
    rows, tokens, slots = table["rows"], table["tokens"], table["stages"]
    has_groups = sizes.group != sizes.k
    if kernel is Int4SpecialisedConfig:
        scales = np.where(has_groups, np.maximum(1.0, UNIT_COLUMNS / sizes.group), 1.0)
        slot = rows * (64 + 2 * scales * sizes.stored) + 256 * tokens + 16
        return np.asanyarray(slots * slot + _BETWEEN_BUFFERS)
    units, unroll = np.floor(sizes.units / table["split"]), table["unroll"]
    ring = np.minimum(slots, np.floor(units / unroll)) * (unroll * (64 * rows + 256 * tokens) + 8)
    groups = np.maximum(1.0, np.where(has_groups, units * UNIT_COLUMNS / sizes.group, 1.0))
    mantissa, exponent = np.frexp(groups)
    power_of_two = np.ldexp(1.0, exponent - (mantissa == 0.5))
    return np.asanyarray(ring + 2 * power_of_two * rows * sizes.stored + _BETWEEN_BUFFERS)


def _most_units(config: BlockConfig) -> int:
    assert isinstance(config, Int4DirectConfig)
    has_more_in_flight = config.token_tile == 8 and config.depth > 1
    return MOST_UNITS[config.token_tile] - (1 if has_more_in_flight else 0)


def figures(config: BlockConfig) -> dict[str, bool | int | float]:
    """What the rule knows of a configuration: a line of its tables."""
    is_direct = isinstance(config, Int4DirectConfig)
    return {
        "direct": is_direct,
        "specialised": isinstance(config, Int4SpecialisedConfig),
        "rows": config.block_rows,
        "tokens": config.token_tile,
        "split": config.split,
        "halvings": _HALVINGS.get(config.split, np.nan),  # a caller may have any
        "warps": config.num_warps,
        "most_units": _most_units(config) if is_direct else 0,
        "stages": getattr(config, "stages", getattr(config, "slots", 0)),
        "unroll": getattr(config, "unroll", 1),
        **config.cost._asdict(),
    }


def _table(configs: tuple[BlockConfig, ...]) -> NDArray[Any]:
    lines = [figures(config) for config in configs]
    columns = [(name, np.float64) for name in lines[0]]
    return np.array([tuple(line.values()) for line in lines], dtype=columns)


# rule -> the configurations of all its rows, and what stands for none of them
_CONFIGS: Final = {
    rule: (*(config for row in rows for config in row.configs + row.otherwise), _NOT_TUNED)
    for rule, rows in RULES.items()
}
_TABLES: Final = {rule: _table(configs) for rule, configs in _CONFIGS.items()}
