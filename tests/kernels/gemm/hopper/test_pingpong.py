"""Products in Gluon on a Hopper GPU with a tile per warpgroup."""

import pytest
import torch

from kernels.gemm import axiswise as fp8_gemm
from kernels.gemm import configs as gemm_configs
from kernels.gemm.hopper import cooperative as fp8_gemm_hopper
from kernels.gemm.hopper import pingpong as fp8_gemm_pingpong
from tests.kernels.gemm.gemm_reference import E5M2, assert_close, drawn, product, scales

STAGES = gemm_configs.PINGPONG.stages
SHAPES = [
    *[(65, 1, 16), (130, 300, 272), (1000, 1000, 1008), (300, 333, 560)],
    # more tiles than programs, K shorter than the ring, as long, and longer
    *[(512, 128 * 140, 128 * steps) for steps in (1, STAGES - 1, STAGES, STAGES + 1, 40)],
]


@pytest.mark.gpu
@pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9,
    reason="Gluon's products run on Hopper GPUs alone",
)
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
@pytest.mark.parametrize("rowwise", [False, True])
def test_a_product_is_right(m: int, n: int, k: int, rowwise: bool) -> None:
    device = torch.device("cuda")
    a, b = drawn(m, k, device), drawn(n, k, device, E5M2)
    scale_a = scales(m if rowwise else 1, device=device)
    scale_b = scales(n if rowwise else 1, device=device)
    c = torch.empty(m, -(-n // 8) * 8, dtype=torch.bfloat16, device=device)[:, :n].fill_(9)
    fp8_gemm_pingpong.launch(a, b, c, scale_a, scale_b)
    assert_close(c, product(a, b, scale_a, scale_b), fast_k=k)


def test_fast_accumulation_on_hopper_alone_may_get_it(
    monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    launched = []
    monkeypatch.setattr(fp8_gemm_hopper, "fits", lambda _: True)
    monkeypatch.setattr(gemm_configs, "choose", lambda configs, *_: configs[-1])
    monkeypatch.setattr(fp8_gemm_pingpong, "launch", lambda *_, config: launched.append(config))
    a, one = drawn(256, 128, device), torch.ones((), device=device)
    fp8_gemm.gemm(a, a, one, one)
    assert launched == [gemm_configs.PINGPONG]
    assert gemm_configs.PINGPONG not in fp8_gemm._candidates("slow", a)
