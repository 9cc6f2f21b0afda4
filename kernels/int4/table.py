"""Which configuration an int4 product runs: measured tables, and costs where a table has several.

INT4_TABLE was filled from measurements on an H200 of 2026-11-21: bf16, symmetric weights, groups of
128 (of 64 too at [3584, 8192] and, for 16 tokens, [28672, 8192]), launches plain and chained
(programmatic dependent launch), graphs over weights that do not stay in the L2 cache, of

    [3584, 8192]     1, 4, 8, 16, 32 and 64 tokens
    [28672, 8192]    1, 8, 16, 32 and 64 tokens
    [4096, 14336], [5120, 8192], [8192, 28672], [10240, 8192]    1, 16, 32 and 64 tokens
    [8192, 3584]     1, 16 and 64 tokens

`direct_or_staged` takes, of a row, the first configuration of kernels.int4.direct that fits (where
the row says so, the first whose blocks all run at once), or the one of kernels.int4.staged whose
`estimate` is least. Not measured, and taken from the nearest of
these: other sizes and numbers of tokens, groups of 32 and of a whole row, zero points, fp16. Rows
for 16 tokens chained saw [7168, 4096], [4096, 4096] and five others on an H100 too (2026-11-25).

Costs of staged blocks were fitted to the same measurements: least squares of the logarithm of the
estimate over the measured time, robust (soft L1 from 10 %), on all measured splits, plain and
chained launches together, configurations more than 30 % slower than the best of their shape at a
weight of 0.3. They rank configurations and predict no time: where the memory's bandwidth decides,
estimates are up to a third too low. With constants fitted without a shape, the choice took on that
shape 0.7 % longer than the best one measured (geometric mean of 46 cases of 16 to 64 tokens; at
most 6.8 %). The candidates and the bounds of rows were picked with all shapes in sight.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

import triton

from kernels.int4.configs import (
    Int4Config,
    Int4DirectConfig,
    Int4PlainConfig,
    Int4SpecialisedConfig,
    Int4StagedConfig,
    has_work,
)
from kernels.int4.packing import UNIT_COLUMNS, Int4Weights

_H200_UNITS: Final = 132  # multiprocessors
# Of a multiprocessor of compute capability 9.0 (CUDA C++ Programming Guide, technical
# specifications per compute capability).
_SHARED_MEMORY_BYTES: Final = 228 * 1024
_WARPS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4Row:
    """A row of the table: the products it is for, and how to run them.

    most_tokens   tokens, up to
    least_group   columns of a group, from
    most_weights  rows * k, up to
    configs       of kernels.int4.direct in the order of preference, or of staged to choose from
    otherwise     the same, where none of `configs` fits
    at_once       prefer one of direct whose blocks are no more than the multiprocessors
    """

    most_tokens: int
    least_group: int = 0
    most_weights: int = 1 << 62
    configs: tuple[Int4Config, ...]
    otherwise: tuple[Int4Config, ...] = ()
    at_once: bool = False

    def covers(self, weights: Int4Weights, tokens: int) -> bool:
        """Whether the row is about such a product."""
        is_small = weights.rows * weights.k <= self.most_weights
        return is_small and weights.group >= self.least_group and tokens <= self.most_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds of a staged block beside as many as fit: start_s, and unit_s per 128 columns of K."""

    start_s: float
    unit_s: float


COSTS: Final[dict[Int4StagedConfig, Cost]] = {}  # by configuration with split=1; filled by _staged
HALVING_S: Final = 1.76e-6  # each time that K is cut in two


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
    )
    COSTS[whole] = Cost(start_s=us[0] * 1e-6, unit_s=us[1] * 1e-6)
    return tuple(replace(whole, split=split) for split in splits)


