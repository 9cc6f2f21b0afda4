"""Which block and split our int4 kernels take for a product on Hopper, from its sizes alone.

The rule and its figures are those of kernels.int4.table, which no model of time may import. A test
holds both against each other, and the script of a page evaluates RULES, too (product_model.js).

A product takes the first row of its rule that covers it and has a block which fits. Several blocks
of kernels.int4.direct that fit stand in the order of preference, and the first is taken. Of several
others, the one with the least estimate by the kernels' own table is taken. (These estimates rank
blocks; no constant of the calibrated equation comes from them.)
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofcal.core.recipes import WEIGHT_ONLY_RECIPES
from roofcal.core.times import Array

UNIT_COLUMNS: Final = 128  # of K, by which weights are packed
_ROW_MULTIPLE: Final = 64  # to which rows are padded
_SHARED_MEMORY_LIMIT: Final = 232448  # bytes of a block on sm_90
_SHARED_MEMORY_BYTES: Final = 228 * 1024  # of a multiprocessor
_WARPS: Final = 64  # of a multiprocessor
_ALIGNMENT_BYTES: Final = 1024  # that aligning the buffers of a block can cost
_HALVING_US: Final = 1.76  # each time that K is cut in two, in the kernels' estimate
_NO_LIMIT: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """How kernels cut a product: rows x tokens x a part of K.

    direct            whether it is a block of kernels.int4.direct: weights go straight to registers
    specialised       whether it is a block of kernels.int4.specialised: it fills a multiprocessor
    rows, tokens      of a block
    split             parts of K
    warps             of a block
    most_units        units of 128 columns that a warp of a direct block has registers for
    stages, unroll    slots of a ring (staged or specialised), and units of 128 columns in each
    start_us, unit_us microseconds that the estimate counts for a block, and per 128 columns of K
    part_us           microseconds that it counts for each of several parts of K of a specialised
                      block
    """

    direct: bool
    specialised: bool = False
    rows: int
    tokens: int
    split: int
    warps: int = 4
    most_units: int = 0
    stages: int = 0
    unroll: int = 1
    start_us: float = 0.0
    unit_us: float = 0.0
    part_us: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The products that a row of a rule covers, and the blocks to choose from.

    most_tokens   the most tokens of a product that it covers
    most_weights  the most weights, rows * k
    least_group   the fewest columns of a scale
    otherwise     blocks for products that no block of `blocks` fits
    at_once       prefer a direct block that makes no more blocks than there are multiprocessors
    """

    most_tokens: int = _NO_LIMIT
    least_group: int = 0
    most_weights: int = _NO_LIMIT
    blocks: tuple[Block, ...]
    otherwise: tuple[Block, ...] = ()
    at_once: bool = False


def _direct(row_tiles: int, tokens: int, *cuts: tuple[int, int]) -> tuple[Block, ...]:
    """One block per (split, warps), the preferred one first."""
    most = {8: 8, 16: 2}[tokens]
    return tuple(
        Block(
            direct=True, rows=16 * row_tiles, tokens=tokens, split=split, warps=warps,
            most_units=most,
        )
        for split, warps in cuts
    )  # fmt: skip


def _staged(
    side: tuple[int, int], ring: tuple[int, int], cost: tuple[float, float], splits: tuple[int, ...]
) -> tuple[Block, ...]:
    """One block per split. side: (rows, tokens); ring: (stages, unroll); cost: microseconds."""
    whole = Block(
        direct=False, rows=side[0], tokens=side[1], split=1, stages=ring[0], unroll=ring[1],
        start_us=cost[0], unit_us=cost[1],
    )  # fmt: skip
    return tuple(replace(whole, split=split) for split in splits)


_CUTS: Final = ((1, 8), (1, 4), (2, 8), (2, 4), (4, 8), (4, 4), (8, 8), (1, 2), (1, 1))
_MIDDLE: Final = 1 << 26
_SMALL: Final = 1 << 25
_SMALLEST: Final = 1 << 24
_SPLITS: Final = (2, 4, 1)
_ODD: Final = (4, 2, 3, 5, 7, 1)

