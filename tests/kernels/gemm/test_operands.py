"""What is refused before anything runs: the message names argument, wanted and got."""

from collections.abc import Callable

import pytest
import torch

from kernels.gemm import axiswise, blockwise
from tests.kernels.gemm.gemm_reference import normal_fp8

Gemm = Callable[..., torch.Tensor]
BOTH = pytest.mark.parametrize("gemm", [axiswise.gemm, blockwise.gemm])


def shifted(device: torch.device) -> torch.Tensor:
    return normal_fp8(1, 8 * 32 + 1, device).reshape(-1)[1:].reshape(8, 32)


@BOTH
@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda d: torch.zeros(8, 32, device=d), "float8_e4m3fn or float8_e5m2, got float32"),
        (lambda d: normal_fp8(8, 32, d).reshape(-1), "a matrix .*, got shape"),
        (lambda d: normal_fp8(8, 24, d), "K in multiples of 16 .*, got K = 24"),
        (lambda d: normal_fp8(32, 8 * 2, d).t()[:, :32], "rows without gaps .*, got strides"),
        (
            lambda d: normal_fp8(8, 40, d)[:, :32],
            "rows .* multiples of 16 elements apart, got strides",
        ),
        (shifted, "a first element at a multiple of 16 bytes, got one at 1 beyond"),
    ],
)
def test_operands(
    gemm: Gemm,
    name: str,
    make: Callable[[torch.device], torch.Tensor],
    said: str,
    device: torch.device,
) -> None:
    good, bad = normal_fp8(8, 32, device), make(device)
    one = torch.ones(1, 1, device=device)
    with pytest.raises(ValueError, match=rf"^{name}: wanted {said}"):
        gemm(*((bad, good) if name == "a" else (good, bad)), one, one)


@BOTH
def test_operands_of_different_k(gemm: Gemm, device: torch.device) -> None:
    one = torch.ones(1, 1, device=device)
    with pytest.raises(
        ValueError, match=r"^b: wanted \[N, K\] with K = 32 .*, got shape \(8, 48\)"
    ):
        gemm(normal_fp8(8, 32, device), normal_fp8(8, 48, device), one, one)


@BOTH
@pytest.mark.parametrize("name", ["scale_a", "scale_b"])
@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (torch.ones(1, 1, dtype=torch.float64), "float32 on .*, got float64"),
        (torch.ones(9, 1), r"got shape \(9, 1\)"),
        (torch.ones(4, 2), r"got shape \(4, 2\)"),
    ],
)
def test_scales(gemm: Gemm, name: str, bad: torch.Tensor, said: str, device: torch.device) -> None:
    x, one, wrong = normal_fp8(8, 32, device), torch.ones(1, 1, device=device), bad.to(device)
    with pytest.raises(ValueError, match=rf"^{name}: wanted .*{said}"):
        gemm(x, x, *((wrong, one) if name == "scale_a" else (one, wrong)))


WRONG = pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 0.0, -1.0])


@BOTH
@WRONG
@pytest.mark.parametrize("name", ["scale_a", "scale_b"])
def test_values_of_scales(gemm: Gemm, wrong: float, name: str, device: torch.device) -> None:
    x, good = normal_fp8(8, 32, device), torch.ones(8, 1, device=device)
    bad = good.clone()
    bad[5:] = wrong
    pair = (bad, good) if name == "scale_a" else (good, bad)
    said = rf"^{name}: wanted finite scales above zero, got {wrong} at index \[5, 0\] of"
    with pytest.raises(ValueError, match=said):
        gemm(x, x, *pair, check_values=True)
    if device.type == "cpu":
        with pytest.raises(ValueError, match=said):
            gemm(x, x, *pair)


@BOTH
def test_good_values_of_scales(gemm: Gemm, device: torch.device) -> None:
    x, good = normal_fp8(8, 32, device), torch.ones(8, 1, device=device)
    gemm(x, x, good, good, check_values=True)


def test_scales_of_rows_with_gaps(device: torch.device) -> None:
    x, one = normal_fp8(8, 32, device), torch.ones(1, device=device)
    apart = torch.ones(8, 2, device=device)[:, :1]
    with pytest.raises(
        ValueError, match=r"^scale_b: wanted .*without gaps, got .*strides \(2, 1\)"
    ):
        axiswise.gemm(x, x, one, apart)


def test_a_single_row_may_have_any_stride(device: torch.device) -> None:
    row = normal_fp8(5, 40, device)[:1, :32]
    one = torch.ones((), device=device)
    assert axiswise.gemm(row, normal_fp8(4, 32, device), one, one).shape == (1, 4)
