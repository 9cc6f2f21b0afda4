"""The loops over K of warpgroups, each as long as the ring of stages, shorter, and much longer."""

import pytest
import torch

from kernels.gemm import configs as gemm_configs
from kernels.gemm.hopper import cooperative as fp8_gemm_hopper
from tests.kernels.gemm.gemm_reference import assert_close, dequantised, drawn, product, scales

STAGES = gemm_configs.HOPPER["slow"].stages


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="Gluon runs on a GPU alone")
@pytest.mark.parametrize("steps", [1, STAGES - 1, STAGES, STAGES + 1, 40])
@pytest.mark.parametrize("mode", gemm_configs.HOPPER)
def test_every_number_of_steps_is_right(mode: str, steps: int, device: torch.device) -> None:
    m, n, k = 512, 128 * 140, 128 * steps  # more tiles than programs
    a, b = drawn(m, k, device), drawn(n, k, device)
    if not fp8_gemm_hopper.fits(a):
        pytest.skip("needs a Hopper GPU")
    c = torch.zeros(m, n, dtype=torch.bfloat16, device=device)
    if mode == "blocks":
        scale_a = scales(m, steps, device=device)
        scale_b = scales(n // 128, steps, device=device)
        fp8_gemm_hopper.launch_blockwise(a, b, c, scale_a, scale_b)
        assert_close(c, dequantised(a, scale_a) @ dequantised(b, scale_b).t())
    else:
        scale_a, scale_b = scales(m, device=device), scales(n, device=device)
        fp8_gemm_hopper.launch(a, b, c, scale_a, scale_b)
        assert_close(c, product(a, b, scale_a, scale_b), fast_k=128)


def test_all_modes_have_a_config() -> None:
    assert set(gemm_configs.HOPPER) == {"slow", "blocks"}
