"""The order in which kernels multiply, on the CPU, in NumPy. test_gemm has their numerics.

Permutations are read from the source of the kernels: a change of one there is a change here, and
products made with them find out whether it is right.
"""

import ast
import inspect
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from kernels.int4 import direct, hopper
from kernels.int4.constants import StagedConstants
from kernels.int4.packing import Int4Weights, unpack
from kernels.int4.rule import Int4StagedConfig, WeightSizes
from tests.kernels.int4.int4_cases import weights

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
            product = np.zeros((16, 8))
            for unit in range(2):
                blob = half[tile, unit].reshape(1, 2, 8, 4, 2, 2, 2, 2)
                a = blob.transpose(order).reshape(16, 64)
                part = x[:, unit * 128 + 64 * h : unit * 128 + 64 * h + 64]
                b = part.reshape(8, 1, 4, 2, 2, 2, 2).transpose(columns).reshape(64, 8)
                product += a @ b
            q = unpack(w).q.numpy().astype(float)[16 * tile : 16 * tile + 16] - 8
            chosen = [c for c in range(256) if c % 128 // 64 == h]
            assert np.allclose(product, q[:, chosen] @ x[:, chosen].T)


def test_the_lane_decides_to_which_group_of_32_a_column_belongs() -> None:
    columns = np.broadcast_to(np.arange(64), (8, 64))
    order = permutations(direct._activations)[0]
    of_token = columns.reshape(8, 1, 4, 2, 2, 2, 2).transpose(order).reshape(64, 8)[:, 0]
    s = np.arange(64) // 2 % 4
    assert np.array_equal(of_token // 32, s >= 2)


@pytest.mark.parametrize("step", [1, 2])
def test_a_correction_per_group_replaces_the_subtraction_of_eight(step: int) -> None:
    rng = np.random.default_rng(step)
    q = rng.integers(0, 16, (16, 128)).astype(float)
    x = rng.integers(-8, 8, (128, 4)).astype(float)
    assert np.array_equal((128 + q) @ x - 136 * x.sum(axis=0), (q - 8) @ x)


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
