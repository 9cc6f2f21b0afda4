"""Products of few rows, with K in one piece and split, in the interpreter or on the GPU."""

import itertools

import pytest
import torch

from kernels.common.counters import zeroed_counters
from kernels.gemm import axiswise, operands, rule, skinny
from tests.kernels.gemm.gemm_reference import (
    check_axiswise,
    check_blockwise,
    normal_fp8,
)

SHAPES = [(1, 1, 16), (1, 70, 1040), (16, 64, 512), (17, 100, 528), (64, 3, 2064)]


@pytest.fixture(params=[1, 8])
def one_or_eight_units(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """K stays in one piece on one compute unit, and is split on eight."""
    monkeypatch.setattr(operands, "compute_units", lambda *_: request.param)


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("one_or_eight_units")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rowwise", [False, True])
@pytest.mark.parametrize("accumulation", ["fast", "slow"])
def test_a_product_is_right(
    shape: tuple[int, int, int],
    rowwise: bool,
    accumulation: axiswise.Accumulation,
    device: torch.device,
) -> None:
    check_axiswise(shape, (rowwise, rowwise), accumulation, device)


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("one_or_eight_units")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("squares", [*itertools.product((False, True), repeat=2)])
def test_a_product_of_blocks_is_right(
    shape: tuple[int, int, int], squares: tuple[bool, bool], device: torch.device
) -> None:
    check_blockwise(shape, squares, device)


def test_a_split_product_is_the_same_every_time_and_leaves_its_counters_at_zero(
    monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    lent: list[torch.Tensor] = []

    def remember(count: int, place: torch.device) -> torch.Tensor:
        lent.append(zeroed_counters(count, place))
        return lent[-1]

    monkeypatch.setattr(operands, "compute_units", lambda *_: 16)
    monkeypatch.setattr(skinny, "zeroed_counters", remember)
    a, b, one = (
        normal_fp8(3, 2048, device),
        normal_fp8(130, 2048, device),
        torch.ones((), device=device),
    )
    first = axiswise.gemm(a, b, one, one)
    for _ in range(3):
        assert torch.equal(axiswise.gemm(a, b, one, one), first)
    assert len(lent) == 4
    assert all(int(counters.abs().sum()) == 0 for counters in lent)


@pytest.mark.parametrize("units", [1, 7, 132, 1000])
@pytest.mark.parametrize(("n", "k"), [(1, 16), (64, 128), (3584, 8192), (28672, 8192), (100, 1040)])
def test_a_split_leaves_no_program_without_work(n: int, k: int, units: int) -> None:
    config = rule.FEW_ROWS
    split = rule.split_of_k(config, n, k, units)
    steps = -(-k // config.k)
    share = -(-steps // split)
    assert split >= 1
    assert (split - 1) * share < steps
    assert split == 1 or share >= config.least_steps
    tiles = -(-n // config.n)
    assert split == 1 or tiles * split <= config.programs_per_unit * units


def test_a_weight_of_a_layer_is_read_by_all_units() -> None:
    config = rule.FEW_ROWS
    programs = 3584 // config.n * rule.split_of_k(config, 3584, 8192, 132)
    assert 132 <= programs <= 132 * config.programs_per_unit
