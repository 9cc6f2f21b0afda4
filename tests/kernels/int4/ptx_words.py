"""A few PTX instructions on 32-bit words in Python: the inline assembly, without a GPU."""

import re

import numpy as np
import torch

_LANES = {"bf16x2": torch.bfloat16, "f16x2": torch.float16}


def run(text: str, inputs: list[int], outputs: int) -> list[int]:
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
