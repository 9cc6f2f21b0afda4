"""Products with scales per block of 128 columns, in the interpreter or on the GPU."""

import itertools

import pytest
import torch

from kernels.cast import blocks as cast_blocks
from kernels.gemm import blockwise as fp8_gemm_blockwise
from kernels.gemm import configs as gemm_configs
from tests.kernels.gemm.gemm_reference import assert_close, dequantised, drawn, scales

SHAPES = [
    (1, 200, 272),
    (65, 1, 16),
    (130, 1, 144),
    (260, 300, 272),
]  # few rows: test_fp8_gemm_skinny


def scaled(rows: int, k: int, square: bool, device: torch.device) -> torch.Tensor:
    return scales(-(-rows // 128) if square else rows, -(-k // 128), device=device)


@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
@pytest.mark.parametrize("squares", [*itertools.product((False, True), repeat=2)])
def test_a_product_is_right(
    m: int, n: int, k: int, squares: tuple[bool, bool], device: torch.device
) -> None:
    a, b = drawn(m, k, device), drawn(n, k, device)
    scale_a, scale_b = scaled(m, k, squares[0], device), scaled(n, k, squares[1], device)
    expected = dequantised(a, scale_a) @ dequantised(b, scale_b).t()
    assert_close(fp8_gemm_blockwise.gemm(a, b, scale_a, scale_b), expected)


@pytest.mark.parametrize("config", gemm_configs.BLOCKWISE + gemm_configs.SMALL_BLOCKWISE)
def test_every_config_is_right(config: gemm_configs.GemmConfig, device: torch.device) -> None:
    m, n, k = 2 * config.m + 3, 128 + config.n + 5, 272
    a, b = drawn(m, k, device), drawn(n, k, device)
    scale_a, scale_b = scaled(m, k, False, device), scaled(n, k, True, device)
    c = torch.empty(m, n + 3, dtype=torch.bfloat16, device=device)[:, :n].fill_(9)
    fp8_gemm_blockwise.launch(a, b, c, scale_a, scale_b, config, squares=(False, True))
    assert_close(c, dequantised(a, scale_a) @ dequantised(b, scale_b).t())


def test_scales_may_lie_transposed(device: torch.device) -> None:
    a, b = drawn(80, 272, device), drawn(50, 272, device)
    scale_a, scale_b = scales(3, 80, device=device).t(), scales(3, 1, device=device).t()
    expected = dequantised(a, scale_a) @ dequantised(b, scale_b).t()
    assert_close(fp8_gemm_blockwise.gemm(a, b, scale_a, scale_b), expected)


def test_the_product_of_casts_is_that_of_what_was_cast(device: torch.device) -> None:
    x = torch.randn(70, 256, device=device, dtype=torch.bfloat16)
    w = torch.randn(140, 256, device=device, dtype=torch.bfloat16)
    (a, scale_a), (b, scale_b) = cast_blocks.blockwise_1x128(x), cast_blocks.blockwise_128x128(w)
    c = fp8_gemm_blockwise.gemm(a, b, scale_a, scale_b)
    expected = x.double() @ w.double().t()
    # rounding of both operands to 3 bits: 2 ** 0.5 * 2.6 %
    assert float((c.double() - expected).norm() / expected.norm()) < 0.045


@pytest.mark.parametrize(("m", "n", "k"), [(0, 8, 16), (8, 0, 16), (3, 5, 0)])
def test_products_of_nothing(m: int, n: int, k: int, device: torch.device) -> None:
    a, b = drawn(m, k, device), drawn(n, k, device)
    scale_a, scale_b = scaled(m, k, False, device), scaled(n, k, True, device)
    c = fp8_gemm_blockwise.gemm(a, b, scale_a, scale_b)
    assert c.shape == (m, n)
    assert bool((c == 0).all())
