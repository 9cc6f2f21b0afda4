"""Tests that every cast to fp8 passes: a test class inherits them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import pytest
import torch

from tests.kernels.cast.fp8_reference import E4M3, E5M2, normal_matrix

Check = Callable[..., None]


class EveryCast:
    """Tests of casts that run once for each of `checks`.

    checks: name -> function that compares a cast of (matrix, type) with the reference.
    ragged_shapes: (rows, columns) of matrices that do not fill the tiles of the casts.
    sizes: factors of normal values that are tiny or huge.
    shape: (rows, columns) of the matrix of all other tests.
    """

    checks: ClassVar[Mapping[str, Check]]
    ragged_shapes: ClassVar[Sequence[tuple[int, int]]]
    sizes: ClassVar[Sequence[float]] = (1e-30, 1e30)
    shape: ClassVar[tuple[int, int]]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrise the tests with what the class that inherits them says."""
        if "check" in metafunc.fixturenames:
            metafunc.parametrize("check", self.checks.values(), ids=self.checks)
        if "ragged_shape" in metafunc.fixturenames:
            metafunc.parametrize("ragged_shape", self.ragged_shapes)
        if "size" in metafunc.fixturenames:
            metafunc.parametrize("size", self.sizes)

    def test_is_right_on_ragged_shapes(
        self, check: Check, ragged_shape: tuple[int, int], device: torch.device
    ) -> None:
        check(normal_matrix(*ragged_shape, device))

    def test_is_right_on_tiny_and_huge_values(
        self, check: Check, size: float, device: torch.device
    ) -> None:
        check(normal_matrix(*self.shape, device, size).clamp(-3e38, 3e38))

    @pytest.mark.one_in(3)
    @pytest.mark.parametrize("source", [torch.float16, torch.float32])
    @pytest.mark.parametrize("dtype", [E4M3, E5M2])
    def test_is_right_on_every_type(
        self, check: Check, source: torch.dtype, dtype: torch.dtype, device: torch.device
    ) -> None:
        check(normal_matrix(*self.shape, device).to(source), dtype)

    @pytest.mark.one_in(5)
    @pytest.mark.parametrize("odd", [0.0, float("nan"), float("inf"), -float("inf")])
    @pytest.mark.parametrize("zeros", [False, True])
    def test_treats_odd_values_as_the_reference_does(
        self, check: Check, odd: float, zeros: bool, device: torch.device
    ) -> None:
        x = normal_matrix(*self.shape, device)
        if zeros:
            x[:, 3] = 0
            x[-1] = 0
        x[3, 7] = odd
        check(x)


def assert_refuses_other_inputs(cast: Callable[..., Any], device: torch.device) -> None:
    """A cast refuses integers, a matrix whose rows have gaps and an output type of 16 bits."""
    with pytest.raises(ValueError, match=r"^x: wanted bfloat16 or .*, got int32"):
        cast(torch.zeros(2, 2, dtype=torch.int32, device=device))
    with pytest.raises(ValueError, match=r"^x: wanted rows without gaps"):
        cast(torch.zeros(3, 4, device=device).t())
    with pytest.raises(ValueError, match=r"^dtype: wanted .*, got float16"):
        cast(torch.zeros(3, 4, device=device), torch.float16)
