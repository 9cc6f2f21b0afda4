"""The calibrated equation of a product with narrow weights. See docs/models.md.

    t    = fixed + (dram^4 + math^4)^(1/4)                       no_blocks: libraries on a GPU
    dram = least bytes / bytes_per_s                             memory
    math = 2 M N K / flops_per_s                                 what every token costs

Memory is read while the multiprocessors work, so the larger of the two decides; near a crossing
they are in each other's way, which the fourth powers say (1.19 of the larger where two are equal).

torch.compile turns the weights to bf16 in a pass of its own, and calls the library (`converts`):

    t = fixed + slots + (dram^4 + math^4)^(1/4)
    slots = 3 N K / pass_bytes_per_s                             that pass reads 1 byte, writes 2
    dram, math                                                   the bf16 product: its least bytes,
                                                                 as fast as streams; its operations,
                                                                 as fast as the fastest bf16 probe

Kernels that turn weights once per block of tokens, in ordinary instructions (issue slots), have

    t     = fixed + (dram^4 + (slots + math)^4)^(1/4)
    slots = blocks * work / weights_per_s
    math  = 2 * tokens * work / flops_per_s

with `blocks` of tokens, `tokens` in whole blocks, and

    work = N K                                                  without tiles of rows
    work = units * 64 / blocks * min over split of waves * (K / split + block_columns * block / 64)
    waves = (max(1, q) + ceil q) / 2        q = ceil(N / 64) * blocks * split / units

The second is for kernels that give each multiprocessor a tile of 64 rows and a split of K. The
start and the end of a block cost as much as `block_columns` columns of K in a block of 64 tokens,
and in proportion to the tokens in a smaller one. Weights and tokens are the work of the same warps,
so slots and math add.

Our kernels on Hopper choose block and split by a rule (kernels/int4/rule.py), and

    t = starts + apart + (dram^4 + (waits + slots + math)^4)^(1/4)

`resident` blocks of the staged kernel share a multiprocessor and run in turns. A block converts
rows * K / split weights for its tokens; weights_per_s and flops_per_s are rates of all
multiprocessors (`units`), which blocks beside each other share. However many blocks there are, each
waits for every 128 columns of weights, and for each ring slot, which holds `unroll` times as many:

    slots + math = sum over turns of blocks beside each other * work of a block / rates
    waits        = turns * (waiting_s + slot_s / unroll) * columns / 128
    apart        = min(dram, waits + slots + math) / (turns * ring slots of a block)
    starts       = turns * turn_s + [split > 1] * joining
    joining      = joining_s * (1 + (split - 1) * tokens of a block / 128)
                   * max(1, blocks / split / units)

While the first ring slot of the first turn is read, nothing runs beside it (`apart`, which counts
as launch); from then on reading and working overlap. Of the blocks that share a tile, the last one
adds what the others wrote, one part after the other, and a multiprocessor does so for one tile
after the other.

The last turn rarely has a block for every place. Its blocks share memory and power with fewer
others: it counts as long as halfway between the blocks of the busiest multiprocessor and the mean
over all. Tokens that are no multiple of 8 multiply math by 1 + ragged * (share of the last block's
tokens that are missing) (more than 8 tokens). Blocks of the specialised kernel
(`ours_specialised`, more than 16 tokens) have a multiprocessor to themselves, and warps that fetch
for the others: no waits, and `apart` as of ring slots of 128 columns.

A warp of the direct kernel sums `columns` of K, which is k / split / warps of a block. It waits for
its weights and tokens, unit_s per 128 columns and 8 tokens; `tile` are the tokens of a block:

    t     = direct_s + unit_s * columns / 128 * tile / 8 + [split > 1] * joining
            + (dram^4 + (slots + math)^4)^(1/4)
    dram  = least bytes / bytes_per_s * (ceil q + q) / (2 q)                  q = blocks / units
    slots = max(1, q) * units * weights of a block / weights_per_s * tile / 8
    math  = max(1, q) * units * weights of a block * 2 * tile / flops_per_s, `ragged` as above

Memory takes the mean of the busiest multiprocessor's share and the average one.

Constants are `mixed_gemm.<provider>.<recipe>.*`. The contenders in bf16 and fp8 are products of op
gemm and predicted as those are.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roofcal.core.portable_math import fourth_norm
from roofcal.core.recipes import WEIGHT_ONLY_RECIPES, nbytes
from roofcal.core.records import Calibration, PlanPoint, Prediction
from roofcal.core.times import Array, Value
from roofcal.ops.constants import (
    NO_LIMIT,
    Constant,
    OpPage,
    Search,
    by_name,
    neutral_values,
)
from roofcal.ops.gemm import model as gemm
from roofcal.ops.kernel_rules import int4
from roofcal.ops.mixed_gemm import spec
from roofcal.ops.mixed_gemm.spec import CONTENDERS
from roofcal.ops.predictions import predict_fastest

OP: Final = spec.OP
_ROWS: Final = 64  # of a tile
_LARGEST_BLOCK: Final = 64
_EVEN_TOKENS: Final = 8  # of a row of the matrix unit's smallest operand
_BF16_BYTES: Final = 2
_PASS_BYTES: Final = 3  # a weight that becomes bf16 is read as fp8 and written
_ROOFS: Final = ("fixed_s", "bytes_per_s", "weights_per_s", "flops_per_s")
_OF_OURS: Final = (
    *("bytes_per_s", "weights_per_s", "flops_per_s"),
    *("waiting_s", "slot_s", "ragged", "turn_s", "joining_s", "unit_s", "direct_s"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFamily:
    """How a provider's kernels cut a product.

    constants: of its equation
    own: those that each recipe has for itself; recipes of a provider share the others
    converts: whether weights become bf16 in a pass of its own
    blocks: tokens of a block, smallest first; () where there are none: weights are turned once
    splits: of K, from which the best is taken; () for kernels without tiles of rows
    rule: of our kernels, by which a product has one block and split (int4.RULES)
    """

    constants: tuple[str, ...] = _ROOFS
    own: tuple[str, ...] = ("weights_per_s", "flops_per_s")
    converts: bool = False
    blocks: tuple[int, ...] = ()
    splits: tuple[int, ...] = ()
    rule: str = ""


FAMILIES: Final[dict[str, BlockFamily]] = {
    "no_blocks": BlockFamily(constants=("fixed_s", "bytes_per_s", "flops_per_s"), own=()),
    "converted": BlockFamily(
        constants=("fixed_s", "bytes_per_s", "pass_bytes_per_s", "flops_per_s"),
        own=("pass_bytes_per_s", "flops_per_s"),
        converts=True,
    ),
    "tiles": BlockFamily(
        constants=(*_ROOFS, "block_columns"), blocks=(8, 16, 32, 64), splits=(1, 2, 4)
    ),
    "turned_once": BlockFamily(),
    # tinygemm of a processor (ATen, int4mm_kernel.cpp): weights are turned once per four rows
    "blocks_of_4": BlockFamily(blocks=(1, 2, 3, 4)),
    # Our kernels multiply alike in all recipes, and differ in how they convert weights.
    "ours": BlockFamily(constants=_OF_OURS, own=("weights_per_s",), rule=int4.PLAIN_LAUNCHES),
    "ours_chained": BlockFamily(
        constants=_OF_OURS, own=("weights_per_s",), rule=int4.CHAINED_LAUNCHES
    ),
    "ours_specialised": BlockFamily(
        constants=("bytes_per_s", "weights_per_s", "flops_per_s", "turn_s", "joining_s"),
        own=("weights_per_s",),
        rule=int4.SPECIALISED,
    ),
}
OF_PROCESSORS: Final = ("turned_once", "blocks_of_4")
FAMILY: Final = "narrow_family"  # the constant that holds the choice, see roofcal.ops.constants

# The constants of one provider and recipe, counted in the most weights or operations per second and
# the least time of a probe. Bounds of the memory are in the fit.
CONSTANTS: Final = by_name(
    Constant("fixed_s", "s", "Start of a product with narrow weights",
             Search(0.5, 0.01, 1, "time")),
    Constant("bytes_per_s", "B/s", "Bandwidth of narrow weights", datasheet="dram_bytes_per_s"),
    Constant("weights_per_s", "1/s", "Weights turned to floats",
             Search(1, 0.025, 100, "weights")),
    Constant("pass_bytes_per_s", "B/s", "Bandwidth of the pass that turns weights to bf16",
             Search(3, 0.075, 300, "weights"), datasheet="dram_bytes_per_s"),
    Constant("flops_per_s", "flop/s", "Rate of products with narrow weights",
             Search(1, 0.025, 100, "flops")),
    Constant("block_columns", "1", "Columns that a block's start and end cost",
             Search(512.0, 5.0, 15000.0)),
    Constant("waiting_s", "s", "A block's wait for 128 columns of weights",
             Search(0.03, 0.0005, 0.5, "time"), 0.0),
    Constant("slot_s", "s", "A block's wait for a slot of its ring",
             Search(0.01, 0.0001, 0.5, "time"), 0.0),
    Constant("ragged", "1", "What tokens off a multiple of 8 cost more",
             Search(0.3, 0.01, 3.0), 0.0),
    Constant("turn_s", "s", "Start of a turn of blocks", Search(1, 0.01, 4, "time"), 0.0),
    Constant("joining_s", "s", "Joining parts of K", Search(0.3, 0.002, 2, "time"), 0.0),
    Constant("unit_s", "s", "A warp's wait for 128 columns of weights and 8 tokens",
             Search(0.1, 0.001, 1, "time"), 0.0),
    Constant("direct_s", "s", "Start of warps that stream weights",
             Search(0.4, 0.01, 1, "time"), 0.0),
)  # fmt: skip
EQUATION: Final = 13  # see roofcal.ops.constants; 1 is of calibrations that state none
NEUTRAL: Final = neutral_values(CONSTANTS)

# group of shapes whose errors make an interval -> what it has, in words
GROUPS: Final[dict[str, str]] = {
    "decode": f"up to {_LARGEST_BLOCK} tokens",
    "many_tokens": f"more than {_LARGEST_BLOCK} tokens",
}


class NarrowParts(NamedTuple):
    """Seconds per product, vectorised; `total` is not their sum, see the module."""

    fixed: Array
    dram: Array
    slots: Array
    math: Array
    total: Array
    converts: bool = False  # whether slots are a pass of its own, and math the product's

    @property
    def bound_by(self) -> list[str]:
        """The largest of launch, memory and work; of work its larger part.

        "launch", "dram", "slots" or "math". Slots and math are apart where a pass converts.
        """
        largest = np.stack([self.fixed, self.dram, self.slots, self.math]).argmax(axis=0)
        if not self.converts:
            work = np.where(self.slots >= self.math, 2, 3)
            of_three = np.stack([self.fixed, self.dram, self.slots + self.math]).argmax(axis=0)
            largest = np.where(of_three == 2, work, of_three)
        names = np.array(["launch", "dram", "slots", "math"])
        longest: list[str] = np.take_along_axis(names, largest, axis=0).tolist()
        return longest

    @property
    def seconds(self) -> dict[str, Array]:
        """Field of a Prediction -> its part."""
        return {"math_s": self.math + self.slots, "dram_s": self.dram, "launch_s": self.fixed}


def groups_of(_recipe: str, sizes: Iterable[Array]) -> NDArray[np.str_]:
    """The group of each product, of GROUPS, whose errors make its interval: by its tokens."""
    m, _, _ = sizes
    return np.where(m <= _LARGEST_BLOCK, "decode", "many_tokens")


def least_bytes(recipe: str, m: Array, n: Array, k: Array) -> Array:
    """Bytes of roofcal.ops.mixed_gemm.spec.work for vectors of sizes that groups divide.

    Raises KeyError for a recipe that is not one of narrow weights.
    """
    how = WEIGHT_ONLY_RECIPES[recipe]
    moved: Array = how.a.nbytes(m, k) + how.b.nbytes(n, k) + nbytes(how.out, m * n)
    return moved


def our_blocks(
    rule: str, recipe: str, sizes: tuple[Array, Array, Array], compute_units: int
) -> int4.Blocks:
    """The blocks that our kernels take for products (m, n, k) of a recipe; rule: of int4.RULES.

    Raises KeyError for another rule, or a recipe without narrow weights.
    """
    return _blocks_of(rule, recipe, _Sizes(sizes), compute_units)


class _Sizes:
    """Sizes of products by which a cache finds their blocks."""

    def __init__(self, sizes: Iterable[Array]) -> None:
        self.vectors = [np.asanyarray(size, dtype=float) for size in sizes]
        self._bytes = [vector.tobytes() for vector in self.vectors]

    def __hash__(self) -> int:
        return hash(tuple(self._bytes))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Sizes) and self._bytes == other._bytes


@lru_cache(maxsize=64)  # a fit asks thousands of times for the same sizes
def _blocks_of(rule: str, recipe: str, sizes: _Sizes, compute_units: int) -> int4.Blocks:
    m, n, k = sizes.vectors
    weights = WEIGHT_ONLY_RECIPES[recipe].b
    columns = weights.scale.cols if weights.scale is not None else None
    group = k if columns is None else np.full_like(k, columns)
    stored = np.full_like(k, 2 if weights.zero_point else 1)
    return int4.chosen_blocks(rule, int4.Sizes(m, n, k, group, stored), compute_units)


def evaluate(
    constants: Mapping[str, Value],
    family: str,
    recipe: str,
    sizes: Sequence[Array],
    compute_units: int,
) -> NarrowParts:
    """Seconds of products [m, k] x [n, k] of sizes (m, n, k), float64 vectors.

    compute_units: of the device; it matters to families with tiles or a rule alone.
    Raises KeyError for an unknown family or recipe, and for a constant that is missing.
    """
    m, n, k = sizes
    how, moved = FAMILIES[family], least_bytes(recipe, m, n, k)
    constants = NEUTRAL | {name: constants[name] for name in how.constants if name in constants}
    if how.rule:
        cut = our_blocks(how.rule, recipe, (m, n, k), compute_units)
        return _ours(constants, compute_units, sizes, moved, cut)
    block, blocks = m, np.ones_like(m)
    if how.blocks:  # the smallest that holds all tokens, else as many of the largest as do
        sides = np.array(how.blocks, dtype=float)
        place = np.minimum(np.searchsorted(sides, m), len(sides) - 1)
        block = np.take_along_axis(sides, place, axis=0)
        blocks = np.ceil(m / block)
    work = n * k * blocks
    if how.splits:
        edge = constants["block_columns"] * block / _LARGEST_BLOCK
        tiles = np.ceil(n / _ROWS) * blocks / compute_units
        # Columns of K that the busiest unit takes, of the best split. A wave is of blocks of 64
        # rows, and counts the blocks of tokens already.
        columns = [
            (np.maximum(tiles * split, 1.0) + np.ceil(tiles * split)) / 2 * (k / split + edge)
            for split in how.splits
        ]
        work = compute_units * _ROWS * np.asanyarray(reduce(np.minimum, columns))
    fixed = constants["fixed_s"] + np.zeros_like(moved)
    math = np.asanyarray(2 * work * block / constants["flops_per_s"])
    if how.converts:
        slots = np.asanyarray(_PASS_BYTES * n * k / constants["pass_bytes_per_s"])
        dram = np.asanyarray(_BF16_BYTES * (m * n + n * k + m * k) / constants["bytes_per_s"])
        total = fixed + slots + fourth_norm(dram, math)
        return NarrowParts(fixed, dram, slots, math, total, converts=True)
    slots = np.asanyarray(work / constants.get("weights_per_s", NO_LIMIT))
    dram = np.asanyarray(moved / constants["bytes_per_s"])
    return NarrowParts(fixed, dram, slots, math, fixed + fourth_norm(dram, slots + math))


def _ours(
    constants: Mapping[str, Value],
    compute_units: int,
    sizes: Sequence[Array],
    moved: Array,
    cut: int4.Blocks,
) -> NarrowParts:
    m, _, k = sizes
    is_direct, in_turns = cut.direct > 0, 1 - cut.direct
    # the longest part of K: that of the specialised kernel may hold a unit more than the last one
    columns = int4.UNIT_COLUMNS * np.ceil(np.ceil(k / int4.UNIT_COLUMNS) / cut.split)
    at_once = compute_units * cut.resident
    full_turns = np.floor(cut.count / at_once)
    rest = cut.count - full_turns * at_once
    turns = full_turns + (rest > 0)
    # Of the last turn: halfway between the busiest multiprocessor and the average one.
    last_blocks = (np.ceil(rest / compute_units) + rest / compute_units) / 2
    # Blocks that one multiprocessor works on, one after another or beside each other.
    share = cut.count / compute_units
    of_unit = np.where(is_direct, np.maximum(1.0, share), full_turns * cut.resident + last_blocks)
    work = of_unit * compute_units * cut.rows * columns
    of_tile = np.where(is_direct, cut.tokens / _EVEN_TOKENS, 1.0)
    wait_s = constants["waiting_s"] + constants["slot_s"] / cut.unroll
    waits = in_turns * turns * wait_s * columns / int4.UNIT_COLUMNS
    is_ragged = (m > _EVEN_TOKENS) & (m % _EVEN_TOKENS != 0)
    missing = is_ragged * (np.ceil(m / cut.tokens) - m / cut.tokens)
    tokens = 2 * cut.tokens * work * (1 + constants["ragged"] * missing)
    per_warp = constants["unit_s"] * columns / int4.UNIT_COLUMNS / cut.warps
    waited = constants["direct_s"] + per_warp * cut.tokens / _EVEN_TOKENS
    parts = (cut.split > 1) + (cut.split - 1) * cut.tokens / (2 * _LARGEST_BLOCK)
    joined = constants["joining_s"] * parts * np.maximum(1.0, share / cut.split)
    starts = in_turns * constants["turn_s"] * turns + cut.direct * waited + joined
    # Of the direct kernel, halfway between the busiest multiprocessor and the average one.
    busiest = np.where(is_direct, (np.ceil(share) + share) / (2 * share), 1.0)
    dram = np.asanyarray(moved * busiest / constants["bytes_per_s"])
    slots = np.asanyarray(waits + of_tile * work / constants["weights_per_s"])
    math = np.asanyarray(tokens / constants["flops_per_s"])
    ring_slots = turns * np.maximum(1.0, columns / int4.UNIT_COLUMNS / cut.unroll)
    apart = in_turns * np.minimum(dram, slots + math) / ring_slots
    fixed = np.asanyarray(starts + apart)
    total = np.asanyarray(fixed + fourth_norm(dram, slots + math))
    return NarrowParts(fixed, dram, slots, math, total)


def predict_calibrated(
    points: Sequence[PlanPoint], calibration: Calibration, model: str
) -> list[Prediction]:
    """A prediction per point whose provider and recipe were calibrated."""
    contenders = [point for point in points if point.recipe in CONTENDERS]
    narrow = [point for point in points if point.recipe not in CONTENDERS]
    return [
        *predict_fastest(gemm, contenders, calibration, model),
        *predict_fastest(sys.modules[__name__], narrow, calibration, model),
    ]


PAGE = OpPage(
    meaning="C[M,N] = A[M,K] B[N,K]ᵀ for few tokens M, with the weights B in fewer bits",
    title="Products with narrow weights",
    time_includes="Times exclude casts: all operands lie in their format beforehand.",
    time_note="without casts",
    colours={
        "bf16": "blue",
        "fp8_tensorwise": "vermillion",
        "fp8_axiswise": "green",
        "fp8_weight_only": "grey",
        "int4_groupwise_g32": "orange",
        "int4_groupwise_g64": "sky",
        "int4_groupwise_g128": "purple",
        "int4_groupwise_g64_asymmetric": "ink",
    },
    markers={
        "cublaslt": "o",
        "torch_cpu": "o",
        "triton": "^",
        "triton_chained": "*",
        "triton_specialised": "X",
        "tinygemm": "v",
        "gemlite": "P",
        "torch_compile": "D",
    },
    constants=by_name(
        Constant(FAMILY, "code", "How the provider's kernels cut a product with narrow weights")
    )
    | CONSTANTS,
)
