"""AIConfigurator's loaders, llm-analysis and GenZ's reader take the files and get our rates."""

import ast
import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
import yaml

from roofcal.export.formats import write_aiconfigurator, write_genz, write_llm_analysis
from roofcal.export.subject import ExportError
from tests.roofcal.export.subjects import h200, measured, with_constants, without_fp8
from tests.roofcal.made_up_records import exactly

# The keys of systems/h200_sxm.yaml at 43bee4b805ae. Of a GPU, GpuSpec of its Rust core needs the
# first three; under misc stand those that PerfDatabase looks up.
NEEDED = ("mem_bw", "mem_bw_empirical_scaling_factor", "mem_empirical_constant_latency")
RATES = ("bfloat16_tc_flops", "int8_tc_flops", "fp8_tc_flops", "fp4_tc_flops")
KEYS = {
    "gpu": {*NEEDED, "mem_capacity", *RATES, "power", "sm_version"},
    "node": {"num_gpus_per_node", "inter_node_bw", "intra_node_bw", "pcie_bw", "p2p_latency"},
    "misc": {"nccl_mem", "other_mem", "nccl_version", "vendor", "architecture", "name"},
}


def system() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load(write_aiconfigurator(h200()), Loader=yaml.SafeLoader)
    assert set(loaded) == {"data_dir", *KEYS}
    assert all(set(loaded[part]) <= keys for part, keys in KEYS.items())
    return loaded


def test_a_memory_operation_takes_our_bandwidth_and_launch() -> None:
    """As PerfDatabase has it outside of SOL mode."""
    bandwidth, share, launch = (system()["gpu"][name] for name in NEEDED)
    copy, own_launch = measured("dram_copy_bytes_per_s"), measured("launch_graph_s")
    assert 1e9 / (bandwidth * share) + launch == pytest.approx(1e9 / copy + own_launch, rel=1e-12)


def test_its_speed_of_light_is_that_of_the_datasheet() -> None:
    gpu, node = system()["gpu"], system()["node"]
    assert [gpu[name] for name in ("mem_bw", "bfloat16_tc_flops", "fp8_tc_flops")] == [
        4.8e12,
        989.5e12,
        1979e12,
    ]
    assert node["intra_node_bw"] == 450e9
    assert (gpu["sm_version"], gpu["mem_capacity"]) == (90, 150754820096)


def test_it_finds_its_own_tables_of_the_same_card() -> None:
    assert (system()["data_dir"], system()["misc"]["name"]) == ("data/h200_sxm", "NVIDIA H200")
    other = replace(h200(), calibration=replace(h200().calibration, device="nvidia-h300"))
    assert write_aiconfigurator(other).count("\ndata_dir: data/nvidia-h300\n") == 1


def test_what_is_not_ours_says_so() -> None:
    (line,) = [line for line in write_aiconfigurator(h200()).splitlines() if "not ours" in line]
    ours = {"intra_node_bw"}
    listed = set(line.split(": ")[1].split(", "))
    assert listed == (KEYS["node"] - ours) | {"nccl_mem", "other_mem", "nccl_version"}


@pytest.mark.parametrize(
    ("launch_s", "text"), [(5e-7, "5.0e-07"), (6.673e-7, "6.673e-07"), (0.25, "0.25")]
)
def test_small_numbers_are_numbers_in_yaml(launch_s: float, text: str) -> None:
    """PyYAML reads 5e-07 as text."""
    launch = replace(h200().calibration.constants["launch_graph_s"], value=launch_s)
    file = write_aiconfigurator(with_constants(launch_graph_s=launch))
    assert f"mem_empirical_constant_latency: {text}\n" in file
    assert yaml.safe_load(file)["gpu"]["mem_empirical_constant_latency"] == launch_s


def test_other_vendors_have_no_sm_version() -> None:
    sheet = h200().sheet
    subject = replace(h200(), spec=replace(sheet, vendor="amd", architecture="gfx942"))
    with pytest.raises(ExportError, match="describes GPUs by their sm_version"):
        write_aiconfigurator(subject)


