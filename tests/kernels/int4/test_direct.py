"""The order in which the direct kernel multiplies, on the CPU. test_gemm has its numerics."""

import numpy as np
import pytest
import torch

from kernels.int4 import direct
from kernels.int4.packing import unpack
from tests.kernels.int4.int4_cases import weights
from tests.kernels.int4.operand_order import levels, permutations

CPU = torch.device("cpu")


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


def test_scales_are_put_in_the_order_of_the_rows() -> None:
    w = weights(64, 128, 128, CPU)
    order = permutations(direct._load_per_row)[0]
    packed = w.scales[1, 0].float().numpy()
    by_row = packed.reshape(1, 8, 2).transpose(order).reshape(16)
    assert np.array_equal(by_row, unpack(w).scales[16:32, 0].float().numpy())


@pytest.mark.parametrize("step", [1, 2])
def test_a_correction_per_group_replaces_the_subtraction_of_eight(step: int) -> None:
    rng = np.random.default_rng(step)
    q = rng.integers(0, 16, (16, 128)).astype(float)
    x = rng.integers(-8, 8, (128, 4)).astype(float)
    assert np.array_equal((128 + q) @ x - 136 * x.sum(axis=0), (q - 8) @ x)
