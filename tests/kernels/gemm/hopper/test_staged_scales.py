"""Products in Gluon on a Hopper GPU with scales per block, in every tile of the table."""

import pytest
import torch

from kernels.common.fp8_scales import new_block_scales
from kernels.gemm import blockwise as fp8_gemm_blockwise
from kernels.gemm import configs as gemm_configs
from kernels.gemm.configs import BlocksConfig
from kernels.gemm.hopper import cooperative as fp8_gemm_hopper
from kernels.gemm.hopper import staged_scales as fp8_gemm_blocks
from tests.kernels.gemm.gemm_reference import E4M3, E5M2, assert_close, dequantised, drawn, scales

SHAPES = [
    *[(65, 1, 16), (130, 300, 272), (1000, 1000, 1008), (300, 333, 560)],
    # more tiles than programs, K shorter than the ring, as long, and longer
    *[(1024, 128 * 140, 128 * steps) for steps in (1, 3, 4, 7, 40)],
]


ON_HOPPER = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9,
    reason="Gluon's products run on Hopper GPUs alone",
)
CONFIGS = pytest.mark.parametrize(
    ("config", "rows_b"),
    [(how, False) for how in gemm_configs.BLOCKS]
    + [(how, True) for how in gemm_configs.BLOCKS_ROWS],
)


@pytest.mark.gpu
@ON_HOPPER
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
@CONFIGS
def test_a_product_is_right(m: int, n: int, k: int, config: BlocksConfig, rows_b: bool) -> None:
    check((m, n, k), config, rows_b, (E4M3, E4M3))


@pytest.mark.gpu
@ON_HOPPER
@pytest.mark.parametrize("types", [(E5M2, E4M3), (E4M3, E5M2), (E5M2, E5M2)])
@CONFIGS
def test_an_operand_may_be_e5m2(
    types: tuple[torch.dtype, torch.dtype], config: BlocksConfig, rows_b: bool
) -> None:
    check((300, 333, 560), config, rows_b, types)


def check(
    sizes: tuple[int, int, int],
    config: BlocksConfig,
    rows_b: bool,
    types: tuple[torch.dtype, torch.dtype],
) -> None:
    (m, n, k), device = sizes, torch.device("cuda")
    a, b = drawn(m, k, device, types[0]), drawn(n, k, device, types[1])
    scale_a = _transposed(m, k, device)
    scale_b = scales(-(-n // 128), -(-k // 128), device=device)
    if rows_b:
        scale_b = _transposed(n, k, device)
    c = torch.empty(m, -(-n // 8) * 8, dtype=torch.bfloat16, device=device)[:, :n].fill_(9)
    fp8_gemm_blocks.launch(a, b, c, scale_a, scale_b, rows_b=rows_b, config=config)
    assert_close(c, dequantised(a, scale_a) @ dequantised(b, scale_b).t())


def _transposed(rows: int, k: int, device: torch.device) -> torch.Tensor:
    made = new_block_scales(rows, -(-k // 128), device)
    assert fp8_gemm_blocks.takes(made)
    return made.copy_(scales(rows, -(-k // 128), device=device))


def test_transposed_scales_alone_may_get_it(
    monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    launched = []
    monkeypatch.setattr(fp8_gemm_hopper, "fits", lambda _: True)
    monkeypatch.setattr(
        gemm_configs,
        "choose",
        lambda configs, *_: next((c for c in configs if isinstance(c, BlocksConfig)), configs[0]),
    )
    monkeypatch.setattr(
        fp8_gemm_blocks,
        "launch",
        lambda *_, rows_b, config: launched.append((rows_b, config)),
    )
    rows = gemm_configs.SKINNY_ROWS + 4  # fewer go another way
    a, b = drawn(rows, 272, device), drawn(rows, 272, device)
    strips, squares = _transposed(rows, 272, device), scales(1, 3, device=device)
    fp8_gemm_blockwise.gemm(a, b, strips, squares)
    fp8_gemm_blockwise.gemm(a, b, strips, strips)
    known = [(False, gemm_configs.BLOCKS[0]), (True, gemm_configs.BLOCKS_ROWS[0])]
    assert launched == known
    for scale_a, scale_b in ((strips.contiguous(), squares), (strips, strips.contiguous())):
        fp8_gemm_blockwise.gemm(a, b, scale_a, scale_b)
    assert launched == known


@pytest.mark.parametrize(
    ("steps", "rows", "taken"), [(3, 8, True), (3, 12, True), (3, 10, False), (1, 10, True)]
)
def test_columns_of_scales_have_to_be_aligned(
    steps: int, rows: int, taken: bool, device: torch.device
) -> None:
    assert fp8_gemm_blocks.takes(scales(steps, rows, device=device).t()) == taken


def test_scales_are_read_as_one_row_of_whole_columns(device: torch.device) -> None:
    scale_a = scales(3, 12, device=device).t()[:10]
    flat = fp8_gemm_blocks._flat(scale_a, 64)
    assert flat.shape == [2 * 12 + 10]
    assert torch.equal(flat.base[12:22], scale_a[:, 1])


def test_the_kernel_has_what_tiles_ask_for() -> None:
    for config in (*gemm_configs.BLOCKS, *gemm_configs.BLOCKS_ROWS):
        assert (config.m, config.n) in {(128, 128), (192, 128), (128, 256)}