_ROWS_128_8: Final = _staged((128, 8), (3, 2), (3.09, 0.370), _SPLITS)
_ROWS_64_8: Final = _staged((64, 8), (4, 2), (2.73, 0.273), _SPLITS)
_SHORT_8: Final = _staged((64, 8), (8, 1), (3.21, 0.322), _ODD)
_ROWS_128_16: Final = _staged((128, 16), (3, 2), (2.37, 0.431), _SPLITS)
_ROWS_64_16: Final = _staged((64, 16), (4, 2), (3.27, 0.305), _SPLITS)
_SHORT_16: Final = _staged((64, 16), (8, 1), (3.09, 0.374), _ODD)
_LONG_32: Final = _staged((64, 32), (2, 4), (3.76, 0.294), _SPLITS)
_ROWS_64_32: Final = _staged((64, 32), (2, 2), (6.06, 0.337), _SPLITS)
_SHORT_32: Final = _staged((64, 32), (8, 1), (6.72, 0.210), _ODD)
_LONG_64: Final = _staged((64, 64), (2, 4), (3.26, 0.306), _SPLITS)
_ROWS_64_64: Final = _staged((64, 64), (2, 2), (4.79, 0.459), _SPLITS)
_SHORT_64: Final = _staged((64, 64), (8, 1), (2.69, 0.406), _ODD)

_UP_TO_8: Final = Row(most_tokens=8, blocks=_ROWS_128_8, otherwise=_ROWS_64_8 + _SHORT_8)
_UP_TO_16: Final = Row(most_tokens=16, blocks=_ROWS_128_16 + _ROWS_64_16, otherwise=_SHORT_16)
_MORE: Final = (
    Row(least_group=64, blocks=_LONG_64 + _ROWS_64_64, otherwise=_SHORT_64),
    Row(blocks=_SHORT_64),
)
_PREFERRED: Final = (2, 4)


def _specialised(
    side: tuple[int, int], slots: int, us: tuple[float, float, float]
) -> tuple[Block, ...]:
    """One block for each number of parts of K.

    side: (rows, tokens). us: of a block, of 128 columns and of a part of K.
    """
    whole = Block(
        direct=False, specialised=True, rows=side[0], tokens=side[1], split=1, stages=slots,
        start_us=us[0], unit_us=us[1], part_us=us[2],
    )  # fmt: skip
    return tuple(replace(whole, split=split) for split in (1, 2, 3, 4, 5, 6, 8))


_BLOCKS_OF_32: Final = (
    *_specialised((128, 32), 12, (4.31, 0.425, 0.27)),
    *_specialised((192, 32), 8, (5.13, 0.590, 0.03)),
    *_specialised((256, 32), 8, (4.83, 0.775, 0.14)),
)
_BLOCKS_OF_64: Final = (
    *_specialised((128, 64), 8, (4.83, 0.507, 0.20)),
    *_specialised((192, 64), 6, (4.92, 0.722, 0.15)),
    *_specialised((256, 64), 6, (5.22, 0.911, 0.24)),
)
_BLOCKS_OF_128: Final = (
    *_specialised((128, 128), 5, (4.44, 0.776, 0.78)),
    *_specialised((192, 128), 5, (7.89, 1.089, 0.02)),
    *_specialised((256, 128), 4, (10.06, 1.442, 0.01)),
)

