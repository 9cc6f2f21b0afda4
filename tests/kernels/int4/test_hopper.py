"""What Hopper's kernels are made of, on the CPU: their assembly, orders and layouts.

The assembly is run in Python. Permutations are read from the source of the kernels: a change of one
there is a change here, and products made with them find out whether it is right. test_gemm has the
numerics of the kernels.
"""

import ast
import inspect
import re
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import triton.experimental.gluon.language as gl
from numpy.typing import NDArray

from kernels.int4 import direct, hopper, layouts
from kernels.int4.constants import StagedConstants
from kernels.int4.packing import Int4Weights, unpack
from kernels.int4.rule import Int4StagedConfig, WeightSizes
from tests.kernels.int4.int4_cases import weights

_LANES = {"bf16x2": torch.bfloat16, "f16x2": torch.float16}


def run_ptx(text: str, inputs: list[int], outputs: int) -> list[int]:
    """The registers $0 .. $outputs-1 after `text`; inputs come in the registers behind them.

    Raises ValueError for an instruction it does not know.
    """
    registers = {f"${outputs + i}": word for i, word in enumerate(inputs)}

    def value(operand: str) -> int:
        return registers[operand] if operand in registers else int(operand, 0)

    for line in re.split(r"[;{}]", text):
        instruction, _, rest = line.strip().partition(" ")
        operands = [part.strip() for part in rest.split(",")]
        if instruction in ("", ".reg"):
            continue
        arguments = [value(operand) for operand in operands[1:]]
        registers[operands[0]] = _result(instruction, arguments)
    return [registers[f"${i}"] for i in range(outputs)]


def _result(instruction: str, operands: list[int]) -> int:
    if instruction == "mov.b32":
        return operands[0]
    if instruction == "shr.u32":
        return operands[0] >> operands[1]
    if instruction == "lop3.b32" and operands[3] == 0xEA:  # of 0xf0, 0xcc, 0xaa: (a & b) | c
        return operands[0] & operands[1] | operands[2]
    name, _, lanes = instruction.rpartition(".")
    if name.removesuffix(".rn") == "sub" and lanes in _LANES:
        a, b = (halves(word, _LANES[lanes]) for word in operands)
        return int((a - b).view(torch.int16).numpy().view(np.uint32)[0])
    raise ValueError(f"no PTX instruction of this test: {instruction}")


def halves(word: int, dtype: torch.dtype) -> torch.Tensor:
    """The two floats of a word, the low half first."""
    return torch.from_numpy(np.array([word], dtype=np.uint32).view(np.int16).copy()).view(dtype)


WORDS = [0x00000000, 0xFFFFFFFF, 0x76543210, 0xFEDCBA98, 0x0F1E2D3C, 0x87654321]
TEXTS = {
    "bf16 raised": (hopper.BF16_RAISED, torch.bfloat16, 128.0),
    "fp16 raised": (hopper.FP16_RAISED, torch.float16, 1024.0),
    "bf16 centred": (hopper.BF16_CENTRED, torch.bfloat16, -8.0),
    "fp16 centred": (hopper.FP16_CENTRED, torch.float16, -8.0),
}


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("name", TEXTS)
def test_a_word_becomes_its_eight_weights_in_the_order_of_the_packing(name: str, word: int) -> None:
    text, dtype, offset = TEXTS[name]
    outputs = [halves(out, dtype) for out in run_ptx(text.value, [word], 4)]
    weights = torch.stack(outputs).view(2, 2, 2).tolist()  # h, b, i
    for h in range(2):
        for b in range(2):
            for i in range(2):
                q = word >> 4 * (2 * h + b + 4 * i) & 15
                assert weights[h][b][i] == q + offset


@pytest.mark.parametrize(
    ("text", "base", "dtype"),
    [
        (hopper.BF16_SUBTRACT, hopper.BF16_BASE, torch.bfloat16),
        (hopper.FP16_SUBTRACT, hopper.FP16_BASE, torch.float16),
    ],
)
def test_a_zero_point_is_subtracted_exactly(
    text: gl.constexpr, base: gl.constexpr, dtype: torch.dtype
) -> None:
    for q in range(16):
        for zero in range(16):
            pair = torch.tensor([base.value + q, base.value + zero], dtype=dtype)
            a, b = (int(v) & 0xFFFF for v in pair.view(torch.int16))
            (word,) = run_ptx(text.value, [a | a << 16, b | b << 16], 1)
            assert halves(word, dtype).tolist() == [q - zero, q - zero]


# --- the order in which kernels multiply ---

