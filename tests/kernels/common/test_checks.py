"""What is refused before anything runs."""

from typing import Any

import pytest
import torch

from kernels.cast.tensorwise import tensorwise
from kernels.common.checks import (
    check_device,
    check_matrix,
    check_scale_values,
    largest_fp8_value,
)
from tests.kernels.on_gpus import OnGpu, TensorOnGpu1


def test_a_row_or_column_of_any_stride_is_a_matrix(device: torch.device) -> None:
    check_matrix(torch.zeros(8, 8, device=device)[:, :1])
    check_matrix(torch.zeros(8, 8, device=device)[:1])
    check_matrix(torch.zeros(0, 8, device=device))


def test_gaps_in_a_row_are_refused_with_the_way_out(device: torch.device) -> None:
    with pytest.raises(ValueError, match=r"got strides \(8, 2\) .* make it contiguous"):
        check_matrix(torch.zeros(8, 8, device=device)[:, ::2])


class OnGpu1(TensorOnGpu1):
    """One that is compared with where others lie."""

    device = torch.device("cuda:1")


def test_a_tensor_on_the_cpu_is_refused_where_there_is_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = torch.zeros(16, 16)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(ValueError, match=r"^w: wanted a tensor on the GPU, got one on cpu"):
        check_device("w", x)
    check_matrix(x.as_subclass(OnGpu1))


def test_values_on_a_gpu_are_read_only_by_who_waits() -> None:
    scale = torch.tensor([1.0, float("nan")]).as_subclass(OnGpu1)
    check_scale_values("scale", scale, wait=False)
    with pytest.raises(ValueError, match=r"^scale: wanted finite .*, got nan at index \[1\] of"):
        check_scale_values("scale", scale, wait=True)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 0.0, -0.5])
def test_a_given_scale_is_refused_by_its_value(wrong: float, device: torch.device) -> None:
    x, scale = torch.zeros(2, 2, device=device), torch.tensor(wrong, device=device)
    with pytest.raises(ValueError, match=rf"^scale: wanted finite .*, got {wrong} at index \[\]"):
        tensorwise(x, scale=scale, check_values=True)


def test_a_gpu_without_e4m3_is_named(monkeypatch: pytest.MonkeyPatch, device: torch.device) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    monkeypatch.setattr(torch.version, "hip", None)
    x: Any = OnGpu()
    with pytest.raises(ValueError, match=r"wanted float8_e5m2, got float8_e4m3fn.* 8\.0 lacks"):
        largest_fp8_value(torch.float8_e4m3fn, x)
    assert largest_fp8_value(torch.float8_e5m2, x) == 57344.0
