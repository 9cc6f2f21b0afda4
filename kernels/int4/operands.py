"""How packed weights and activations come to the matrix unit from shared memory (sm_90).

Boxes that the tensor memory unit brings, and the order in which a lane's words are its part of an
operand: kernels.int4.staged and kernels.int4.specialised multiply in that order.
"""
# mypy: disable-error-code="no-redef"

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.int4.rule import UNIT_ROWS

WORDS_LAYOUT = gl.NVMMASharedLayout(128, 8, 4)


@gluon.jit
def operand(v, LEFT: gl.constexpr, ROWS: gl.constexpr):
    """Blob order [rows / 2, 128] -> [rows, 64 columns] in their natural order."""
    v = gl.reshape(v, (ROWS // 16, 2, 8, 4, 4, 2, 2))  # row tile, half, g, s, w, b, i
    v = gl.permute(v, (0, 5, 2, 3, 1, 4, 6))  # row tile, b, g | s, half, w, i
    return gl.convert_layout(gl.reshape(v, (ROWS, 64)), LEFT, assert_trivial=True)


@gluon.jit
def in_rows(v, LAYOUT: gl.constexpr, ROWS: gl.constexpr):
    """Scales or zeros in packed order [rows] -> [rows] along the rows of LAYOUT, in their type."""
    v = gl.reshape(gl.permute(gl.reshape(v, (ROWS // 16, 8, 2)), (0, 2, 1)), (ROWS,))
    return gl.convert_layout(v, gl.SliceLayout(1, LAYOUT), assert_trivial=True)


def words_descriptor(packed: torch.Tensor, units: int, rows: int) -> TensorDescriptor:
    """Packed weights as [unit, row tile, 8, 128 bytes], in boxes of so many units and rows."""
    tiles, all_units = packed.shape[:2]
    block = [units, rows // UNIT_ROWS, 8, 128]
    strides = [1024, all_units * 1024, 128, 1]
    return TensorDescriptor(packed, [all_units, tiles, 8, 128], strides, block, WORDS_LAYOUT)


def activations_descriptor(
    x: torch.Tensor, slices: int, tokens: int, columns: int
) -> TensorDescriptor:
    """Activations as [slice, token, columns of a slice], in boxes of so many slices and tokens.

    Rows of a slice lie in shared memory swizzled over their width.
    """
    rows, k = x.shape
    layout = gl.NVMMASharedLayout(2 * columns, 16, 3)
    shape = [k // columns, rows, columns]
    return TensorDescriptor(x, shape, [columns, k, 1], [slices, tokens, columns], layout)


def scales_descriptor(scales: torch.Tensor, rows: int) -> TensorDescriptor:
    """Scales or zeros [row tile, group, 16] as [row tile, 16 of each group], in boxes of one group.

    A box lies in shared memory as its rows follow each other in packed order.
    """
    tiles, groups, entries = scales.shape
    layout = gl.NVMMASharedLayout(0, 16, 2)
    shape, strides = [tiles, groups * entries], [groups * entries, 1]
    return TensorDescriptor(scales, shape, strides, [rows // UNIT_ROWS, entries], layout)
