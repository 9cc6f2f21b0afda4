"""Checks that need no kernel; the device functions are tested through the casts."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels.cast import blocks as cast_blocks
from kernels.cast import columns as cast_fp8_columns
from kernels.cast import fused as cast_fused
from kernels.cast import rows as cast_rows
from kernels.cast import tensorwise as cast_tensorwise
from kernels.common.fp8_scales import (
    LARGEST,
    check_device,
    check_matrix,
    check_target,
    check_values,
    compute_units,
    new_block_scales,
)
from kernels.gemm import axiswise as fp8_gemm
from kernels.gemm import configs as gemm_configs
from kernels.gemm import few_rows as fp8_gemm_skinny
from kernels.gemm.operands import check_operands
from kernels.linear import ops as linear_ops
from kernels.linear.layer import linear, plan_of


def test_the_largest_values_are_those_of_the_types() -> None:
    for dtype, largest in LARGEST.items():
        assert largest == torch.finfo(dtype).max


def test_an_interpreter_has_one_unit() -> None:
    assert compute_units(torch.zeros(1)) == 1


def test_scales_of_blocks_lie_transposed_in_columns_of_16_bytes(device: torch.device) -> None:
    made = new_block_scales(10, 3, device)
    assert (made.shape, made.stride(), made.dtype) == ((10, 3), (1, 12), torch.float32)


def test_a_row_or_column_of_any_stride_is_a_matrix(device: torch.device) -> None:
    check_matrix(torch.zeros(8, 8, device=device)[:, :1])
    check_matrix(torch.zeros(8, 8, device=device)[:1])
    check_matrix(torch.zeros(0, 8, device=device))


def test_gaps_in_a_row_are_refused_with_the_way_out(device: torch.device) -> None:
    with pytest.raises(ValueError, match=r"got strides \(8, 2\) .* make it contiguous"):
        check_matrix(torch.zeros(8, 8, device=device)[:, ::2])


class OnGpu1(torch.Tensor):
    """A matrix that says that it lies on the second GPU."""

    is_cuda = True
    device = torch.device("cuda:1")

    def get_device(self) -> int:
        return 1


def test_a_tensor_of_another_gpu_is_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = torch.zeros(16, 16).as_subclass(OnGpu1)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    wanted = r"wanted a tensor on cuda:0 \(the current device, .*got one on cuda:1; call it under"
    with pytest.raises(ValueError, match=rf"^w: {wanted} `with torch\.cuda\.device\(w\.device"):
        check_device("w", x)
    with pytest.raises(ValueError, match=f"^x: {wanted}"):
        check_matrix(x)
    operand = x.to(torch.float8_e4m3fn)
    with pytest.raises(ValueError, match=f"^a: {wanted}"):
        check_operands(operand, operand)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    check_matrix(x)
    assert check_operands(operand, operand) == (16, 16, 16)


def test_values_on_a_gpu_are_read_only_where_asked() -> None:
    scale = torch.tensor([1.0, float("nan")]).as_subclass(OnGpu1)
    check_values("scale", scale, asked=False)
    with pytest.raises(ValueError, match=r"^scale: wanted finite .*, got nan at index \[1\] of"):
        check_values("scale", scale, asked=True)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 0.0, -0.5])
def test_a_given_scale_is_refused_by_its_value(wrong: float, device: torch.device) -> None:
    x, scale = torch.zeros(2, 2, device=device), torch.tensor(wrong, device=device)
    with pytest.raises(ValueError, match=rf"^scale: wanted finite .*, got {wrong} at index \[\]"):
        cast_tensorwise.tensorwise(x, scale=scale, check_values=True)


def test_a_gpu_without_e4m3_is_named(monkeypatch: pytest.MonkeyPatch, device: torch.device) -> None:
    class OnGpu:
        is_cuda = True
        device = torch.device("cuda:0")

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    monkeypatch.setattr(torch.version, "hip", None)
    with pytest.raises(ValueError, match=r"wanted float8_e5m2, got float8_e4m3fn.* 8\.0 lacks"):
        check_target(torch.float8_e4m3fn, OnGpu())  # type: ignore[arg-type]
    assert check_target(torch.float8_e5m2, OnGpu()) == 57344.0  # type: ignore[arg-type]


def linear_and_gradients(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    w = x[:32].clone().requires_grad_()
    y = linear(x.detach().requires_grad_(), w, None, plan_of("blockwise"))
    (grad,) = torch.autograd.grad(y, w, torch.ones_like(y))
    return y.detach(), grad


def split_product(x: torch.Tensor) -> torch.Tensor:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fp8_gemm_skinny, "compute_units", lambda _: 8)
        one = torch.ones((), dtype=torch.float32, device=x.device)
        wide = x.repeat(1, 8).to(torch.float8_e4m3fn)
        assert gemm_configs.split_of(gemm_configs.SKINNY, len(x), wide.shape[1], 8) > 1
        return fp8_gemm.gemm(wide, wide, one, one)


MAKERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "tensorwise": cast_tensorwise.tensorwise,
    "tensorwise of many": lambda x: cast_tensorwise.tensorwise(x.repeat(64, 8)),
    "rowwise": cast_rows.rowwise_dim0,
    "columns": cast_fp8_columns.rowwise_dim1,
    "both": cast_fp8_columns.rowwise_both,
    "columns of many": lambda x: cast_fp8_columns.rowwise_dim1(x.repeat(130, 1)),
    "strips": cast_blocks.blockwise_1x128,
    "strips down": cast_blocks.blockwise_1x128_dim1,
    "squares": cast_blocks.blockwise_128x128,
    "fused": lambda x: cast_fused.sigmoid(x, kind="blockwise_1x128", both=True),
    "fused rows": lambda x: cast_fused.rms_norm(x, x[0], both=True),
    "tensorwise columns": lambda x: linear_ops.cast_by_kernels(x, "", "tensorwise"),
    "no columns": lambda x: linear_ops.cast_by_kernels(x[:0], "", "tensorwise"),
    "split product": split_product,
    "linear": linear_and_gradients,
}


@pytest.mark.parametrize("name", MAKERS)
def test_the_default_dtype_changes_nothing(name: str, device: torch.device) -> None:
    x = torch.randn(48, 256, dtype=torch.float32).bfloat16().to(device)
    wanted = MAKERS[name](x)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        made = MAKERS[name](x)
    finally:
        torch.set_default_dtype(before)
    pairs = [(made, wanted)] if isinstance(made, torch.Tensor) else zip(made, wanted, strict=True)
    for found, expected in pairs:
        assert found.dtype == expected.dtype
        assert found.stride() == expected.stride()
        assert torch.equal(found.float(), expected.float())
