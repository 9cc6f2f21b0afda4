"""Matrix operands of packed weights in NumPy, with the permutations that a kernel's source states.

The permutations are read from the kernel: a change of one there is a change here, and the tests
that multiply with them find out whether it is right.
"""

import ast
import inspect
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from kernels.int4.packing import Int4Weights

Array = NDArray[np.float64]


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
