"""Every configuration of the plain kernel, and its cuts of K; more in test_int4_gemm."""

from dataclasses import replace

import pytest
import torch

from kernels.int4 import plain as int4_plain
from kernels.int4 import plans as int4_plans
from kernels.int4 import workspace as int4_workspace
from kernels.int4.configs import INT4_PLAIN, Int4PlainConfig
from tests.kernels.int4.int4_cases import activations, error, weights


def product(config: Int4PlainConfig, tokens: int, device: torch.device) -> float:
    w = weights(100, 384, 32, device, zeros=True)
    x = activations(tokens, 384, device)
    out = x.new_empty(tokens, 100)
    space = int4_workspace.allocate(*int4_plans.needs(config, w, tokens), device)
    int4_plain.launch(config, x, w, out, space)
    return error(out, x, w)


@pytest.mark.parametrize("config", INT4_PLAIN)
def test_the_configurations_are_right(config: Int4PlainConfig, device: torch.device) -> None:
    assert product(config, 20, device) < 8e-3


@pytest.mark.parametrize("split", [2, 3, 4])
def test_units_that_do_not_divide_by_the_splits(split: int, device: torch.device) -> None:
    assert product(replace(INT4_PLAIN[0], split=split), 5, device) < 8e-3
