"""Casts both ways from one read equal the two casts apart, in the interpreter or on the GPU."""

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import pytest
import torch

from kernels.cast import blocks, both_ways, tensorwise
from kernels.cast.tiles import Both, Cast
from tests.kernels.cast.every_cast import Check, EveryCast
from tests.kernels.cast.fp8_reference import (
    E4M3,
    assert_all_equal,
    assert_read_by_products,
    normal_matrix,
    transposed,
)

BOTH: dict[str, tuple[Callable[..., Both], Callable[..., Cast]]] = {
    "tensorwise": (both_ways.tensorwise_both, tensorwise.tensorwise),
    "strips": (both_ways.blockwise_1x128_both, blocks.blockwise_1x128),
    "squares": (both_ways.blockwise_128x128_both, blocks.blockwise_128x128),
}
# Rows in multiples of 16 go to the tensor memory unit on a GPU that has one, others never do.
SHAPES = [(1, 1), (100, 1), (3, 300), (16, 144), (144, 131), (256, 128), (144, 272)]


def check_both_ways(name: str, x: torch.Tensor, dtype: torch.dtype = E4M3) -> None:
    both, one_way = BOTH[name]
    outputs = both(x, dtype)
    assert_all_equal(outputs, (*one_way(x, dtype), *one_way(transposed(x), dtype)))
    if name == "strips":
        assert_read_by_products(outputs[1])
        assert_read_by_products(outputs[3])


class TestEveryCastBothWays(EveryCast):
    checks: ClassVar = {name: partial(check_both_ways, name) for name in BOTH}
    ragged_shapes = SHAPES
    shape = (144, 160)

    def test_is_right_on_rows_that_lie_apart(self, check: Check, device: torch.device) -> None:
        check(normal_matrix(160, 200, device)[:, 24:168])

    @pytest.mark.gpu
    def test_is_right_on_matrices_of_many_tiles(self, check: Check, device: torch.device) -> None:
        check(normal_matrix(4112, 2072, device))


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("shape", [(0, 32), (32, 0)])
def test_casts_nothing_to_nothing(name: str, shape: tuple[int, int], device: torch.device) -> None:
    q0, _, q1, _ = BOTH[name][0](torch.empty(shape, dtype=torch.bfloat16, device=device))
    assert (q0.shape, q1.shape) == (shape, shape[::-1])


@pytest.mark.parametrize("shape", [(3, 300), (144, 131), (144, 272)])
@pytest.mark.parametrize("value", [None, float("nan"), -float("nan")])
def test_a_known_amax_makes_the_casts_that_finding_it_makes(
    shape: tuple[int, int], value: float | None, device: torch.device
) -> None:
    x = normal_matrix(*shape, device)
    amax = x.abs().amax().float() if value is None else torch.tensor(value, device=device)
    outputs = both_ways.tensorwise_both(x, amax=amax)
    if value is None:
        assert_all_equal(outputs, both_ways.tensorwise_both(x))
    else:
        assert all(made.float().isnan().all() for made in outputs)
