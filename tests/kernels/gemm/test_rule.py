"""Which tiles a product gets."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch

from kernels.common.fp8_scales import new_block_scales
from kernels.gemm import axiswise, blockwise
from kernels.gemm.hopper.pingpong import PingpongConfig
from kernels.gemm.hopper.staged_scales import StagedScalesConfig
from kernels.gemm.rule import (
    BLOCKS,
    FAST,
    MOST_FEW_ROWS,
    SMALL_BLOCKS,
    GemmConfig,
    choose,
)

ROWS = MOST_FEW_ROWS + 1


class ChosenError(Exception):
    """Raised in place of a launch."""


@pytest.mark.parametrize("size", [2048, 4096, 8192, 16384])
def test_large_products_get_the_largest_tiles(size: int) -> None:
    chosen = choose(FAST, size, size, 132)
    assert chosen.m * chosen.n == 128 * 256


def test_products_of_few_tiles_get_small_ones_so_that_all_units_work() -> None:
    chosen = choose(FAST, 1024, 1024, 132)
    assert (1024 // chosen.m) * (1024 // chosen.n) >= 64


def test_a_tile_of_blocks_lies_within_one_square() -> None:
    for config in BLOCKS + SMALL_BLOCKS:
        assert 128 % config.m == 0
        assert 128 % config.n == 0
        assert config.k == 128


def config_of(
    module: ModuleType, gemm: Callable[..., torch.Tensor], size: int, *scales: torch.Tensor
) -> Any:
    """What is chosen among the real candidates for size x size on a Hopper of 132 SMs."""
    chosen: list[Any] = []

    def note_choice(configs: Sequence[Any], *_: int) -> Any:
        chosen.append(choose(configs, size, size, 132))
        raise ChosenError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "is_hopper", lambda _: True)
        patch.setattr(module, "has_large_tiles", lambda _: True)
        patch.setattr(module, "choose", note_choice)
        operand = torch.zeros(ROWS, 128, device=scales[0].device).to(torch.float8_e4m3fn)
        with pytest.raises(ChosenError):
            gemm(operand, operand, *scales)
    return chosen[0]


@pytest.mark.parametrize(("size", "kind"), [(8192, PingpongConfig), (1024, GemmConfig)])
def test_a_product_with_fast_sums_gets(size: int, kind: Any, device: torch.device) -> None:
    one = torch.ones((), device=device)
    config = config_of(axiswise, axiswise.gemm, size, one, one)
    assert type(config) is kind
    assert (config.m, config.n) == ((64, 128) if size == 1024 else (128, 128))


@pytest.mark.parametrize(
    ("rows_b", "size", "tile"),
    [
        (False, 4096, (128, 256)),
        (False, 8192, (192, 128)),
        (True, 4096, (128, 128)),
        (True, 8192, (192, 128)),
    ],
)
def test_a_product_of_blocks_gets(
    rows_b: bool, size: int, tile: tuple[int, int], device: torch.device
) -> None:
    strips = new_block_scales(ROWS, 1, device).fill_(1)
    squares = torch.ones(-(-ROWS // 128), 1, device=device)
    config = config_of(blockwise, blockwise.gemm, size, strips, strips if rows_b else squares)
    assert isinstance(config, StagedScalesConfig)
    assert (config.m, config.n) == tile


@pytest.mark.parametrize("wrong", [{"m": 100}, {"k": 8}, {"parts": 3}, {"n": 16, "parts": 2}])
def test_sizes_that_no_kernel_takes_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(AssertionError):
        replace(FAST[0], **wrong)  # type: ignore[arg-type]
