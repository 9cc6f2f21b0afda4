"""Products in Gluon on a Hopper GPU whose warpgroups share a tile, and who gets them."""

from typing import Any

import pytest
import torch

from kernels.gemm import axiswise, blockwise
from kernels.gemm.hopper import cooperative
from tests.kernels.gemm.gemm_reference import (
    E4M3,
    E5M2,
    ON_HOPPER,
    RAGGED,
    assert_close,
    dequantised,
    normal_fp8,
    product,
    random_scales,
    unwritten,
)

STAGES = cooperative.SLOW.stages
# more tiles than programs; K shorter than the ring of stages, as long, and longer
STEPS = [(512, 128 * 140, 128 * steps) for steps in (1, STAGES - 1, STAGES, STAGES + 1, 40)]


@pytest.mark.gpu
@ON_HOPPER
@pytest.mark.parametrize(("m", "n", "k"), RAGGED + STEPS)
@pytest.mark.parametrize("rowwise", [False, True])
def test_a_product_is_right(m: int, n: int, k: int, rowwise: bool) -> None:
    device = torch.device("cuda")
    a, b = normal_fp8(m, k, device), normal_fp8(n, k, device, E5M2 if m != 512 else E4M3)
    scale_a = random_scales(m if rowwise else 1, device=device)
    scale_b = random_scales(n if rowwise else 1, device=device)
    filled = unwritten(a, b, scale_a, scale_b)
    cooperative.launch(filled)
    assert_close(filled.c, product(a, b, scale_a, scale_b), fast_k=128)


@pytest.mark.gpu
@ON_HOPPER
@pytest.mark.parametrize(("m", "n", "k"), RAGGED + STEPS)
def test_a_blockwise_product_is_right(m: int, n: int, k: int) -> None:
    device = torch.device("cuda")
    a, b = normal_fp8(m, k, device), normal_fp8(n, k, device)
    scale_a = random_scales(m, -(-k // 128), device=device)
    scale_b = random_scales(-(-n // 128), -(-k // 128), device=device)
    filled = unwritten(a, b, scale_a, scale_b)
    cooperative.launch_blockwise(filled)
    assert_close(filled.c, dequantised(a, scale_a) @ dequantised(b, scale_b).t())


class LaunchedError(Exception):
    """A launch that a test caught."""


def test_on_hopper_it_gets_the_products_that_it_is_rated_best_at(
    monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    def catch(*arguments: Any, **named: Any) -> None:
        raise LaunchedError

    monkeypatch.setattr(cooperative, "_launch", catch)
    for module in (axiswise, blockwise):
        monkeypatch.setattr(module, "is_hopper", lambda _: True)
        monkeypatch.setattr(module, "choose", lambda configs, *_: configs[-1])
    a, one = normal_fp8(256, 128, device), torch.ones((), device=device)
    assert cooperative.SLOW in axiswise.candidates("slow", a)
    with pytest.raises(LaunchedError):
        axiswise.gemm(a, a, one, one, accumulation="slow")
    squares, strips = torch.ones(2, 1, device=device), torch.ones(256, 1, device=device)
    with pytest.raises(LaunchedError):
        blockwise.gemm(a, a, strips, squares)
    # it has no scales of B per row
    both_strips = unwritten(a, a, strips, strips)
    assert cooperative.BLOCKWISE not in blockwise.candidates(both_strips, (False, False))
