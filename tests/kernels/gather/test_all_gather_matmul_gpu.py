"""The collective on all GPUs of this machine; ranks that hang are killed, and fail the test."""

from pathlib import Path

import pytest
import torch

from tests.kernels.gather import gathered_gpu_ranks
from tests.kernels.run_ranks import run_ranks

SEVERAL = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs at least")


@pytest.mark.gpu
@SEVERAL
@pytest.mark.parametrize("what", ["eager", "captured_first", "graphs", "soak"])
def test_every_rank_has_the_product_in_every_turn(what: str, tmp_path: Path) -> None:
    run_ranks(gathered_gpu_ranks.main, torch.cuda.device_count(), what, tmp_path, limit_s=150)
