"""One kernel, and the checks of sizes."""

import pytest

from roofcal.models.errors import PredictError
from roofcal.models.wave.operator_time import (
    check_sizes,
    described_value,
    divide,
    kernel_time,
    stream_seconds,
)
from tests.roofcal.models.runs import WAVE


def test_a_kernel_is_a_launch_and_its_largest_part() -> None:
    time = kernel_time(WAVE, {"math": 3e-6, "dram": 5e-6})
    assert time.total_s == pytest.approx(6e-6)
    assert time.bound_by == "dram"
    assert time.parts["launch"] == WAVE.launch_s
    assert kernel_time(WAVE, {"dram": 1e-9}).bound_by == "launch"


def test_memory_is_a_stream_at_its_achieved_fraction() -> None:
    assert stream_seconds(WAVE, 2e12) == pytest.approx(1.0)


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "4"])
def test_a_size_that_is_none_is_named(size: object) -> None:
    with pytest.raises(PredictError, match=r"product: m=.* must be a whole number from 1"):
        check_sizes("product", m=size, n=4)  # type: ignore[arg-type]


def test_what_does_not_divide_is_named() -> None:
    assert divide("heads", 64, 8, "ranks") == 8
    with pytest.raises(PredictError, match="64 heads do not divide among 3 ranks"):
        divide("heads", 64, 3, "ranks")


def test_a_dtype_without_a_rate_names_the_file() -> None:
    assert described_value(WAVE, "matrix_flops_per_clock", "fp8") == 8000
    with pytest.raises(
        PredictError, match=r"config/devices/made-up\.yaml: wave\.mat.*; allowed: bf16, fp8"
    ):
        described_value(WAVE, "matrix_flops_per_clock", "int8")
