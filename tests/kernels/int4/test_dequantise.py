"""The inline assembly, run in Python: which weight comes out where, and that it is exact."""

import re

import numpy as np
import pytest
import torch
import triton.experimental.gluon.language as gl

from kernels.int4 import hopper

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


def test_the_constraints_name_four_outputs_and_one_input() -> None:
    assert hopper.CONSTRAINTS.value.split(",") == ["=&r"] * 4 + ["r"]
