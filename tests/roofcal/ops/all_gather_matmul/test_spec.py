"""Work of one device, and sweeps that say what they claim to say."""

import pytest

from roofcal.core.language_models import load_models
from roofcal.core.recipes import Work
from roofcal.ops.all_gather_matmul.spec import OP
from roofcal.ops.gemm.spec import OP as GEMM
from roofcal.study.config import load_study
from tests.paths import ROOT

CONFIG = ROOT / "config"
SHAPE = {"m": 4096, "n": 1792, "k": 4096}


@pytest.mark.parametrize(
    ("recipe", "link"), [("bf16", 2 * 4096 * 4096), ("fp8_axiswise", 4096**2 + 4 * 4096)]
)
def test_work_is_the_product_of_all_rows_and_the_rows_that_travel(recipe: str, link: int) -> None:
    work, product = OP.work(recipe, SHAPE), GEMM.work(recipe, SHAPE)
    assert (work.flops, work.dram_bytes) == (product.flops, product.dram_bytes)
    assert work.link_bytes == link, "scales of rows travel with them"


@pytest.mark.parametrize("world_size", [2, 4, 8])
def test_the_layers_are_those_of_the_models_by_columns(world_size: int) -> None:
    models = load_models(CONFIG / "models")
    expected = [
        [matrix.n // world_size, matrix.k]
        for name in ("llama3-8b", "llama3-70b", "llama3-405b")
        for matrix in models[name].matrices.values()
        if matrix.shard == "n"
    ]
    sweep = load_study(CONFIG).sweep_files[OP.name].sweeps[f"layers_{world_size}"]
    assert sweep.grid is not None
    assert sweep.grid["n,k"] == expected
    assert sweep.world_sizes == [world_size]
    few_rows = load_study(CONFIG).sweep_files[OP.name].sweeps[f"few_rows_{world_size}"].grid
    assert few_rows is not None
    assert few_rows["m"] == [rows * world_size for rows in (64, 128, 256, 512)]


def test_the_work_of_the_op_is_no_bound_of_an_all_gather_alone() -> None:
    assert OP.work_of("all_gather_only", "bf16", SHAPE) == Work()
    for provider in ("gemm_only", "nccl_then_gemm"):
        assert OP.work_of(provider, "bf16", SHAPE) == OP.work("bf16", SHAPE)


def test_a_device_receives_the_rows_of_the_others() -> None:
    assert OP.received_bytes is not None
    shape = {"m": 64, "n": 16, "k": 32}
    rows = 48 * 32  # of three others
    assert OP.received_bytes("all_gather_only", "bf16", shape, 4) == 2 * rows
    assert OP.received_bytes("nccl_then_gemm", "fp8_axiswise", shape, 4) == rows + 48 * 4
    assert OP.received_bytes("gemm_only", "bf16", shape, 4) == 0
