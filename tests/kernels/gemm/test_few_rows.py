"""Products of few rows, with K in one piece and split, in the interpreter or on the GPU."""

import itertools

import pytest
import torch

from kernels.common import counters as split_counters
from kernels.gemm import axiswise as fp8_gemm
from kernels.gemm import blockwise as fp8_gemm_blockwise
from kernels.gemm import configs as gemm_configs
from kernels.gemm import few_rows as fp8_gemm_skinny
from tests.kernels.gemm.gemm_reference import assert_close, dequantised, drawn, product, scales

SHAPES = [(1, 1, 16), (1, 70, 1040), (16, 64, 512), (17, 100, 528), (64, 3, 2064)]


@pytest.mark.parametrize("units", [1, 8])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rowwise", [False, True])
@pytest.mark.parametrize("accumulation", ["fast", "slow"])
def test_a_product_is_right(
    shape: tuple[int, int, int],
    rowwise: bool,
    accumulation: fp8_gemm.Accumulation,
    units: int,
    monkeypatch: pytest.MonkeyPatch,
    device: torch.device,
) -> None:
    monkeypatch.setattr(fp8_gemm_skinny, "compute_units", lambda _: units)
    m, n, k = shape
    a, b = drawn(m, k, device), drawn(n, k, device)
    scale_a = scales(m if rowwise else 1, device=device)
    scale_b = scales(n if rowwise else 1, device=device)
    c = fp8_gemm.gemm(a, b, scale_a, scale_b, accumulation=accumulation)
    assert_close(c, product(a, b, scale_a, scale_b), fast_k=k if accumulation == "fast" else 128)


@pytest.mark.parametrize("units", [1, 8])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("squares", [*itertools.product((False, True), repeat=2)])
def test_a_product_of_blocks_is_right(
    shape: tuple[int, int, int],
    squares: tuple[bool, bool],
    units: int,
    monkeypatch: pytest.MonkeyPatch,
    device: torch.device,
) -> None:
    monkeypatch.setattr(fp8_gemm_skinny, "compute_units", lambda _: units)
    m, n, k = shape
    a, b = drawn(m, k, device), drawn(n, k, device)
    scale_a, scale_b = (
        scales(-(-rows // 128) if square else rows, -(-k // 128), device=device)
        for rows, square in zip((m, n), squares, strict=True)
    )
    c = fp8_gemm_blockwise.gemm(a, b, scale_a, scale_b)
    assert_close(c, dequantised(a, scale_a) @ dequantised(b, scale_b).t())


def test_a_split_product_is_the_same_every_time_and_leaves_its_counters_at_zero(
    monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    lent: list[torch.Tensor] = []

    def remembered(count: int, place: torch.device) -> torch.Tensor:
        lent.append(split_counters.zeroed_counters(count, place))
        return lent[-1]

    monkeypatch.setattr(fp8_gemm_skinny, "compute_units", lambda _: 16)
    monkeypatch.setattr(fp8_gemm_skinny, "zeroed_counters", remembered)
    a, b, one = drawn(3, 2048, device), drawn(130, 2048, device), torch.ones((), device=device)
    first = fp8_gemm.gemm(a, b, one, one)
    for _ in range(3):
        assert torch.equal(fp8_gemm.gemm(a, b, one, one), first)
    assert len(lent) == 4
    assert all(int(counters.abs().sum()) == 0 for counters in lent)


@pytest.mark.parametrize("units", [1, 7, 132, 1000])
@pytest.mark.parametrize(("n", "k"), [(1, 16), (64, 128), (3584, 8192), (28672, 8192), (100, 1040)])
def test_a_split_leaves_no_program_without_work(n: int, k: int, units: int) -> None:
    how = gemm_configs.SKINNY
    split = gemm_configs.split_of(how, n, k, units)
    steps = -(-k // how.k)
    share = -(-steps // split)
    assert split >= 1
    assert (split - 1) * share < steps
    assert split == 1 or share >= how.least_steps
    tiles = -(-n // how.n)
    assert split == 1 or tiles * split <= how.programs_per_unit * units


def test_a_weight_of_a_layer_is_read_by_all_units() -> None:
    how = gemm_configs.SKINNY
    programs = 3584 // how.n * gemm_configs.split_of(how, 3584, 8192, 132)
    assert 132 <= programs <= 132 * how.programs_per_unit