Array = NDArray[np.float64]
CPU = torch.device("cpu")
CONFIG = Int4StagedConfig(
    rows=128, split=1, num_warps=4, stages=2, unroll=2, token_tile=16, matrix="sync"
)


def levels(weights: Int4Weights) -> tuple[Array, Array]:
    """q - 8 of [row tiles, units, ...] as the assembly leaves them: (h 0, h 1), 2 x 2 per word."""
    words = (
        weights.packed.view(torch.int32)
        .numpy()
        .view(np.uint32)
        .reshape(weights.padded_rows // 16, weights.k // 128, 256)
    )
    halves = []
    for h in range(2):
        nibbles = [2 * h + b + 4 * i for b in range(2) for i in range(2)]
        values = np.stack([words >> (4 * n) & 15 for n in nibbles], axis=-1)
        halves.append(values.astype(np.float64) - 8)
    return halves[0], halves[1]


def permutations(function: Any) -> list[tuple[int, ...]]:
    """The orders of the axes in the calls of gl.permute in a Gluon function's source."""
    tree = ast.parse(inspect.getsource(function.fn))
    orders = [
        tuple(ast.literal_eval(node.args[1]))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "permute"
    ]
    assert orders, f"{function} permutes nothing"
    return orders


def test_weights_and_activations_meet_in_the_same_order() -> None:
    w = weights(64, 256, 128, CPU)
    x = np.random.default_rng(1).normal(size=(8, 256))
    order = permutations(direct._operand)[0]
    columns = permutations(direct._activations)[0]
    for h, half in enumerate(levels(w)):
        for tile in range(4):
            summed = np.zeros((16, 8))
            for unit in range(2):
                blob = half[tile, unit].reshape(1, 2, 8, 4, 2, 2, 2, 2)
                a = blob.transpose(order).reshape(16, 64)
                part = x[:, unit * 128 + 64 * h : unit * 128 + 64 * h + 64]
                b = part.reshape(8, 1, 4, 2, 2, 2, 2).transpose(columns).reshape(64, 8)
                summed += a @ b
            q = unpack(w).q.numpy().astype(float)[16 * tile : 16 * tile + 16] - 8
            chosen = [c for c in range(256) if c % 128 // 64 == h]
            assert np.allclose(summed, q[:, chosen] @ x[:, chosen].T)


def test_the_lane_decides_to_which_group_of_32_a_column_belongs() -> None:
    columns = np.broadcast_to(np.arange(64), (8, 64))
    order = permutations(direct._activations)[0]
    of_token = columns.reshape(8, 1, 4, 2, 2, 2, 2).transpose(order).reshape(64, 8)[:, 0]
    s = np.arange(64) // 2 % 4
    assert np.array_equal(of_token // 32, s >= 2)


def test_weights_come_in_the_natural_order_of_rows_and_columns() -> None:
    w = weights(64, 256, 128, CPU)
    q = unpack(w).q.numpy().astype(float) - 8
    order = permutations(hopper.operand)[0]
    for h, half in enumerate(levels(w)):
        for unit in range(2):
            blob = half[:, unit].reshape(4, 2, 8, 4, 4, 2, 2)
            first = unit * 128 + 64 * h
            dense = blob.transpose(order).reshape(64, 64)
            assert np.array_equal(dense, q[:, first : first + 64])


@pytest.mark.parametrize(
    ("function", "shape"),
    [(direct._load_per_row, (4, 1, 8, 2)), (hopper.in_rows, (4, 8, 2))],
    ids=["direct", "staged"],
)
def test_scales_are_put_in_the_order_of_the_rows(function: Any, shape: tuple[int, ...]) -> None:
    w = weights(64, 128, 128, CPU)
    order = permutations(function)[0]
    packed = w.scales[:, 0].float().numpy().reshape(shape)
    if len(shape) > len(order):  # a row tile each
        packed = np.stack([tile.transpose(order) for tile in packed])
    else:
        packed = packed.transpose(order)
    assert np.array_equal(packed.reshape(64), unpack(w).scales[:, 0].float().numpy())


def test_a_slot_of_weights_is_a_box_of_whole_units() -> None:
    w = weights(256, 512, 64, CPU)
    descriptor = hopper.words_descriptor(w.packed, 2, 128)
    assert list(descriptor.shape) == [4, 16, 8, 128]
    assert list(descriptor.strides) == [1024, 4096, 128, 1]
    assert list(descriptor.block_shape) == [2, 8, 8, 128]


@pytest.mark.parametrize(("group", "columns"), [(512, 64), (128, 64), (64, 64), (32, 32)])
def test_a_slot_of_activations_is_cut_in_slices_of_one_product(group: int, columns: int) -> None:
    constants = StagedConstants.of(CONFIG, WeightSizes(rows=128, k=512, group=group))
    assert (constants.slice_columns, constants.slices) == (columns, 128 // columns)
    x = torch.zeros(5, 512, dtype=torch.bfloat16)
    descriptor = hopper.activations_descriptor(x, 2 * constants.slices, 16, columns)
    assert list(descriptor.shape) == [512 // columns, 5, columns]
    assert list(descriptor.strides) == [columns, 512, 1]
    assert list(descriptor.block_shape) == [256 // columns, 16, columns]
    assert descriptor.layout.swizzle_byte_width == 2 * columns


# --- layouts: which thread holds which element ---

LAYOUTS = {
    "words": layouts.direct_words(8),
    "activations 8": layouts.direct_activations(8, 8),
    "activations 16": layouts.direct_activations(4, 16),
    "scales": layouts.direct_scales(8),
    **{
        f"output of {warps} warps, {tokens} x {tiles}": layouts.direct_output(warps, tokens, tiles)
        for warps, tokens, tiles in ((8, 8, 1), (8, 16, 8), (1, 16, 4), (2, 8, 2))
    },
    "staged words 64": layouts.staged_words(64, 4),
    "staged words 256": layouts.staged_words(256, 8),
    "staged scales": layouts.staged_scales(128, 4),
}


def place(bases: list[list[int]], number: int, rank: int) -> tuple[int, ...]:
    """The coordinates that the set bits of `number` add up (by exclusive or) to."""
    coordinates = [0] * rank
    for bit, basis in enumerate(bases):
        if number >> bit & 1:
            coordinates = [a ^ b for a, b in zip(coordinates, basis, strict=True)]
    return tuple(coordinates)


def elements(layout: Any) -> dict[tuple[int, int, int], tuple[int, ...]]:
    """(warp, lane, register) -> element."""
    rank = len(layout.shape)
    registers, lanes, warps = layout.reg_bases, layout.lane_bases, layout.warp_bases
    element_at = {}
    for warp, lane, register in product(
        range(1 << len(warps)), range(1 << len(lanes)), range(1 << len(registers))
    ):
        parts = (
            place(warps, warp, rank),
            place(lanes, lane, rank),
            place(registers, register, rank),
        )
        element_at[warp, lane, register] = tuple(a ^ b ^ c for a, b, c in zip(*parts, strict=True))
    return element_at


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_element_is_held_by_someone(name: str) -> None:
    layout = LAYOUTS[name]
    held = set(elements(layout).values())
    assert held == set(product(*(range(size) for size in layout.shape)))


def test_a_lane_of_the_direct_kernel_reads_two_runs_of_sixteen_bytes() -> None:
    held = elements(LAYOUTS["words"])
    for lane in range(32):
        run = [held[3, lane, register] for register in range(32)]
        first = [(3, 16 * lane + i) for i in range(16)]
        assert run == first + [(warp, byte + 512) for warp, byte in first]


def test_a_lane_of_the_direct_kernel_reads_sixteen_contiguous_columns() -> None:
    held = elements(LAYOUTS["activations 8"])
    for lane in range(32):
        g, s = divmod(lane, 4)
        assert [held[5, lane, r] for r in range(16)] == [(g, 5, 16 * s + i) for i in range(16)]


def test_a_lane_of_the_staged_kernel_reads_whole_words() -> None:
    held = elements(LAYOUTS["staged words 64"])
    for lane in range(32):
        g, w = divmod(lane, 4)
        at = [row * 128 + byte for row, byte in (held[0, lane, r] for r in range(32))]
        expected = [
            512 * half + 64 * g + 16 * s + 4 * w + byte
            for half, s, byte in product(range(2), range(4), range(4))
        ]
        assert at == expected


def test_partial_sums_meet_in_a_thread_and_scales_travel_sixteen_bytes_a_thread() -> None:
    for warps, tokens in [(8, 8), (8, 16), (1, 8), (4, 16)]:
        layout = layouts.direct_partials(warps, tokens)
        assert layout.size_per_thread[0] == warps
        assert layout.threads_per_warp[1] * layout.threads_per_warp[2] == 32
        assert layout.warps_per_cta == [1, warps, 1]
    rows = layouts.staged_scale_rows(128, 4)
    assert (rows.size_per_thread, rows.threads_per_warp) == ([1, 1, 8], [16, 1, 2])
    assert [layouts.power_of_two(count) for count in (0, 1, 3, 64, 65)] == [1, 1, 4, 64, 128]
