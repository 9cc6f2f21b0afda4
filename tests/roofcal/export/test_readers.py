"""What other tools read: their keys, our rates. torchao's own functions work with its entry.

The keys are those of the readers at the commits that the tests name; a key too many or too few is
an error there, so whole files are compared.
"""

import ast
import json
from dataclasses import replace
from typing import Any

import pytest
import yaml

from roofcal.export import formats
from roofcal.export.subject import ExportError
from tests.roofcal.export.subjects import h200, measured, with_constants, without, without_fp8
from tests.roofcal.made_up_records import exactly

BF16 = measured("gemm.cublaslt.bf16.ceiling_flops_per_s")
FP8 = measured("gemm.cublaslt.fp8_tensorwise.ceiling_flops_per_s")
COPY, READ = (measured(f"dram_{name}_bytes_per_s") for name in ("copy", "read"))
LARGE = 1 << 16  # bound by math: 2 n / 8 FLOP per byte is a multiple of any card's ridge
BYTES = 150754820096
EXACT = 1e-12


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Any:
    """torchao's module with our entry in its table."""
    pytest.importorskip("torchao", reason="torchao of the dev extra is not installed: make env")
    from torchao.testing.training import roofline_utils

    table = dict(roofline_utils.gpu_name_to_specs)
    monkeypatch.setattr(roofline_utils, "gpu_name_to_specs", table)
    table.update(ast.literal_eval(formats.write_torchao(h200())))
    return roofline_utils


def test_torchao_computes_with_our_rates_under_the_name_that_torch_prints(theirs: Any) -> None:
    import torch

    specs, name = theirs.get_specs("NVIDIA H200"), "NVIDIA H200"
    assert set(specs) <= set(theirs.gpu_name_to_specs["NVIDIA B200"])
    assert set(specs) >= set(theirs.gpu_name_to_specs["NVIDIA H100"])
    for dtype, rate in ((torch.bfloat16, BF16), (torch.float8_e4m3fn, FP8)):
        s = theirs.get_individual_gemm_time_sympy(LARGE, LARGE, LARGE, dtype, None, name)
        assert float(s) == pytest.approx(2.0 * LARGE**3 / rate, rel=EXACT)
    sizes = (specs, 8192, 8192, "input", "tensorwise", None)
    amax, nothing, cast = theirs.get_tensor_memory_traffic_ovhd_s(*sizes)
    assert float(amax) == pytest.approx(2 * 8192**2 / COPY, rel=EXACT)
    assert float(nothing) == theirs.KERNEL_LAUNCH_OVERHEAD_SEC
    assert float(cast) == pytest.approx(4 * 8192**2 / COPY, rel=EXACT)

    m, k, n = theirs.sympy.symbols("M K N", positive=True)
    for recipe in ("tensorwise", "rowwise", "rowwise_with_gw_hp"):
        products = theirs.get_gemm_time_sympy(m, k, n, torch.float8_e4m3fn, recipe, None, name)
        casts = theirs.get_float8_mem_sympy(m, k, n, recipe, None, False, name)
        total = (products + casts).subs({m: 16384, k: 8192, n: 8192})
        assert float(total) > 3 * 2 * 16384 * 8192 * 8192 / FP8


def test_the_entry_of_torchao_is_a_literal_with_the_launch_in_a_comment() -> None:
    peak = 989.5e12
    entry = {"bf16_peak_tops": peak, "fp8_peak_tops": FP8 / (BF16 / peak)}
    entry |= {"pct_achievable_gemm_tops": BF16 / peak}
    entry |= {"peak_mem_bw_bytes_sec": 4.8e12, "pct_achievable_mem_bw": COPY / 4.8e12}
    (found,) = ast.literal_eval(formats.write_torchao(h200())).values()
    assert found == pytest.approx(entry, rel=EXACT)
    launch = measured("launch_graph_s")
    comment = f"KERNEL_LAUNCH_OVERHEAD_SEC of that module would be {launch!r}"
    assert comment in formats.write_torchao(h200())
    assert "KERNEL_LAUNCH" not in formats.write_torchao(without("launch_graph_s"))


def test_aiconfigurator_gets_cards_that_it_has_no_data_of_and_none_of_other_vendors() -> None:
    other = replace(h200(), calibration=replace(h200().calibration, device="nvidia-h300"))
    assert formats.write_aiconfigurator(other).count("\ndata_dir: data/nvidia-h300\n") == 1
    # PyYAML reads 5e-07 as text.
    launch = replace(h200().calibration.constants["launch_graph_s"], value=5e-7)
    file = formats.write_aiconfigurator(with_constants(launch_graph_s=launch))
    assert yaml.safe_load(file)["gpu"]["mem_empirical_constant_latency"] == 5e-7
    amd = replace(h200(), spec=replace(h200().sheet, vendor="amd", architecture="gfx942"))
    with pytest.raises(ExportError, match="describes GPUs by their sm_version"):
        formats.write_aiconfigurator(amd)


def test_llm_analysis_and_genz_get_our_rates() -> None:
    """GPUConfig (cli99/llm-analysis 0b979ddd83a3); GenZ's Unit (8f6cc168e4f0) has GB of 2**30."""
    assert json.loads(formats.write_llm_analysis(h200())) == {
        "name": "nvidia-h200",
        "mem_per_GPU_in_GB": BYTES / 2**30,
        "hbm_bandwidth_in_GB_per_sec": pytest.approx(READ / 1e9, rel=EXACT),
        "intra_node_bandwidth_in_GB_per_sec": 450,
        "intra_node_min_message_latency": 8e-6,
        "peak_fp16_TFLOPS": pytest.approx(BF16 / 1e12, rel=EXACT),
        "peak_i8_TFLOPS": pytest.approx(FP8 / 1e12, rel=EXACT),
    }
    int8 = with_constants(**{"gemm.cublaslt.int8.ceiling_flops_per_s": exactly(9e14, "flop/s")})
    assert json.loads(formats.write_llm_analysis(int8))["peak_i8_TFLOPS"] == 900
    assert ast.literal_eval(formats.write_genz(h200())) == {
        "NVIDIA H200": {
            "Flops": pytest.approx(BF16 / 1e12, rel=EXACT),
            "Memory_size": BYTES / 2**30,
            "Memory_BW": pytest.approx(READ / 2**30, rel=EXACT),
            "ICN": 450e9 / 2**30,
            "real_values": True,
        }
    }


def test_a_format_that_was_not_calibrated_is_left_out() -> None:
    ((_, entry),) = ast.literal_eval(formats.write_torchao(without_fp8())).items()
    assert {name for name in entry if name.endswith("_peak_tops")} == {"bf16_peak_tops"}
    assert set(json.loads(formats.write_calculon(without_fp8()))["matrix"]) == {
        "bfloat16",
        "float16",
    }
    assert "peak_i8_TFLOPS" not in json.loads(formats.write_llm_analysis(without_fp8()))
