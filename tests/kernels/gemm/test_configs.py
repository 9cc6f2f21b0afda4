"""Which tiles a product gets."""

from collections.abc import Callable, Sequence

import pytest
import torch

from kernels.common.fp8_scales import new_block_scales
from kernels.gemm import axiswise as fp8_gemm
from kernels.gemm import blockwise as fp8_gemm_blockwise
from kernels.gemm import configs as gemm_configs
from kernels.gemm.configs import AnyConfig, BlocksConfig, GemmConfig, PingpongConfig
from kernels.gemm.hopper import cooperative as fp8_gemm_hopper

CHOOSE = gemm_configs.choose
ROWS = gemm_configs.SKINNY_ROWS + 1


class ChosenError(Exception):
    """Raised in place of a launch."""


@pytest.mark.parametrize("size", [2048, 4096, 8192, 16384])
def test_large_products_get_the_largest_tiles(size: int) -> None:
    chosen = gemm_configs.choose(gemm_configs.FAST, size, size, 132)
    assert chosen.m * chosen.n == 128 * 256


def test_products_of_few_tiles_get_small_ones_so_that_all_units_work() -> None:
    chosen = gemm_configs.choose(gemm_configs.FAST, 1024, 1024, 132)
    assert (1024 // chosen.m) * (1024 // chosen.n) >= 64


def test_a_tile_of_blocks_lies_within_one_square() -> None:
    for config in gemm_configs.BLOCKWISE + gemm_configs.SMALL_BLOCKWISE:
        assert 128 % config.m == 0
        assert 128 % config.n == 0
        assert config.k == 128


def config_of(gemm: Callable[..., torch.Tensor], size: int, *scales: torch.Tensor) -> AnyConfig:
    """What is chosen among the real candidates for size x size on a Hopper of 132 SMs."""
    found: list[AnyConfig] = []

    def chosen(configs: Sequence[AnyConfig], *_: int) -> AnyConfig:
        found.append(CHOOSE(configs, size, size, 132))
        raise ChosenError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fp8_gemm_hopper, "fits", lambda _: True)
        patch.setattr(gemm_configs, "choose", chosen)
        for module in (fp8_gemm, fp8_gemm_blockwise):
            patch.setattr(module, "has_large_tiles", lambda _: True)
        operand = torch.zeros(ROWS, 128, device=scales[0].device).to(torch.float8_e4m3fn)
        with pytest.raises(ChosenError):
            gemm(operand, operand, *scales)
    return found[0]


@pytest.mark.parametrize(("size", "wanted"), [(8192, PingpongConfig), (1024, GemmConfig)])
def test_a_product_with_fast_sums_gets(size: int, wanted: type, device: torch.device) -> None:
    one = torch.ones((), device=device)
    config = config_of(fp8_gemm.gemm, size, one, one)
    assert isinstance(config, wanted)
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
    config = config_of(fp8_gemm_blockwise.gemm, size, strips, strips if rows_b else squares)
    assert isinstance(config, BlocksConfig)
    assert (config.m, config.n) == tile
