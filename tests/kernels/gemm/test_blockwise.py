"""Products with scales per block of 128 columns, in the interpreter or on the GPU."""

import itertools

import pytest
import torch

from kernels.cast import blocks
from kernels.gemm import blockwise, rule
from kernels.gemm.rule import GemmConfig
from tests.kernels.gemm.gemm_reference import (
    assert_close,
    block_scales,
    check_blockwise,
    dequantised,
    normal_fp8,
    random_scales,
    unwritten,
)

SHAPES = [(1, 200, 272), (65, 1, 16), (130, 1, 144), (140, 150, 272)]  # few rows: test_skinny


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("squares", [*itertools.product((False, True), repeat=2)])
def test_a_product_is_right(
    shape: tuple[int, int, int], squares: tuple[bool, bool], device: torch.device
) -> None:
    check_blockwise(shape, squares, device)


@pytest.mark.parametrize("config", rule.BLOCKS + rule.SMALL_BLOCKS)
def test_every_config_is_right(config: GemmConfig, device: torch.device) -> None:
    m, n, k = config.m + 3, 128 + 5, 272
    a, b = normal_fp8(m, k, device), normal_fp8(n, k, device)
    scale_a, scale_b = block_scales(m, k, False, device), block_scales(n, k, True, device)
    filled = unwritten(a, b, scale_a, scale_b)
    blockwise.launch(filled, config, squares=(False, True))
    assert_close(filled.c, dequantised(a, scale_a) @ dequantised(b, scale_b).t())


def test_scales_may_lie_transposed(device: torch.device) -> None:
    a, b = normal_fp8(80, 272, device), normal_fp8(50, 272, device)
    scale_a, scale_b = (
        random_scales(3, 80, device=device).t(),
        random_scales(3, 1, device=device).t(),
    )
    expected = dequantised(a, scale_a) @ dequantised(b, scale_b).t()
    assert_close(blockwise.gemm(a, b, scale_a, scale_b), expected)


def test_the_product_of_casts_is_that_of_what_was_cast(device: torch.device) -> None:
    x = torch.randn(66, 256, device=device, dtype=torch.bfloat16)
    w = torch.randn(140, 256, device=device, dtype=torch.bfloat16)
    (a, scale_a), (b, scale_b) = blocks.blockwise_1x128(x), blocks.blockwise_128x128(w)
    c = blockwise.gemm(a, b, scale_a, scale_b)
    expected = x.double() @ w.double().t()
    # rounding of both operands to 3 bits: 2 ** 0.5 * 2.6 %
    assert float((c.double() - expected).norm() / expected.norm()) < 0.045
