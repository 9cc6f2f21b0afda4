"""llm-analysis builds its GPU from the file: exactly its fields, nothing else."""

import json
from dataclasses import dataclass, replace

import pytest

from roofcal.core.records import Ceiling
from roofcal.export.llm_analysis import write
from tests.roofcal.export.subjects import h200, measured, without


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
    gpu = read(write(h200()))
    assert gpu.name == "nvidia-h200"
    assert gpu.mem_per_GPU_in_GB * 1024**3 == 150754820096
    assert gpu.hbm_bandwidth_in_GB_per_sec * 1e9 == measured("dram_read_bytes_per_s")
    assert gpu.intra_node_bandwidth_in_GB_per_sec == 450
    bf16, fp8 = (f"gemm.cublaslt.{r}.ceiling_flops_per_s" for r in ("bf16", "fp8_axiswise"))
    assert gpu.peak_fp16_TFLOPS == pytest.approx(measured(bf16) / 1e12, rel=1e-12)
    assert gpu.peak_i8_TFLOPS == pytest.approx(measured(fp8) / 1e12, rel=1e-12)
    assert gpu.peak_i4_TFLOPS is None


def test_int8_is_itself_where_it_was_measured() -> None:
    found = h200().calibration
    int8 = Ceiling(value=9e14, ci95_low=9e14, ci95_high=9e14, unit="flop/s", evidence="made up")
    constants = {**found.constants, "gemm.cublaslt.int8.ceiling_flops_per_s": int8}
    subject = replace(h200(), calibration=replace(found, constants=constants))
    assert read(write(subject)).peak_i8_TFLOPS == 900


def test_without_eight_bits_their_default_holds() -> None:
    assert read(write(without("gemm.cublaslt.fp8", "gemm.triton.fp8"))).peak_i8_TFLOPS is None
