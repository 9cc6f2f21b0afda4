"""The inline assembly, run in Python: which weight comes out where, and that it is exact."""

import pytest
import torch
import triton.experimental.gluon.language as gl

from kernels.int4 import dequantise
from tests.kernels.int4.ptx_words import halves, run

WORDS = [0x00000000, 0xFFFFFFFF, 0x76543210, 0xFEDCBA98, 0x0F1E2D3C, 0x87654321]
TEXTS = {
    "bf16 raised": (dequantise.BF16_RAISED, torch.bfloat16, 128.0),
    "fp16 raised": (dequantise.FP16_RAISED, torch.float16, 1024.0),
    "bf16 centred": (dequantise.BF16_CENTRED, torch.bfloat16, -8.0),
    "fp16 centred": (dequantise.FP16_CENTRED, torch.float16, -8.0),
}


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("name", TEXTS)
def test_a_word_becomes_its_eight_weights_in_the_order_of_the_packing(name: str, word: int) -> None:
    text, dtype, offset = TEXTS[name]
    outputs = [halves(out, dtype) for out in run(text.value, [word], 4)]
    weights = torch.stack(outputs).view(2, 2, 2).tolist()  # h, b, i
    for h in range(2):
        for b in range(2):
            for i in range(2):
                q = word >> 4 * (2 * h + b + 4 * i) & 15
                assert weights[h][b][i] == q + offset


@pytest.mark.parametrize(
    ("text", "base", "dtype"),
    [
        (dequantise.BF16_SUBTRACT, dequantise.BF16_BASE, torch.bfloat16),
        (dequantise.FP16_SUBTRACT, dequantise.FP16_BASE, torch.float16),
    ],
)
def test_a_zero_point_is_subtracted_exactly(
    text: gl.constexpr, base: gl.constexpr, dtype: torch.dtype
) -> None:
    for q in range(16):
        for zero in range(16):
            pair = torch.tensor([base.value + q, base.value + zero], dtype=dtype)
            a, b = (int(v) & 0xFFFF for v in pair.view(torch.int16))
            (word,) = run(text.value, [a | a << 16, b | b << 16], 1)
            assert halves(word, dtype).tolist() == [q - zero, q - zero]


def test_the_constraints_name_four_outputs_and_one_input() -> None:
    assert dequantise.CONSTRAINTS.value.split(",") == ["=&r"] * 4 + ["r"]
