"""Configurations of the int4 kernels as data; the compile test walks them.

INT4_TABLE was filled from measurements on an H200 of 2026-11-21: bf16, symmetric weights, launches
plain and chained (programmatic dependent launch), graphs over weights that do not stay in the L2
cache, of

    [3584, 8192]     1, 4, 8, 16 and 64 tokens, groups of 64 and 128; 32 tokens, groups of 128
    [28672, 8192]    1, 8 and 16 tokens with groups of 128, 16 tokens with groups of 64

The first configuration of a row was the fastest one measured there that fits. Not measured, and
taken from the nearest of these: other sizes, groups of 32 and of a whole row, zero points, fp16,
large weights with more than 16 tokens, more than 64 tokens. What follows the first in a row is for
sizes that it does not divide; INT4_PLAIN was never timed.
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
    """kernels.int4_direct: each warp owns a slice of K and streams its weights to registers.

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
    """kernels.int4_staged: weights and activations pass through a ring in shared memory.

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

    most_tokens    tokens, up to
    least_group    columns of a group, from
    least_weights  rows * k, from
    configs        in the order of preference; the first that fits is taken
    """

    most_tokens: int
    least_group: int = 0
    least_weights: int = 0
    configs: tuple[Int4Config, ...]


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
_MORE_CUTS: Final = ((4, 8), (2, 8), (7, 8), (8, 8), (5, 4), (1, 8), (3, 4), (7, 4), (1, 4))
_FOUR: Final = (4, 2, 3, 5, 7, 1)  # splits
_TWO: Final = (2, 4, 3, 5, 7, 1)
_FEW: Final = (1, 2, 4, 7)
_LARGE: Final = 1 << 27  # weights rows * k; between the two sizes that were measured

# Rings of unroll 1 come last: for a K that is an odd multiple of 128.
_RING_8: Final = _staged((64, 8, 4), (4, 2), *_FOUR) + _staged((64, 8, 4), (8, 1), *_FOUR)
_RING_16: Final = _staged((64, 16, 4), (4, 2), *_FOUR, matrix="group") + _staged(
    (64, 16, 4), (8, 1), *_FOUR
)
_GROUP_32: Final = _staged((64, 32, 4), (8, 1), *_FOUR, matrix="group")
_OVERLAPPED_32: Final = _staged((64, 32, 4), (2, 2), *_FOUR, matrix="overlapped")
_LONG_OVERLAPPED_32: Final = _staged((64, 32, 4), (2, 4), *_FOUR, matrix="overlapped")
_OVERLAPPED_64: Final = _staged((64, 64, 4), (4, 2), *_TWO, matrix="overlapped")
_GROUP_64: Final = _staged((64, 64, 4), (8, 1), *_FOUR, matrix="group")

# A short ring leaves room for more blocks on an SM.
_LARGE_ROWS: Final = tuple(
    Int4Row(
        most_tokens=tokens,
        least_weights=_LARGE,
        configs=_staged((128, tokens, 4), (3, 2), *_FEW),
    )
    for tokens in (8, 16, 32)
)
_MANY_TOKENS: Final = (
    # with groups of 32 and zero points the overlapped product spills
    Int4Row(most_tokens=1 << 30, least_group=64, configs=_OVERLAPPED_64 + _GROUP_64),
    Int4Row(most_tokens=1 << 30, configs=_GROUP_64),
)
# kernels.int4_gemm on sm_90, by whether the launch is chained: the first row that a product belongs
# to and that has a configuration which fits.
INT4_TABLE: Final[dict[bool, tuple[Int4Row, ...]]] = {
    False: (
        *_LARGE_ROWS,
        Int4Row(
            most_tokens=8, least_group=128, configs=_direct(2, 2, 8, *_first((2, 8))) + _RING_8
        ),
        Int4Row(most_tokens=4, configs=_direct(1, 1, 8, *_CUTS) + _RING_8),
        Int4Row(most_tokens=8, configs=_RING_8),
        Int4Row(most_tokens=16, least_group=128, configs=_direct(2, 2, 16, *_MORE_CUTS) + _RING_16),
        Int4Row(most_tokens=16, configs=_RING_16),
        Int4Row(most_tokens=32, configs=_OVERLAPPED_32 + _GROUP_32),
        *_MANY_TOKENS,
    ),
    True: (
        *_LARGE_ROWS,
        Int4Row(
            most_tokens=8, least_group=128, configs=_direct(1, 1, 8, *_first((2, 4))) + _RING_8
        ),
        Int4Row(most_tokens=8, configs=_direct(1, 1, 8, *_CUTS) + _RING_8),
        Int4Row(most_tokens=16, least_group=128, configs=_direct(7, 4, 16, *_MORE_CUTS) + _RING_16),
        Int4Row(most_tokens=16, configs=_direct(7, 7, 16, *_MORE_CUTS) + _RING_16),
        Int4Row(most_tokens=32, configs=_LONG_OVERLAPPED_32 + _OVERLAPPED_32 + _GROUP_32),
        *_MANY_TOKENS,
    ),
}


def _plain(token_tile: int, row_tiles: int) -> Int4PlainConfig:
    return Int4PlainConfig(row_tiles=row_tiles, token_tile=token_tile, split=1, num_warps=4)


# kernels.int4_plain, by tokens. Four row tiles of 64 tokens would spill on sm_80.
INT4_PLAIN: Final = (_plain(16, 4), _plain(32, 4), _plain(64, 2))
