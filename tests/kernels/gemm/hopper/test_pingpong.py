"""Products in Gluon on a Hopper GPU with a tile per warpgroup."""

import pytest
import torch

from kernels.gemm import axiswise
from kernels.gemm.hopper import pingpong
from tests.kernels.gemm.gemm_reference import (
    E5M2,
    ON_HOPPER,
    assert_close,
    normal_fp8,
    product,
    random_scales,
    unwritten,
)

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
def test_a_product_is_right(m: int, n: int, k: int, rowwise: bool) -> None:
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
