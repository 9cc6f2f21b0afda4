"""The order in which the staged kernel multiplies, on the CPU. test_gemm has its numerics."""

import numpy as np
import pytest
import torch

from kernels.int4 import operands
from kernels.int4.constants import StagedConstants
from kernels.int4.packing import unpack
from kernels.int4.rule import Int4StagedConfig, WeightSizes
from tests.kernels.int4.int4_cases import weights
from tests.kernels.int4.operand_order import levels, permutations

CPU = torch.device("cpu")
CONFIG = Int4StagedConfig(
    rows=128, split=1, num_warps=4, stages=2, unroll=2, token_tile=16, matrix="sync"
)


def test_weights_come_in_the_natural_order_of_rows_and_columns() -> None:
    w = weights(64, 256, 128, CPU)
    q = unpack(w).q.numpy().astype(float) - 8
    order = permutations(operands.operand)[0]
    for h, half in enumerate(levels(w)):
        for unit in range(2):
            blob = half[:, unit].reshape(4, 2, 8, 4, 4, 2, 2)
            first = unit * 128 + 64 * h
            dense = blob.transpose(order).reshape(64, 64)
            assert np.array_equal(dense, q[:, first : first + 64])


def test_scales_are_put_in_the_order_of_the_rows() -> None:
    w = weights(64, 128, 128, CPU)
    order = permutations(operands.in_rows)[0]
    packed = w.scales[:, 0].float().numpy()
    by_row = packed.reshape(4, 8, 2).transpose(order).reshape(64)
    assert np.array_equal(by_row, unpack(w).scales[:, 0].float().numpy())


def test_a_slot_of_weights_is_a_box_of_whole_units() -> None:
    w = weights(256, 512, 64, CPU)
    descriptor = operands.words_descriptor(w.packed, 2, 128)
    assert list(descriptor.shape) == [4, 16, 8, 128]
    assert list(descriptor.strides) == [1024, 4096, 128, 1]
    assert list(descriptor.block_shape) == [2, 8, 8, 128]


@pytest.mark.parametrize(("group", "columns"), [(512, 64), (128, 64), (64, 64), (32, 32)])
def test_a_slot_of_activations_is_cut_in_slices_of_one_product(group: int, columns: int) -> None:
    constants = StagedConstants.of(CONFIG, WeightSizes(rows=128, k=512, group=group))
    assert (constants.slice_columns, constants.slices) == (columns, 128 // columns)
    x = torch.zeros(5, 512, dtype=torch.bfloat16)
    descriptor = operands.activations_descriptor(x, 2 * constants.slices, 16, columns)
    assert list(descriptor.shape) == [512 // columns, 5, columns]
    assert list(descriptor.strides) == [columns, 512, 1]
    assert list(descriptor.block_shape) == [256 // columns, 16, columns]
    assert descriptor.layout.swizzle_byte_width == 2 * columns
