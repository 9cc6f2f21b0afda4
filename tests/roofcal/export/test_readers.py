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


def test_calculon_gets_rates_memory_and_rings_on_the_link_of_the_datasheet() -> None:
    """Classes Processor (f50f3a4838f6), Memory (b2fe8157efd8), Network (71f643532f67) and System.

    A large product runs at tflops x efficiency, a ring of n moves scalar (1 - 1/n) of its bytes.
    """
    found = json.loads(formats.write_calculon(h200()))
    matrix = {"bfloat16": (989.5, BF16), "float16": (989.5, BF16), "float8": (1979.0, FP8)}
    for name, (peak, rate) in matrix.items():
        engine = found["matrix"].pop(name)
        assert set(engine) == {"tflops", "gflops_efficiency"}
        ((least, efficiency),) = engine["gflops_efficiency"]
        assert (engine["tflops"], least) == (peak, 0)
        assert peak * 1e12 * efficiency == pytest.approx(rate, rel=EXACT)
        assert found["vector"].pop(name) == {"tflops": 67.0, "gflops_efficiency": [[0, 1.0]]}
    assert found["matrix"] == found["vector"] == {}
    share = pytest.approx(COPY / 4.8e12, rel=EXACT)
    assert found["mem1"] == {"GiB": BYTES / 2**30, "GBps": 4800.0, "MB_efficiency": [[0, share]]}
    assert found["mem2"] == {"GiB": 0, "GBps": 1, "MB_efficiency": [[0, 1.0]]}
    assert found["processing_mode"] == "roofline"
    ring = {"reduce_scatter": [1.0, -1], "all_gather": [1.0, -1], "all_reduce": [2.0, -1]}
    network = {"bandwidth": 450.0, "efficiency": 1.0, "size": 8, "latency": 0.0}
    network |= {"must_be_filled": False, "processor_usage": 0.0}
    assert found["networks"] == [network | {"ops": {"p2p": [1.0, None]} | ring}]


def test_aiconfigurator_gets_the_datasheet_with_our_bandwidth_and_launch() -> None:
    """Keys of systems/h200_sxm.yaml at 43bee4b805ae; what is not ours says so."""
    text = formats.write_aiconfigurator(h200())
    found = yaml.load(text, Loader=yaml.SafeLoader)
    assert found["gpu"] == {
        "mem_bw": 4.8e12,
        "mem_bw_empirical_scaling_factor": pytest.approx(COPY / 4.8e12, rel=EXACT),
        "mem_empirical_constant_latency": measured("launch_graph_s"),
        "mem_capacity": BYTES,
        "bfloat16_tc_flops": 989.5e12,
        "int8_tc_flops": 1979e12,
        "fp8_tc_flops": 1979e12,
        "power": 700,
        "sm_version": 90,
    }
    (line,) = [line for line in text.splitlines() if "not ours" in line]
    theirs = {"num_gpus_per_node", "inter_node_bw", "pcie_bw", "p2p_latency"}
    of_runtime = {"nccl_mem", "other_mem", "nccl_version"}
    assert set(line.split(": ")[1].split(", ")) == theirs | of_runtime
    assert set(found["node"]) == theirs | {"intra_node_bw"}
    assert found["node"]["intra_node_bw"] == 450e9
    assert set(found["misc"]) == of_runtime | {"vendor", "architecture", "name"}
    assert (found["data_dir"], found["misc"]["name"]) == ("data/h200_sxm", "NVIDIA H200")
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
