"""Products in Gluon on a Hopper GPU with scales per block, in every tile of the table."""

import pytest
import torch

from kernels.common.fp8_scales import new_block_scales
from kernels.gemm import blockwise
from kernels.gemm.hopper import staged_scales
from kernels.gemm.hopper.staged_scales import StagedScalesConfig
from kernels.gemm.rule import MOST_FEW_ROWS
from tests.kernels.gemm.gemm_reference import (
    E4M3,
    E5M2,
    ON_HOPPER,
    RAGGED,
    assert_close,
    dequantised,
    normal_fp8,
    random_scales,
    unwritten,
)

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
def test_a_product_is_right(
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


def test_transposed_scales_alone_may_get_it(
    monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    launched = []
    monkeypatch.setattr(blockwise, "is_hopper", lambda _: True)
    monkeypatch.setattr(
        blockwise,
        "choose",
        lambda configs, *_: next(
            (c for c in configs if isinstance(c, StagedScalesConfig)), configs[0]
        ),
    )
    monkeypatch.setattr(
        staged_scales,
        "launch",
        lambda _, config, rows_b: launched.append((rows_b, config)),
    )
    rows = MOST_FEW_ROWS + 4  # fewer go another way
    a, b = normal_fp8(rows, 272, device), normal_fp8(rows, 272, device)
    strips, squares = _transposed(rows, 272, device), random_scales(1, 3, device=device)
    blockwise.gemm(a, b, strips, squares)
    blockwise.gemm(a, b, strips, strips)
    expected = [(False, staged_scales.SQUARES[0]), (True, staged_scales.STRIPS[0])]
    assert launched == expected
    for scale_a, scale_b in ((strips.contiguous(), squares), (strips, strips.contiguous())):
        blockwise.gemm(a, b, scale_a, scale_b)
    assert launched == expected


def test_scales_are_read_as_one_row_of_whole_columns(device: torch.device) -> None:
    scale_a = random_scales(3, 12, device=device).t()[:10]
    flat = staged_scales.flat_descriptor(scale_a, 64)
    assert flat.shape == [2 * 12 + 10]
    assert torch.equal(flat.base[12:22], scale_a[:, 1])