def _with_first(preferred: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """The cuts of K, (split, warps), with another one in front."""
    return (preferred, *(cut for cut in _CUTS if cut != preferred))


_CUTS: Final = ((1, 8), (1, 4), (2, 8), (2, 4), (4, 8), (4, 4), (8, 8), (1, 2), (1, 1))
# Weights, rows * k, up to which kernels.int4.direct was the fastest, or within 9 %: [4096, 14336],
# not [10240, 8192], where blocks of 128 rows were; chained with 16 tokens [3584, 8192] and, in two
# parts of K instead of four, [7168, 4096] (9.0 and 12.4 us on an H100, 2026-11-25): 128 blocks, all
# of which run at once. [4096, 4096] has blocks of 64 rows (6.1 us; 6.9 by the staged kernel).
_MIDDLE: Final = 1 << 26
_SMALL: Final = 1 << 25
_SMALLEST: Final = 1 << 24
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

_UP_TO_8: Final = Int4Row(most_tokens=8, configs=_ROWS_128_8, otherwise=_ROWS_64_8 + _SHORT_8)
_UP_TO_16: Final = Int4Row(most_tokens=16, configs=_ROWS_128_16 + _ROWS_64_16, otherwise=_SHORT_16)
_MORE: Final = (
    # with groups of 32 and zero points the overlapped product spills
    Int4Row(
        most_tokens=1 << 30, least_group=64, configs=_LONG_64 + _ROWS_64_64, otherwise=_SHORT_64
    ),
    Int4Row(most_tokens=1 << 30, configs=_SHORT_64),
)
_CUTS_16: Final = ((4, 8), (2, 8))

# kernels.int4.gemm on sm_90, by whether the launch is chained: the first row that a product belongs
# to and that has a configuration which fits.
INT4_TABLE: Final[dict[bool, tuple[Int4Row, ...]]] = {
    False: (
        Int4Row(
            most_tokens=8,
            least_group=128,
            most_weights=_MIDDLE,
            configs=_direct(2, 2, 8, *_with_first((2, 8))),
        ),
        Int4Row(most_tokens=4, most_weights=_MIDDLE, configs=_direct(1, 1, 8, *_CUTS)),
        Int4Row(most_tokens=8, most_weights=_MIDDLE, configs=_ROWS_64_8, otherwise=_SHORT_8),
        _UP_TO_8,
        _UP_TO_16,
        Int4Row(most_tokens=32, configs=_LONG_32 + _ROWS_64_32, otherwise=_SHORT_32),
        *_MORE,
    ),
    True: (
        Int4Row(
            most_tokens=8,
            least_group=128,
            most_weights=_MIDDLE,
            # A K of 3584, which the first does not divide, was faster two tiles at a time. With
            # eight units a warp that would spill; the first takes what would have eight.
            configs=_direct(1, 1, 8, (2, 4))
            + _direct(2, 2, 8, (1, 4))
            + _direct(1, 1, 8, *_with_first((2, 4))[1:]),
        ),
        Int4Row(
            most_tokens=8,
            most_weights=_MIDDLE,
            configs=_direct(1, 1, 8, *_CUTS),
            otherwise=_ROWS_64_8 + _SHORT_8,
        ),
        _UP_TO_8,
        Int4Row(
            most_tokens=16,
            least_group=128,
            most_weights=_SMALLEST,
            configs=_direct(7, 4, 16, *_CUTS_16) + _direct(4, 4, 16, (4, 8)),
            at_once=True,
        ),
        Int4Row(
            most_tokens=16,
            least_group=128,
            most_weights=_SMALL,
            configs=_direct(7, 4, 16, *_CUTS_16),
            at_once=True,
        ),
        Int4Row(
            most_tokens=16,
            most_weights=_SMALL,
            configs=_direct(7, 7, 16, *_CUTS_16),
            at_once=True,
        ),
        _UP_TO_16,
        Int4Row(most_tokens=32, configs=_LONG_32, otherwise=_ROWS_64_32 + _SHORT_32),
        *_MORE,
    ),
}
# kernels.int4.plain, by tokens; never timed. Four row tiles of 64 tokens would spill on sm_80.
INT4_PLAIN: Final = tuple(
    Int4PlainConfig(row_tiles=row_tiles, token_tile=tokens, split=1, num_warps=4)
    for tokens, row_tiles in ((16, 4), (32, 4), (64, 2))
)


def choose(
    weights: Int4Weights, tokens: int, *, chained: bool = False, units: int = _H200_UNITS
) -> Int4Config:
    """How a sm_90 with so many multiprocessors runs this product, so launched.

    By kernels.int4.specialised where `is_for_specialised`, else by `direct_or_staged`.
    """
    if is_for_specialised(weights, tokens, chained=chained):
        config = for_many_tokens(weights, tokens, units)
        if config is not None:
            return config
    return direct_or_staged(weights, tokens, chained=chained, units=units)


def is_for_specialised(weights: Int4Weights, tokens: int, *, chained: bool) -> bool:
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
    weights: Int4Weights, tokens: int, *, chained: bool = False, units: int = _H200_UNITS
) -> Int4Config:
    """The same by the other kernels alone.

    From the first row of the table that has something which fits: the preferred configuration of
    kernels.int4.direct, or the one of kernels.int4.staged with the least `estimate`.
    """
    for row in INT4_TABLE[chained]:
        if row.covers(weights, tokens):
            for configs in (row.configs, row.otherwise):
                fitting = [config for config in configs if config.fits(weights)]
                if fitting:
                    return _fastest(fitting, weights, tokens, units, at_once=row.at_once)
    return plain(tokens)


def _fastest(
    configs: list[Int4Config], weights: Int4Weights, tokens: int, units: int, *, at_once: bool
) -> Int4Config:
    """The preferred one of the direct ones, if there are any; else the staged one by estimate.

    at_once: the first of the direct ones whose blocks are no more than the multiprocessors, if any.
    """
    staged = [config for config in configs if isinstance(config, Int4StagedConfig)]
    if len(staged) < len(configs):
        if not at_once:
            return configs[0]
        blocks = (math.prod(config.grid(weights, tokens)) for config in configs)
        return next(
            (c for c, count in zip(configs, blocks, strict=True) if count <= units), configs[0]
        )
    return min(staged, key=lambda config: estimate(config, weights, tokens, units))


def plain(tokens: int) -> Int4PlainConfig:
    """The configuration of the kernel in plain Triton: the smallest token tile that suffices."""
    large_enough = (config for config in INT4_PLAIN if tokens <= config.token_tile)
    return next(large_enough, INT4_PLAIN[-1])


