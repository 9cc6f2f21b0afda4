"""Products with a scale per tensor or per row, in the interpreter or on the GPU."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from kernels.gemm import axiswise, blockwise, operands, rule
from kernels.gemm.axiswise import Accumulation
from kernels.gemm.rule import GemmConfig
from tests.kernels.gemm.gemm_reference import (
    E4M3,
    E5M2,
    assert_close,
    check_axiswise,
    normal_fp8,
    product,
    random_scales,
    unwritten,
)

# (m, n, k): m beyond what few rows are, ragged in every tile, one column, the smallest k
SHAPES = [(65, 1, 16), (70, 9, 48), (130, 300, 272), (128, 256, 128), (200, 130, 400)]
ACCUMULATIONS: tuple[Accumulation, ...] = ("fast", "slow")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("accumulation", ACCUMULATIONS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rowwise", [(False, False), (True, True), (True, False), (False, True)])
def test_a_product_is_right(
    shape: tuple[int, int, int],
    rowwise: tuple[bool, bool],
    accumulation: Accumulation,
    device: torch.device,
) -> None:
    check_axiswise(shape, rowwise, accumulation, device)


@pytest.mark.parametrize("config", rule.FAST + rule.SLOW + rule.SMALL)
def test_every_config_is_right(config: GemmConfig, device: torch.device) -> None:
    m, n, k = config.m + 3, config.n + 5, config.k + 16
    a, b = normal_fp8(m, k, device), normal_fp8(n, k, device)
    scale_a, scale_b = random_scales(m, device=device), random_scales(n, device=device)
    for promote in (0, 128):
        filled = unwritten(a, b, scale_a, scale_b)
        axiswise.launch(filled, config, promote=promote)
        assert_close(filled.c, product(a, b, scale_a, scale_b), fast_k=promote or k)


@pytest.mark.parametrize("units", [1, 3, 100])
def test_programs_share_the_tiles(
    units: int, monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    monkeypatch.setattr(operands, "compute_units", lambda *_: units)
    config = replace(rule.FAST[-1], group=2)
    monkeypatch.setattr(axiswise, "FAST", (config,))
    a, b = normal_fp8(200, 32, device), normal_fp8(290, 32, device)
    one = torch.ones((), device=device)
    assert_close(axiswise.gemm(a, b, one, one), product(a, b, one, one), fast_k=a.shape[1])


@pytest.mark.parametrize("types", [*itertools.product((E4M3, E5M2), repeat=2)])
def test_both_types_mix(types: tuple[torch.dtype, torch.dtype], device: torch.device) -> None:
    for m in (5, 80):
        a, b = normal_fp8(m, 96, device, types[0]), normal_fp8(40, 96, device, types[1])
        one = torch.ones((), device=device)
        assert_close(axiswise.gemm(a, b, one, one), product(a, b, one, one), fast_k=a.shape[1])


def test_rows_of_operands_may_lie_apart(device: torch.device) -> None:
    a, b = normal_fp8(70, 256, device)[:, 16:112], normal_fp8(20, 128, device)[:, 32:]
    one = torch.ones((), device=device)
    assert_close(axiswise.gemm(a, b, one, one), product(a, b, one, one), fast_k=a.shape[1])


def test_zeros_give_zeros_and_a_nan_stays_in_its_row(device: torch.device) -> None:
    a, b = normal_fp8(80, 64, device), normal_fp8(24, 64, device)
    a[3] = 0
    scale_a, scale_b = random_scales(80, device=device), random_scales(24, device=device)
    if device.type == "cuda":  # where values of scales are not read
        scale_a[7] = float("nan")
    else:
        a.view(torch.uint8)[7, 5] = 0x7F  # NaN in e4m3
    c = axiswise.gemm(a, b, scale_a, scale_b)
    assert bool((c[3] == 0).all())
    assert bool(c[7].isnan().all())
    assert int(c.isnan().any(dim=1).sum()) == 1


@pytest.mark.parametrize("gemm", [axiswise.gemm, blockwise.gemm])
@pytest.mark.parametrize(("m", "n", "k"), [(0, 8, 16), (8, 0, 16), (70, 5, 0), (3, 5, 0)])
def test_products_of_nothing(
    gemm: Callable[..., torch.Tensor], m: int, n: int, k: int, device: torch.device
) -> None:
    steps = -(-k // 128)
    scales = torch.ones(m, steps, device=device), torch.ones(-(-n // 128), steps, device=device)
    one = torch.ones((), device=device)
    by = (one, one) if gemm is axiswise.gemm else scales
    c = gemm(normal_fp8(m, k, device), normal_fp8(n, k, device), *by)
    assert c.shape == (m, n)
    assert bool((c == 0).all())


@pytest.mark.parametrize("n", [1, 7, 8, 9, 64])
def test_rows_of_the_output_begin_at_whole_units(n: int, device: torch.device) -> None:
    one = torch.ones((), device=device)
    c = axiswise.gemm(normal_fp8(66, 32, device), normal_fp8(n, 32, device), one, one)
    assert c.stride(0) % 8 == 0
    assert c.stride(1) == 1
    assert c.is_contiguous() == (n % 8 == 0)


def test_an_unknown_accumulation_is_refused(device: torch.device) -> None:
    one = torch.ones((), device=device)
    x = normal_fp8(4, 16, device)
    with pytest.raises(ValueError, match=r"^accumulation: wanted fast or slow, got exact$"):
        axiswise.gemm(x, x, one, one, accumulation="exact")  # type: ignore[arg-type]
