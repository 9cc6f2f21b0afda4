"""torch.set_default_dtype changes nothing that a kernel writes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels.cast import blocks, columns, fused
from kernels.cast.rows import rowwise_dim0
from kernels.cast.tensorwise import tensorwise
from kernels.gemm import axiswise, operands
from kernels.gemm.rule import FEW_ROWS, split_of_k
from kernels.linear import ops
from kernels.linear.layer import linear, plan_of


def linear_and_gradients(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    w = x[:32].clone().requires_grad_()
    y = linear(x.detach().requires_grad_(), w, None, plan_of("blockwise"))
    (grad,) = torch.autograd.grad(y, w, torch.ones_like(y))
    return y.detach(), grad


def split_product(x: torch.Tensor) -> torch.Tensor:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operands, "compute_units", lambda *_: 8)
        one = torch.ones((), dtype=torch.float32, device=x.device)
        wide = x.repeat(1, 8).to(torch.float8_e4m3fn)
        assert split_of_k(FEW_ROWS, len(x), wide.shape[1], 8) > 1
        return axiswise.gemm(wide, wide, one, one)


OUTPUTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "tensorwise": tensorwise,
    "tensorwise of many": lambda x: tensorwise(x.repeat(3, 1)),
    "rowwise": rowwise_dim0,
    "columns": columns.rowwise_dim1,
    "both": columns.rowwise_both,
    "columns of many": lambda x: columns.rowwise_dim1(x[:, :16].repeat(65, 1)),
    "strips": blocks.blockwise_1x128,
    "strips down": blocks.blockwise_1x128_dim1,
    "squares": blocks.blockwise_128x128,
    "fused": lambda x: fused.silu_mul(x, x, kind="blockwise_1x128", both=True),
    "fused rows": lambda x: fused.rms_norm(x, x[0], both=True),
    "tensorwise columns": lambda x: ops.cast_by_kernels(x, "", "tensorwise"),
    "no columns": lambda x: ops.cast_by_kernels(x[:0], "", "tensorwise"),
    "split product": split_product,
    "linear": linear_and_gradients,
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_default_dtype_changes_nothing(name: str, device: torch.device) -> None:
    x = torch.randn(32, 256, dtype=torch.float32).bfloat16().to(device)
    expected = OUTPUTS[name](x)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        actual = OUTPUTS[name](x)
    finally:
        torch.set_default_dtype(before)
    if isinstance(actual, torch.Tensor):
        actual, expected = (actual,), (expected,)
    for a, b in zip(actual, expected, strict=True):
        assert a.dtype == b.dtype
        assert a.stride() == b.stride()
        assert torch.equal(a.float(), b.float())
