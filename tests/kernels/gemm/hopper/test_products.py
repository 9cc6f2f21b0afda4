"""Products in Gluon on a Hopper GPU, in every tile, and what they ask of the GPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels.common.fp8_scales import new_block_scales
from kernels.gemm import axiswise, blockwise
from kernels.gemm.hopper import pingpong, staged_scales
from kernels.gemm.hopper.pipeline import check_registers
from kernels.gemm.hopper.staged_scales import StagedScalesConfig
from kernels.gemm.rule import MOST_FEW_ROWS, choose
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


@pytest.mark.parametrize(
    ("multiplying", "registers"), [(2, 232), (2, 240), (2, 216), (3, 152), (3, 160)]
)
def test_a_fetching_warpgroup_has_registers_left(multiplying: int, registers: int) -> None:
    check_registers(multiplying, registers)


@pytest.mark.parametrize(("multiplying", "registers"), [(2, 248), (2, 230), (3, 168)])
def test_registers_that_a_multiprocessor_lacks_are_refused(
    multiplying: int, registers: int
) -> None:
    with pytest.raises(AssertionError):
        check_registers(multiplying, registers)


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        (pingpong.PingpongConfig, {"m": 64}),
        (staged_scales.StagedScalesConfig, {"m": 192, "n": 256, "stages": 4}),
    ],
)
def test_tiles_that_a_kernel_lacks_are_refused(kind: type, sizes: dict[str, int]) -> None:
    with pytest.raises(AssertionError):
        kind(rate=1.0, **sizes)


# --- a tile per warpgroup ---

STAGES = pingpong.PINGPONG.stages
SHAPES = [
    *[(65, 1, 16), (130, 300, 272), (1000, 1000, 1008), (300, 333, 560)],
    # more tiles than programs, K shorter than the ring, as long, and longer
    *[(512, 128 * 140, 128 * steps) for steps in (1, STAGES - 1, STAGES, STAGES + 1, 40)],
]


@pytest.mark.gpu
@ON_HOPPER
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
@pytest.mark.parametrize("rowwise", [False, True])
def test_a_product_of_a_tile_per_warpgroup_is_right(m: int, n: int, k: int, rowwise: bool) -> None:
    device = torch.device("cuda")
    a, b = normal_fp8(m, k, device), normal_fp8(n, k, device, E5M2)
    scale_a = random_scales(m if rowwise else 1, device=device)
    scale_b = random_scales(n if rowwise else 1, device=device)
    filled = unwritten(a, b, scale_a, scale_b)
    pingpong.launch(filled)
    assert_close(filled.c, product(a, b, scale_a, scale_b), fast_k=k)


def test_fast_accumulation_on_hopper_alone_may_get_it(
    monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    launched = []
    monkeypatch.setattr(axiswise, "is_hopper", lambda _: True)
    monkeypatch.setattr(axiswise, "choose", lambda configs, *_: configs[-1])
    monkeypatch.setattr(pingpong, "launch", lambda _, config: launched.append(config))
    a, one = normal_fp8(256, 128, device), torch.ones((), device=device)
    axiswise.gemm(a, a, one, one)
    assert launched == [pingpong.PINGPONG]
    assert pingpong.PINGPONG not in axiswise.candidates("slow", a)


# --- scales per block that come with their stage ---

# more tiles than programs; K shorter than the ring, as long, and longer
STEPS = [(1024, 128 * 140, 128 * steps) for steps in (1, 3, 4, 7, 40)]


CONFIGS = pytest.mark.parametrize(
    ("config", "rows_b"),
    [(config, False) for config in staged_scales.SQUARES]
    + [(config, True) for config in staged_scales.STRIPS],
)


@pytest.mark.gpu
@ON_HOPPER
@pytest.mark.parametrize(("m", "n", "k"), RAGGED + STEPS)
@CONFIGS
def test_a_product_of_staged_scales_is_right(
    m: int, n: int, k: int, config: StagedScalesConfig, rows_b: bool
) -> None:
    check((m, n, k), config, rows_b, (E4M3, E4M3))


@pytest.mark.gpu
@ON_HOPPER
@pytest.mark.parametrize("types", [(E5M2, E4M3), (E4M3, E5M2), (E5M2, E5M2)])
@CONFIGS
def test_an_operand_may_be_e5m2(
    types: tuple[torch.dtype, torch.dtype], config: StagedScalesConfig, rows_b: bool
) -> None:
    check((300, 333, 560), config, rows_b, types)


def check(
    sizes: tuple[int, int, int],
    config: StagedScalesConfig,
    rows_b: bool,
    types: tuple[torch.dtype, torch.dtype],
) -> None:
    (m, n, k), device = sizes, torch.device("cuda")
    a, b = normal_fp8(m, k, device, types[0]), normal_fp8(n, k, device, types[1])
    scale_a = _transposed(m, k, device)
    scale_b = random_scales(-(-n // 128), -(-k // 128), device=device)
    if rows_b:
        scale_b = _transposed(n, k, device)
    filled = unwritten(a, b, scale_a, scale_b)
    staged_scales.launch(filled, config, rows_b=rows_b)
    assert_close(filled.c, dequantised(a, scale_a) @ dequantised(b, scale_b).t())


def _transposed(rows: int, k: int, device: torch.device) -> torch.Tensor:
    steps = -(-k // 128)
    return new_block_scales(rows, steps, device).copy_(random_scales(rows, steps, device=device))


class Launches:
    """Stands in for the kernel, and keeps the arguments of its launches."""

    def __init__(self) -> None:
        self.arguments: list[Any] = []

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *args, **named: self.arguments.append((args, named))


@pytest.mark.parametrize("rows_b", [False, True])
def test_scales_that_lie_otherwise_come_in_aligned_columns(
    rows_b: bool, monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    launches = Launches()
    monkeypatch.setattr(staged_scales, "_staged_scales_kernel", launches)
    monkeypatch.setattr(blockwise, "is_hopper", lambda _: True)
    monkeypatch.setattr(blockwise, "has_large_tiles", lambda _: True)
    monkeypatch.setattr(blockwise, "choose", lambda configs, *_: configs[-1])
    rows = MOST_FEW_ROWS + 5  # fewer go another way
    a = normal_fp8(rows, 272, device)
    strips, squares = _transposed(rows, 272, device), random_scales(1, 3, device=device)
    for scale_a in (strips, strips.contiguous()):
        blockwise.gemm(a, a, scale_a, scale_a if rows_b else squares)
    for args, named in launches.arguments:
        config = (staged_scales.STRIPS if rows_b else staged_scales.SQUARES)[-1]
        assert (named["CONFIG"], named["ROWS_B"]) == (config, rows_b)
        _, _, _, read_a, read_b, *_, step_a, row_b, step_b = args
        assert (step_a, row_b, step_b) == (rows + 3, 1 if rows_b else 3, rows + 3 if rows_b else 1)
        for read in (read_a, read_b) if rows_b else (read_a,):
            assert torch.equal(read.base.as_strided(strips.shape, strips.stride()), strips)
    was_kept = [args[3].base.data_ptr() == strips.data_ptr() for args, _ in launches.arguments]
    assert was_kept == [True, False]


@pytest.mark.gpu
@ON_HOPPER
@pytest.mark.parametrize("rows_b", [False, True])
def test_a_product_of_scales_in_rows_is_right_and_captured(rows_b: bool) -> None:
    (m, n, k), device = (2056, 4104, 1040), torch.device("cuda")
    a, b = normal_fp8(m, k, device), normal_fp8(n, k, device)
    scale_a = random_scales(m, -(-k // 128), device=device)
    scale_b = random_scales(n if rows_b else -(-n // 128), -(-k // 128), device=device)
    configs = blockwise.candidates(unwritten(a, b, scale_a, scale_b), (False, not rows_b))
    units = torch.cuda.get_device_properties(device).multi_processor_count
    assert isinstance(choose(configs, m, n, units), StagedScalesConfig)
    expected = dequantised(a, scale_a) @ dequantised(b, scale_b).t()
    for _ in range(2):
        assert_close(blockwise.gemm(a, b, scale_a, scale_b), expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = blockwise.gemm(a, b, scale_a, scale_b)
    graph.replay()
    assert_close(c, expected)


def test_scales_are_read_as_one_row_of_whole_columns(device: torch.device) -> None:
    scale_a = random_scales(3, 12, device=device).t()[:10]
    flat = staged_scales.flat_descriptor(scale_a, 64)
    assert flat.shape == [2 * 12 + 10]
    assert torch.equal(flat.base[12:22], scale_a[:, 1])
