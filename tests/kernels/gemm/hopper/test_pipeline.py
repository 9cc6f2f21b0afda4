"""What a product in Gluon asks of the GPU is there."""

import pytest

from kernels.gemm.hopper import pingpong, staged_scales
from kernels.gemm.hopper.pipeline import check_registers


@pytest.mark.parametrize(
    ("multiplying", "registers"), [(2, 232), (2, 240), (2, 216), (3, 152), (3, 160)]
)
def test_a_fetching_warpgroup_has_registers_left(multiplying: int, registers: int) -> None:
    check_registers(multiplying, registers)


@pytest.mark.parametrize(("multiplying", "registers"), [(2, 248), (2, 230), (3, 168)])
def test_registers_that_a_multiprocessor_lacks_are_refused(
    multiplying: int, registers: int
) -> None:
    with pytest.raises(AssertionError):
        check_registers(multiplying, registers)


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        (pingpong.PingpongConfig, {"m": 64}),
        (staged_scales.StagedScalesConfig, {"m": 192, "n": 256, "stages": 4}),
    ],
)
def test_tiles_that_a_kernel_lacks_are_refused(kind: type, sizes: dict[str, int]) -> None:
    with pytest.raises(AssertionError):
        kind(rate=1.0, **sizes)
