"""The order of tiles, their descriptors for the tensor memory unit, and their configurations."""

import inspect
from typing import Final

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# Bytes; addresses and strides that the tensor memory unit takes are multiples of it.
TMA_ALIGNMENT: Final = 16


@triton.jit
def tile_at(index, TILES_M, TILES_N, GROUP: tl.constexpr):
    """(row, column) of the index-th tile: down GROUP tiles, then to the right.

    The tiles of one wave share their operands so. It serves kernels in Triton and in Gluon.
    """
    if GROUP == 1:  # saves divisions by a height that the compiler does not know
        return index // TILES_N, index % TILES_N
    else:  # noqa: RET505 (both branches are traced without it)
        in_group = GROUP * TILES_N
        first = index // in_group * GROUP
        height = tl.minimum(TILES_M - first, GROUP)
        return first + index % in_group % height, index % in_group // height


def tile_descriptor(x: torch.Tensor, block: list[int]) -> TensorDescriptor:
    """The descriptor of a matrix that is read or written in blocks [rows, columns]."""
    # The stride of a single row means nothing, and may be one that the hardware does not take.
    stride = (
        x.stride(0) if x.shape[0] > 1 else triton.cdiv(x.shape[1], TMA_ALIGNMENT) * TMA_ALIGNMENT
    )
    return TensorDescriptor(x, list(x.shape), [stride, 1], block)


class KernelConstants:
    """The base of configurations that a kernel takes whole, as one constexpr, with properties.

    Triton finds a compiled kernel on disk by the kernel's source and the text of its constants. It
    would also find one that was compiled before somebody changed a property. So the source of the
    class is part of the key, which Triton takes from the attribute `cache_key` where there is one.
    """

    __slots__ = ()

    @property
    def cache_key(self) -> str:
        """The values, and the code that computes more from them."""
        return f"{self!r}\n{inspect.getsource(type(self))}"