RULES: Final[dict[str, tuple[Row, ...]]] = {
    "int4": (
        Row(
            most_tokens=8,
            least_group=128,
            most_weights=_MIDDLE,
            blocks=_direct(2, 8, (2, 8), *(cut for cut in _CUTS if cut != (2, 8))),
        ),
        Row(most_tokens=4, most_weights=_MIDDLE, blocks=_direct(1, 8, *_CUTS)),
        Row(most_tokens=8, most_weights=_MIDDLE, blocks=_ROWS_64_8, otherwise=_SHORT_8),
        _UP_TO_8,
        _UP_TO_16,
        Row(most_tokens=32, blocks=_LONG_32 + _ROWS_64_32, otherwise=_SHORT_32),
        *_MORE,
    ),
    "int4_chained": (
        Row(
            most_tokens=8,
            least_group=128,
            most_weights=_MIDDLE,
            blocks=_direct(1, 8, _PREFERRED)
            + _direct(2, 8, (1, 4))
            + _direct(1, 8, *(cut for cut in _CUTS if cut != _PREFERRED)),
        ),
        Row(
            most_tokens=8,
            most_weights=_MIDDLE,
            blocks=_direct(1, 8, *_CUTS),
            otherwise=_ROWS_64_8 + _SHORT_8,
        ),
        _UP_TO_8,
        Row(
            most_tokens=16,
            least_group=128,
            most_weights=_SMALLEST,
            blocks=_direct(7, 16, (4, 8), (2, 8)) + _direct(4, 16, (4, 8)),
            at_once=True,
        ),
        Row(
            most_tokens=16,
            most_weights=_SMALL,
            blocks=_direct(7, 16, (4, 8), (2, 8)),
            at_once=True,
        ),
        _UP_TO_16,
        Row(most_tokens=32, blocks=_LONG_32, otherwise=_ROWS_64_32 + _SHORT_32),
        *_MORE,
    ),
    # for products of more than 16 tokens, see roofcal.ops.mixed_gemm.spec.least_sizes
    "int4_specialised": (
        Row(most_tokens=32, least_group=64, blocks=_BLOCKS_OF_32),
        Row(most_tokens=64, least_group=64, blocks=_BLOCKS_OF_64),
        Row(most_tokens=128, least_group=64, blocks=_BLOCKS_OF_128),
        Row(most_tokens=192, least_group=64, blocks=_BLOCKS_OF_64 + _BLOCKS_OF_128),
        Row(least_group=64, blocks=_BLOCKS_OF_128),
    ),
}
# kernels.int4.plain runs products that no other kernel fits. It was never timed on Hopper.
_PLAIN: Final = Block(direct=False, rows=64, tokens=64, split=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The blocks of products, vectors of float64.

    direct             1 for those of kernels.int4.direct, else 0
    rows, tokens       of a block
    split, warps       parts of K, warps of a block
    resident           blocks of the staged kernel that a multiprocessor holds at once
    count              blocks of the product
    """

    direct: Array
    rows: Array
    tokens: Array
    split: Array
    warps: Array
    resident: Array
    count: Array


_CHOSEN: Final = ("direct", "rows", "tokens", "split", "warps")


def our_blocks(rule: str, recipe: str, m: Array, n: Array, k: Array, units: int) -> Blocks:
    """The blocks that our kernels take for products of one recipe; `rule` is of RULES.

    units: multiprocessors. Raises KeyError for another rule, or a recipe without narrow weights.
    """
    weights = WEIGHT_ONLY_RECIPES[recipe].b
    columns = weights.scale.cols if weights.scale is not None else None
    group = k if columns is None else np.full(k.shape, float(columns))
    zeros = 2.0 if weights.zero_point else 1.0
    chosen = {name: np.full(m.shape, float(getattr(_PLAIN, name))) for name in _CHOSEN}
    chosen["resident"] = np.ones(m.shape)
    undecided = np.ones(m.shape, dtype=bool)
    for row in RULES[rule]:
        about = (m <= row.most_tokens) & (n * k <= row.most_weights)
        about &= group >= row.least_group
        for blocks in (row.blocks, row.otherwise):
            least = np.full(m.shape, np.inf)
            for place, block in enumerate(blocks):
                resident, fits = _resident(block, group, zeros, n, k)
                cost = _estimate(block, m, n, k, resident, units)
                if block.direct:
                    waits = row.at_once & (_count(block, m, n) > units)
                    cost = place + len(blocks) * waits.astype(float)
                takes = undecided & about & fits & (cost < least)
                least = np.where(takes, cost, least)
                for name in _CHOSEN:
                    chosen[name] = np.where(takes, float(getattr(block, name)), chosen[name])
                chosen["resident"] = np.where(takes, resident, chosen["resident"])
            undecided &= np.isinf(least)
    tiles = np.ceil(_padded(n) / chosen["rows"]) * np.ceil(m / chosen["tokens"])
    return Blocks(**chosen, count=tiles * chosen["split"])


def _padded(n: Array) -> Array:
    rows: Array = np.ceil(n / _ROW_MULTIPLE) * _ROW_MULTIPLE
    return rows


def _count(block: Block, m: Array, n: Array) -> Array:
    """Blocks of products."""
    count: Array = np.ceil(_padded(n) / block.rows) * np.ceil(m / block.tokens) * block.split
    return count


def _resident(
    block: Block, group: Array, zeros: float, n: Array, k: Array
) -> tuple[Array, NDArray[np.bool_]]:
    """(blocks that a multiprocessor holds at once, whether the block fits the weights).

    Shared memory and warps limit the blocks of the staged kernel. Those of the direct kernel, which
    use hardly any shared memory, count as 1; those of the specialised kernel fill it.

    zeros: 2 with zero points, else 1.
    """
    of_k = np.ceil(k / UNIT_COLUMNS)
    if block.specialised:  # every part of K needs a unit; the last may have fewer than the others
        scales = np.where(group == k, 1.0, np.maximum(1.0, UNIT_COLUMNS / group)) * zeros
        slot = block.rows * (64 + 2 * scales) + 256 * block.tokens + 16
        fits = block.stages * slot + _ALIGNMENT_BYTES <= _SHARED_MEMORY_LIMIT
        return np.ones(k.shape), fits & (np.ceil(of_k / block.split) * (block.split - 1) < of_k)
    divides = _padded(n) % block.rows == 0
    if block.direct:
        warps = block.split * block.warps
        fits = divides & (of_k <= block.most_units * warps) & (of_k % warps == 0)
        # groups of 32 take masks, for which blocks of 16 tokens have no registers
        return np.ones(k.shape), fits if block.tokens == 8 else fits & (group > 32)
    divides &= of_k % (block.split * block.unroll) == 0
    own = np.floor(of_k / block.split)
    groups = np.where(group == k, 1.0, np.maximum(1.0, own * UNIT_COLUMNS / group))
    buffered = np.ones(k.shape)  # the next power of two
    while (buffered < groups).any():
        buffered = np.where(buffered < groups, 2 * buffered, buffered)
    stages = np.minimum(block.stages, np.floor(own / block.unroll))
    slot_bytes = block.unroll * (64 * block.rows + 256 * block.tokens) + 8
    shared = stages * slot_bytes + 2 * buffered * block.rows * zeros + _ALIGNMENT_BYTES
    resident = np.minimum(np.floor(_SHARED_MEMORY_BYTES / shared), _WARPS // block.warps)
    return np.maximum(1.0, resident), divides & (shared <= _SHARED_MEMORY_LIMIT)


def _estimate(block: Block, m: Array, n: Array, k: Array, resident: Array, units: int) -> Array:
    """Microseconds by `estimate` or `specialised_estimate` of kernels.int4.table."""
    turns = np.ceil(np.ceil(_count(block, m, n) / units) / resident)
    if block.specialised:
        of_k = np.ceil(k / UNIT_COLUMNS / block.split)
        parts = block.part_us * (block.split if block.split > 1 else 0)
        least: Array = turns * (block.start_us + block.unit_us * of_k) + parts
        return least
    of_block = block.start_us + block.unit_us * k / UNIT_COLUMNS / block.split
    estimate: Array = turns * of_block + _HALVING_US * halvings(np.full(k.shape, block.split))
    return estimate


def halvings(split: Array) -> Array:
    """log2 of parts of K, 1 to 8, with the same bits everywhere (NumPy's log2 differs)."""
    values: Array = _LOG2[split.astype(int)]
    return values


_LOG2: Final = np.array(
    [0, 0, 1, 1.584962500721156, 2, 2.321928094887362, 2.584962500721156, 2.807354922057604, 3.0]
)
