"""Configurations of the int4 kernels as data; the compile test walks them.

INT4_TABLE was filled from measurements on an H200 of 2026-11-21: bf16, symmetric weights, groups of
128 (of 64 too at [3584, 8192] and, for 16 tokens, [28672, 8192]), launches plain and chained
(programmatic dependent launch), graphs over weights that do not stay in the L2 cache, of

    [3584, 8192]     1, 4, 8, 16, 32 and 64 tokens
    [28672, 8192]    1, 8, 16, 32 and 64 tokens
    [4096, 14336], [5120, 8192], [8192, 28672], [10240, 8192]    1, 16, 32 and 64 tokens
    [8192, 3584]     1, 16 and 64 tokens

kernels.int4.plans.choose takes, of a row, the first configuration of int4_direct that fits, or the
one of int4_staged whose time by kernels.int4.costs is least. Not measured, and taken from the
nearest of these: other sizes and numbers of tokens, groups of 32 and of a whole row, zero points,
fp16. `otherwise` is for sizes that `configs` do not divide; INT4_PLAIN was never timed.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4PlainConfig:
    """Blocks of 16 * row_tiles rows x token_tile tokens, K cut in `split` parts."""

    row_tiles: int
    token_tile: int
    split: int
    num_warps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4DirectConfig:
    """kernels.int4.direct: each warp owns a slice of K and streams its weights to registers.

    row_tiles   tiles of 16 rows a block works through, one after another
    split       parts of K that go to different blocks; another `num_warps` parts go to the warps
    depth       tiles whose weights are in flight at once
    token_tile  8 or 16
    """

    row_tiles: int
    split: int
    num_warps: int
    depth: int
    token_tile: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4StagedConfig:
    """kernels.int4.staged: weights and activations pass through a ring in shared memory.

    rows        rows of a block: 64, 128 or 256
    split       parts of K that go to different blocks
    stages      slots of the ring
    unroll      units of 128 columns per slot
    token_tile  tokens of a block: 8 to 128, a power of two
    matrix      how it multiplies: "sync" (mma.sync), "group" (wgmma), "overlapped" (wgmma, the next
                unit is dequantised meanwhile)
    """

    rows: int
    split: int
    num_warps: int
    stages: int
    unroll: int
    token_tile: int
    matrix: str


Int4Config = Int4PlainConfig | Int4DirectConfig | Int4StagedConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4Row:
    """A row of the table: the products it is for, and how to run them.

    most_tokens   tokens, up to
    least_group   columns of a group, from
    most_weights  rows * k, up to
    configs       of int4_direct in the order of preference, or of int4_staged to choose from
    otherwise     the same, where none of `configs` fits
    """

    most_tokens: int
    least_group: int = 0
    most_weights: int = 1 << 62
    configs: tuple[Int4Config, ...]
    otherwise: tuple[Int4Config, ...] = ()


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
    block: tuple[int, int, int], ring: tuple[int, int], *splits: int, matrix: str = "sync"
) -> tuple[Int4StagedConfig, ...]:
    """One configuration per number of splits that K may divide by.

    block  (rows, tokens, warps)
    ring   (stages, unroll)
    """
    return tuple(
        Int4StagedConfig(
            rows=block[0],
            split=split,
            num_warps=block[2],
            stages=ring[0],
            unroll=ring[1],
            token_tile=block[1],
            matrix=matrix,
        )
        for split in splits
    )


def _first(preferred: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """The cuts of K, (split, warps), with another one in front."""
    return (preferred, *(cut for cut in _CUTS if cut != preferred))


_CUTS: Final = ((1, 8), (1, 4), (2, 8), (2, 4), (4, 8), (4, 4), (8, 8), (1, 2), (1, 1))
# Weights, rows * k, up to which int4_direct was the fastest, or within 9 %: [4096, 14336], not
# [10240, 8192], where blocks of 128 rows were; chained with 16 tokens [3584, 8192], whose 128
# blocks all run at once.
_MIDDLE: Final = 1 << 26
_SMALL: Final = 1 << 25
_SPLITS: Final = (2, 4, 1)
_ODD_SPLITS: Final = (4, 2, 3, 5, 7, 1)

# Rings of unroll 1 are for a K that is an odd multiple of 128.
_ROWS_128_8: Final = _staged((128, 8, 4), (3, 2), *_SPLITS)
_ROWS_64_8: Final = _staged((64, 8, 4), (4, 2), *_SPLITS)
_SHORT_8: Final = _staged((64, 8, 4), (8, 1), *_ODD_SPLITS)
_ROWS_128_16: Final = _staged((128, 16, 4), (3, 2), *_SPLITS)
_ROWS_64_16: Final = _staged((64, 16, 4), (4, 2), *_SPLITS, matrix="group")
_SHORT_16: Final = _staged((64, 16, 4), (8, 1), *_ODD_SPLITS)
_LONG_32: Final = _staged((64, 32, 4), (2, 4), *_SPLITS, matrix="overlapped")
_ROWS_64_32: Final = _staged((64, 32, 4), (2, 2), *_SPLITS, matrix="overlapped")
_SHORT_32: Final = _staged((64, 32, 4), (8, 1), *_ODD_SPLITS, matrix="group")
_LONG_64: Final = _staged((64, 64, 4), (2, 4), *_SPLITS, matrix="overlapped")
_ROWS_64_64: Final = _staged((64, 64, 4), (2, 2), *_SPLITS, matrix="overlapped")
_SHORT_64: Final = _staged((64, 64, 4), (8, 1), *_ODD_SPLITS, matrix="group")

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
            configs=_direct(2, 2, 8, *_first((2, 8))),
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
            + _direct(1, 1, 8, *_first((2, 4))[1:]),
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
            most_weights=_SMALL,
            configs=_direct(7, 4, 16, *_CUTS_16),
        ),
        Int4Row(most_tokens=16, most_weights=_SMALL, configs=_direct(7, 7, 16, *_CUTS_16)),
        _UP_TO_16,
        Int4Row(most_tokens=32, configs=_LONG_32, otherwise=_ROWS_64_32 + _SHORT_32),
        *_MORE,
    ),
}


def _plain(token_tile: int, row_tiles: int) -> Int4PlainConfig:
    return Int4PlainConfig(row_tiles=row_tiles, token_tile=token_tile, split=1, num_warps=4)


# kernels.int4.plain, by tokens. Four row tiles of 64 tokens would spill on sm_80.
INT4_PLAIN: Final = (_plain(16, 4), _plain(32, 4), _plain(64, 2))