def estimate(
    config: Int4StagedConfig, weights: Int4Weights, tokens: int, units: int = _H200_UNITS
) -> float:
    """Seconds that a product takes, so far as they depend on the configuration.

        turns * (start + columns of a block * time of a column) + merging the splits of K

    Blocks run in turns, as many at once as fit on the multiprocessors. Raises KeyError for a
    configuration without a cost.
    """
    across, down, split = config.grid(weights, tokens)
    blocks_per_unit = triton.cdiv(across * down * split, units)
    turns = triton.cdiv(blocks_per_unit, _resident_blocks(config, weights))
    cost = COSTS[replace(config, split=1)]
    block_s = cost.start_s + cost.unit_s * weights.k / UNIT_COLUMNS / split
    return turns * block_s + HALVING_S * math.log2(split)


def _resident_blocks(config: Int4StagedConfig, weights: Int4Weights) -> int:
    """Blocks that a multiprocessor holds at once, by shared memory and threads."""
    # what aligning buffers can cost is as much as the 1 KiB that CUDA reserves per block
    block = config.shared_bytes(weights.k, weights.group, zeros=weights.zeros is not None)
    return min(_SHARED_MEMORY_BYTES // block, _WARPS // config.num_warps)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialisedCost:
    """Microseconds of a block of kernels.int4.specialised, which has a multiprocessor to itself.

    start_us   until its ring is filled, and until its sums are stored
    unit_us    128 columns of K
    part_us    where K is split: each part of K (an exchange of two to eight takes 0.1 to 6 us)
    """

    start_us: float
    unit_us: float
    part_us: float


def _specialised(
    parts: int, part_rows: int, token_tile: int, slots: int, us: tuple[float, float, float]
) -> tuple[Int4SpecialisedConfig, SpecialisedCost]:
    config = Int4SpecialisedConfig(
        parts=parts, part_rows=part_rows, token_tile=token_tile, slots=slots, split=1
    )
    return config, SpecialisedCost(start_us=us[0], unit_us=us[1], part_us=us[2])


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
SPECIALISED_COSTS: Final = dict(
    (
        _specialised(2, 64, 32, 12, us=(4.31, 0.425, 0.27)),
        _specialised(3, 64, 32, 8, us=(5.13, 0.590, 0.03)),
        _specialised(4, 64, 32, 8, us=(4.83, 0.775, 0.14)),
        _specialised(2, 64, 64, 8, us=(4.83, 0.507, 0.20)),
        _specialised(3, 64, 64, 6, us=(4.92, 0.722, 0.15)),
        _specialised(4, 64, 64, 6, us=(5.22, 0.911, 0.24)),
        _specialised(2, 64, 128, 5, us=(4.44, 0.776, 0.78)),
        _specialised(3, 64, 128, 5, us=(7.89, 1.089, 0.02)),
        _specialised(2, 128, 128, 4, us=(10.06, 1.442, 0.01)),
    )
)
_PARTS_OF_K: Final = (1, 2, 3, 4, 5, 6, 8)  # not 7: the largest blocks would spill registers
_LEAST_TOKENS: Final = 17
_LEAST_K: Final = 4096  # from which up to 128 tokens were faster: see 3584 and 2048 in the table


def for_many_tokens(
    weights: Int4Weights, tokens: int, units: int = _H200_UNITS
) -> Int4SpecialisedConfig | None:
    """How kernels.int4.specialised runs this product on sm_90; None where it does not.

    The configuration with the least `specialised_estimate` of those that fit.
    """
    if tokens < _LEAST_TOKENS:
        return None
    return min(
        candidates(weights, tokens),
        key=lambda config: specialised_estimate(config, weights, tokens, units),
        default=None,
    )


def candidates(weights: Int4Weights, tokens: int) -> list[Int4SpecialisedConfig]:
    """Configurations that fit so many tokens, for every number of parts that K can be cut in."""
    least = min(64, triton.next_power_of_2(tokens))
    tiles = (least,) if tokens <= 64 else (64, 128) if 128 < tokens <= 192 else (128,)
    splits = [split for split in _PARTS_OF_K if has_work(weights.k // UNIT_COLUMNS, split)]
    fitting = [
        config
        for config in SPECIALISED_COSTS
        if config.token_tile in tiles and config.fits(weights)
    ]
    return [replace(config, split=split) for config in fitting for split in splits]


def specialised_estimate(
    config: Int4SpecialisedConfig, weights: Int4Weights, tokens: int, units: int = _H200_UNITS
) -> float:
    """Microseconds that a product takes, so far as they depend on the configuration.

        turns * (start + units of 128 columns of a block * time of one) + parts of K, if several

    Raises KeyError for a configuration without a cost.
    """
    cost = SPECIALISED_COSTS[replace(config, split=1)]
    turns = triton.cdiv(math.prod(config.grid(weights, tokens)), units)
    of_block = triton.cdiv(weights.k // UNIT_COLUMNS, config.split)
    parts = cost.part_us * (config.split if config.split > 1 else 0)
    return turns * (cost.start_us + cost.unit_us * of_block) + parts
