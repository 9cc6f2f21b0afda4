"""Products in the interpreter or on a GPU: scales of tensors and rows, of blocks; few rows."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from kernels.cast import blocks
from kernels.common.counters import zeroed_counters
from kernels.gemm import axiswise, blockwise, operands, rule, skinny
from kernels.gemm.axiswise import Accumulation
from kernels.gemm.rule import GemmConfig
from tests.kernels.gemm.gemm_reference import (
    E4M3,
    E5M2,
    assert_close,
    block_scales,
    check_axiswise,
    check_blockwise,
    dequantised,
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


# --- scales per block of 128 columns ---

SHAPES_OF_BLOCKS = [(1, 200, 272), (65, 1, 16), (130, 1, 144), (140, 150, 272)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", SHAPES_OF_BLOCKS)
@pytest.mark.parametrize("squares", [*itertools.product((False, True), repeat=2)])
def test_a_product_of_blocks_is_right(
    shape: tuple[int, int, int], squares: tuple[bool, bool], device: torch.device
) -> None:
    check_blockwise(shape, squares, device)


@pytest.mark.parametrize("config", rule.BLOCKS + rule.SMALL_BLOCKS)
def test_every_config_of_blocks_is_right(config: GemmConfig, device: torch.device) -> None:
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


# --- few rows, with K in one piece and split ---

FEW_ROWS = [(1, 1, 16), (1, 70, 1040), (16, 64, 512), (17, 100, 528), (64, 3, 2064)]


@pytest.fixture(params=[1, 8])
def one_or_eight_units(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """K stays in one piece on one compute unit, and is split on eight."""
    monkeypatch.setattr(operands, "compute_units", lambda *_: request.param)


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("one_or_eight_units")
@pytest.mark.parametrize("shape", FEW_ROWS)
@pytest.mark.parametrize("rowwise", [False, True])
@pytest.mark.parametrize("accumulation", ["fast", "slow"])
def test_a_product_of_few_rows_is_right(
    shape: tuple[int, int, int],
    rowwise: bool,
    accumulation: Accumulation,
    device: torch.device,
) -> None:
    check_axiswise(shape, (rowwise, rowwise), accumulation, device)


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("one_or_eight_units")
@pytest.mark.parametrize("shape", FEW_ROWS)
@pytest.mark.parametrize("squares", [*itertools.product((False, True), repeat=2)])
def test_a_product_of_few_rows_and_blocks_is_right(
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
