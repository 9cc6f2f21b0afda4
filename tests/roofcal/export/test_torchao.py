"""torchao's own functions run on the entry of the H200 and get our measured rates."""

import ast
from typing import Any

import pytest

from roofcal.export.torchao import write
from tests.roofcal.export.subjects import h200, measured, without

BF16 = measured("gemm.cublaslt.bf16.ceiling_flops_per_s")
FP8 = measured("gemm.cublaslt.fp8_axiswise.ceiling_flops_per_s")
COPY = measured("dram_copy_bytes_per_s")
LARGE = 1 << 16  # bound by math: 2 n / 8 FLOP per byte is a multiple of any card's ridge


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Any:
    """torchao's module with our entry in its table."""
    pytest.importorskip("torchao", reason="torchao of the dev extra is not installed: make env")
    from torchao.testing.training import roofline_utils

    table = dict(roofline_utils.gpu_name_to_specs)
    monkeypatch.setattr(roofline_utils, "gpu_name_to_specs", table)
    table.update(ast.literal_eval(write(h200())))
    return roofline_utils


def product(theirs: Any, dtype: Any, size: int) -> float:
    found = theirs.get_individual_gemm_time_sympy(size, size, size, dtype, None, "NVIDIA H200")
    return float(found)


def test_torchao_finds_the_card_by_the_name_that_torch_prints(theirs: Any) -> None:
    specs = theirs.get_specs("NVIDIA H200")
    assert set(specs) <= set(theirs.gpu_name_to_specs["NVIDIA B200"])
    assert set(specs) >= set(theirs.gpu_name_to_specs["NVIDIA H100"])


def test_its_large_products_take_our_measured_rates(theirs: Any) -> None:
    import torch

    flops = 2.0 * LARGE**3
    assert product(theirs, torch.bfloat16, LARGE) == pytest.approx(flops / BF16, rel=1e-12)
    assert product(theirs, torch.float8_e4m3fn, LARGE) == pytest.approx(flops / FP8, rel=1e-12)


def test_its_casts_take_our_measured_bandwidth(theirs: Any) -> None:
    specs = theirs.get_specs("NVIDIA H200")
    amax, nothing, cast = theirs.get_tensor_memory_traffic_ovhd_s(
        specs, 8192, 8192, "input", "tensorwise", None
    )
    assert float(amax) == pytest.approx(2 * 8192**2 / COPY, rel=1e-12)
    assert float(nothing) == theirs.KERNEL_LAUNCH_OVERHEAD_SEC
    assert float(cast) == pytest.approx(4 * 8192**2 / COPY, rel=1e-12)


def test_its_linear_forward_and_backward_runs_for_each_recipe(theirs: Any) -> None:
    import torch

    m, k, n = theirs.sympy.symbols("M K N", positive=True)
    for recipe in ("tensorwise", "rowwise", "rowwise_with_gw_hp"):
        dtype, name = torch.float8_e4m3fn, "NVIDIA H200"
        products = theirs.get_gemm_time_sympy(m, k, n, dtype, recipe, None, name)
        casts = theirs.get_float8_mem_sympy(m, k, n, recipe, None, False, name)
        total = (products + casts).subs({m: 16384, k: 8192, n: 8192})
        assert float(total) > 3 * 2 * 16384 * 8192 * 8192 / FP8


def test_without_torchao_the_entry_is_a_literal_of_the_same_keys() -> None:
    ((name, entry),) = ast.literal_eval(write(h200())).items()
    assert name == "NVIDIA H200"
    assert (entry["bf16_peak_tops"], entry["peak_mem_bw_bytes_sec"]) == (989.5e12, 4.8e12)
    fraction = entry["pct_achievable_gemm_tops"]
    assert entry["bf16_peak_tops"] * fraction == pytest.approx(BF16, rel=1e-12)
    assert entry["fp8_peak_tops"] * fraction == pytest.approx(FP8, rel=1e-12)
    assert entry["pct_achievable_mem_bw"] == pytest.approx(COPY / 4.8e12, rel=1e-12)


def test_a_format_that_was_not_calibrated_is_left_out() -> None:
    ((_, entry),) = ast.literal_eval(write(without("gemm.cublaslt.fp8", "gemm.triton.fp8"))).items()
    assert "bf16_peak_tops" in entry
    assert "fp8_peak_tops" not in entry


def test_the_launch_is_named_where_it_was_measured() -> None:
    launch = h200().calibration.constants["launch_graph_s"].value
    said = f"KERNEL_LAUNCH_OVERHEAD_SEC of that module would be {launch!r}"
    assert said in write(h200())
    assert "KERNEL_LAUNCH" not in write(without("launch_graph_s"))
