"""An all-gather and then a product, with one rank; more ranks: test_all_gather_matmul.py."""

from pathlib import Path

import pytest
import torch
from torch import distributed

from kernels.gather.sequence import GatheredRows
from tests.kernels.gemm.gemm_reference import assert_close, normal_fp8, product, random_scales

CPU = torch.device("cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="the group is on the CPU")
def test_one_rank_multiplies_what_it_has(tmp_path: Path) -> None:
    store = f"file://{tmp_path}/store"
    distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    try:
        group = distributed.group.WORLD
        assert group is not None
        a, w = torch.randn(40, 32).bfloat16(), torch.randn(24, 32).bfloat16()
        one = torch.ones(())
        assert_close(GatheredRows(group, a, None).multiplied(w, None), product(a, w, one, one))
        for columns in (32, 23):  # the library's, and a number it refuses on GPUs
            a, w = normal_fp8(40, 32, CPU), normal_fp8(columns, 32, CPU)
            rows, columns_by = random_scales(40, device=CPU), random_scales(1, columns, device=CPU)
            c = GatheredRows(group, a, rows).multiplied(w, columns_by)
            assert_close(c, product(a, w, rows, columns_by))
    finally:
        distributed.destroy_process_group()
