"""Configurations of the int4 kernels as data; the compile test walks them."""

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
                unit is dequantised meanwhile; groups of 128 and more)
    """

    rows: int
    split: int
    num_warps: int
    stages: int
    unroll: int
    token_tile: int
    matrix: str


Int4Config = Int4PlainConfig | Int4DirectConfig | Int4StagedConfig


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


_CUTS: Final = ((1, 8), (1, 4), (2, 8), (2, 4), (4, 8), (4, 4), (8, 8), (1, 2), (1, 1))
_MORE_CUTS: Final = ((4, 8), (2, 8), (7, 8), (8, 8), (5, 4), (1, 8), (3, 4), (7, 4), (1, 4))
_SPLITS: Final = (4, 2, 3, 5, 7, 1)
_LARGE: Final = 1 << 27  # weights: enough row blocks for every SM of an H200 without splitting K
# kernels.int4_gemm on sm_90: (most tokens, least weights rows * k, configurations in the order of
# preference; the first that fits is taken). Rows of the table likewise. First guesses from
# prototypes on an H200, [3584, 8192] and [28672, 8192].
INT4_TABLE: Final[tuple[tuple[int, int, tuple[Int4Config, ...]], ...]] = (
    (8, _LARGE, _staged((128, 8, 4), (4, 4), 1, 2, 4, 7)),
    (16, _LARGE, _staged((128, 16, 4), (3, 4), 1, 2, 4, 7)),
    (32, _LARGE, _staged((128, 32, 4), (5, 2), 1, 2, 4, 7)),
    (64, _LARGE, _staged((128, 64, 8), (4, 2), 1, 2, 4, 7)),
    (8, 0, _direct(1, 1, 8, *_CUTS)),
    (16, 0, _direct(7, 4, 16, *_MORE_CUTS) + _direct(4, 4, 16, *_MORE_CUTS)),
    (16, 0, _staged((64, 16, 4), (8, 1), *_SPLITS)),
    (32, 0, _staged((64, 32, 4), (8, 1), *_SPLITS)),
    (64, 0, _staged((64, 64, 4), (6, 1), *_SPLITS)),
    (1 << 30, _LARGE, _staged((128, 64, 8), (4, 2), 1, 2, 4, 7, matrix="group")),
    (1 << 30, 0, _staged((64, 64, 4), (6, 1), *_SPLITS, matrix="group")),
)


def _plain(token_tile: int, row_tiles: int) -> Int4PlainConfig:
    return Int4PlainConfig(row_tiles=row_tiles, token_tile=token_tile, split=1, num_warps=4)


# kernels.int4_plain, by tokens; untimed.
INT4_PLAIN: Final = (_plain(16, 4), _plain(32, 4), _plain(64, 4))
