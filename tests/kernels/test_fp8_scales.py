"""Checks that need no kernel; the device functions are tested through the casts."""

import pytest
import torch

from kernels.fp8_scales import (
    LARGEST,
    check_matrix,
    check_target,
    compute_units,
    new_block_scales,
)


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


def test_a_gpu_without_e4m3_is_named(monkeypatch: pytest.MonkeyPatch, device: torch.device) -> None:
    class OnGpu:
        is_cuda = True
        device = torch.device("cuda:0")

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    monkeypatch.setattr(torch.version, "hip", None)
    with pytest.raises(ValueError, match=r"wanted float8_e5m2, got float8_e4m3fn.* 8\.0 lacks"):
        check_target(torch.float8_e4m3fn, OnGpu())  # type: ignore[arg-type]
    assert check_target(torch.float8_e5m2, OnGpu()) == 57344.0  # type: ignore[arg-type]
