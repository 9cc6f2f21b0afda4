"""Every configuration of the plain kernel, and its cuts of K. test_gemm has more."""

from dataclasses import replace

import pytest
import torch

from kernels.int4.gemm import int4_gemm
from kernels.int4.rule import INT4_PLAIN, Int4PlainConfig
from tests.kernels.int4.int4_cases import activations, error, weights


def product_error(config: Int4PlainConfig, tokens: int, device: torch.device) -> float:
    """Relative error of a product of weights with groups of 32 and zero points."""
    w = weights(100, 384, 32, device, zeros=True)
    x = activations(tokens, 384, device)
    return error(int4_gemm(x, w, config=config), x, w)


@pytest.mark.parametrize("config", INT4_PLAIN)
def test_the_configurations_are_right(config: Int4PlainConfig, device: torch.device) -> None:
    assert product_error(config, 20, device) < 8e-3


@pytest.mark.parametrize("split", [2, 3, 4])
def test_units_that_do_not_divide_by_the_splits(split: int, device: torch.device) -> None:
    assert product_error(replace(INT4_PLAIN[0], split=split), 5, device) < 8e-3
