"""Products in Gluon on a Hopper GPU, ragged, and who gets them."""

from typing import Any

import pytest
import torch

from kernels.gemm import axiswise as fp8_gemm
from kernels.gemm import blockwise as fp8_gemm_blockwise
from kernels.gemm import configs as gemm_configs
from kernels.gemm.hopper import cooperative as fp8_gemm_hopper
from tests.kernels.gemm.gemm_reference import (
    E5M2,
    assert_close,
    dequantised,
    drawn,
    product,
    scales,
)

SHAPES = [(65, 1, 16), (130, 300, 272), (1000, 1000, 1008), (300, 333, 560)]
HOPPER = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9,
    reason="Gluon's products run on Hopper GPUs alone",
)


@pytest.mark.gpu
@HOPPER
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
@pytest.mark.parametrize("rowwise", [False, True])
def test_a_product_is_right(m: int, n: int, k: int, rowwise: bool) -> None:
    device = torch.device("cuda")
    a, b = drawn(m, k, device), drawn(n, k, device, E5M2)
    scale_a = scales(m if rowwise else 1, device=device)
    scale_b = scales(n if rowwise else 1, device=device)
    c = torch.empty(m, -(-n // 8) * 8, dtype=torch.bfloat16, device=device)[:, :n].fill_(9)
    fp8_gemm_hopper.launch(a, b, c, scale_a, scale_b)
    assert_close(c, product(a, b, scale_a, scale_b), fast_k=128)


@pytest.mark.gpu
@HOPPER
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_a_blockwise_product_is_right(m: int, n: int, k: int) -> None:
    device = torch.device("cuda")
    a, b = drawn(m, k, device), drawn(n, k, device)
    scale_a = scales(m, -(-k // 128), device=device)
    scale_b = scales(-(-n // 128), -(-k // 128), device=device)
    c = torch.empty(m, -(-n // 8) * 8, dtype=torch.bfloat16, device=device)[:, :n].fill_(9)
    fp8_gemm_hopper.launch_blockwise(a, b, c, scale_a, scale_b)
    assert_close(c, dequantised(a, scale_a) @ dequantised(b, scale_b).t())


class LaunchedError(Exception):
    """A launch that a test caught."""


def test_on_hopper_it_gets_the_products_that_it_is_rated_best_at(
    monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    def caught(*arguments: Any, **named: Any) -> None:
        raise LaunchedError

    monkeypatch.setattr(fp8_gemm_hopper, "fits", lambda _: True)
    monkeypatch.setattr(fp8_gemm_hopper, "_launch", caught)
    best = gemm_configs.HOPPER["slow"]
    monkeypatch.setattr(gemm_configs, "choose", lambda configs, *_: configs[-1])
    a, b, one = drawn(256, 128, device), drawn(256, 128, device), torch.ones((), device=device)
    assert best in fp8_gemm._candidates("slow", a)
    with pytest.raises(LaunchedError):
        fp8_gemm.gemm(a, b, one, one, accumulation="slow")
    squares, strips = torch.ones(2, 1, device=device), torch.ones(256, 1, device=device)
    with pytest.raises(LaunchedError):
        fp8_gemm_blockwise.gemm(a, b, strips, squares)
    # it has no scales of B per row
    assert gemm_configs.HOPPER["blocks"] not in fp8_gemm_blockwise._on_hopper(strips, strips)


def test_no_other_device_gets_it(device: torch.device) -> None:
    assert not fp8_gemm_hopper.fits(torch.zeros(1))