@dataclass
class GPUConfig:
    """The fields of llm_analysis/config.py, GPUConfig (cli99/llm-analysis, 0b979ddd83a3)."""

    name: str
    mem_per_GPU_in_GB: float  # noqa: N815 (their names)
    hbm_bandwidth_in_GB_per_sec: float  # noqa: N815
    intra_node_bandwidth_in_GB_per_sec: float  # noqa: N815
    intra_node_min_message_latency: float
    peak_fp16_TFLOPS: float  # noqa: N815
    peak_i8_TFLOPS: float | None = None  # noqa: N815
    peak_i4_TFLOPS: float | None = None  # noqa: N815
    inter_node_bandwidth_in_GB_per_sec: float = 200  # noqa: N815


def read(text: str) -> GPUConfig:
    """read_configs: GPUConfig(**json.load(f)), so a key too many or too few is a TypeError."""
    return GPUConfig(**json.loads(text))


def test_llm_analysis_reads_our_rates() -> None:
    gpu = read(write_llm_analysis(h200()))
    assert gpu.name == "nvidia-h200"
    assert gpu.mem_per_GPU_in_GB * 1024**3 == 150754820096
    assert gpu.hbm_bandwidth_in_GB_per_sec * 1e9 == measured("dram_read_bytes_per_s")
    assert gpu.intra_node_bandwidth_in_GB_per_sec == 450
    bf16, fp8 = (f"gemm.cublaslt.{r}.ceiling_flops_per_s" for r in ("bf16", "fp8_axiswise"))
    assert gpu.peak_fp16_TFLOPS == pytest.approx(measured(bf16) / 1e12, rel=1e-12)
    assert gpu.peak_i8_TFLOPS == pytest.approx(measured(fp8) / 1e12, rel=1e-12)
    assert gpu.peak_i4_TFLOPS is None


def test_int8_is_itself_where_it_was_measured() -> None:
    name = "gemm.cublaslt.int8.ceiling_flops_per_s"
    subject = with_constants(**{name: exactly(9e14, "flop/s")})
    assert read(write_llm_analysis(subject)).peak_i8_TFLOPS == 900
    assert read(write_llm_analysis(without_fp8())).peak_i8_TFLOPS is None


GENZ_KEYS = {"Flops", "Memory_size", "Memory_BW", "ICN", "real_values"}


def genz_system(entry: dict[str, Any]) -> dict[str, float]:
    """The SI numbers that GenZ computes with.

    get_inference_system (GenZ/LLM_inference/utils.py, 29a00889fddb) hands the entry to System,
    whose Unit (GenZ/unit.py, 8f6cc168e4f0) takes Tflops by 1e12 but MB and GB/s by powers of two.
    """
    assert entry.get("real_values", False) is True
    return {
        "flops": entry.get("Flops", 320) * 1e12,
        "off_chip_mem_size": entry.get("Memory_size", 2000) * 1024 * 2**20,
        "offchip_mem_bw": entry.get("Memory_BW", 40) * 2**30,
        "interchip_link_bw": entry.get("ICN", 150) * 2**30,
    }


def test_genz_computes_with_our_rates() -> None:
    system_configs: dict[str, dict[str, Any]] = {}
    system_configs.update(ast.literal_eval(write_genz(h200())))
    entry = system_configs["NVIDIA H200"]
    assert set(entry) == GENZ_KEYS
    rates = genz_system(entry)
    assert rates["flops"] == pytest.approx(
        measured("gemm.cublaslt.bf16.ceiling_flops_per_s"), rel=1e-12
    )
    assert rates["offchip_mem_bw"] == pytest.approx(measured("dram_read_bytes_per_s"), rel=1e-12)
    assert rates["off_chip_mem_size"] == 150754820096
    assert rates["interchip_link_bw"] == pytest.approx(450e9, rel=1e-12)
