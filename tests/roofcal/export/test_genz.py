"""GenZ's reader, as far as it touches the entry, gets the rates that we measured."""

import ast
from typing import Any

import pytest

from roofcal.export.genz import write
from tests.roofcal.export.subjects import h200, measured

KEYS = {"Flops", "Memory_size", "Memory_BW", "ICN", "real_values"}


def system(entry: dict[str, Any]) -> dict[str, float]:
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
    system_configs.update(ast.literal_eval(write(h200())))
    entry = system_configs["NVIDIA H200"]
    assert set(entry) == KEYS
    found = system(entry)
    assert found["flops"] == pytest.approx(
        measured("gemm.cublaslt.bf16.ceiling_flops_per_s"), rel=1e-12
    )
    assert found["offchip_mem_bw"] == pytest.approx(measured("dram_read_bytes_per_s"), rel=1e-12)
    assert found["off_chip_mem_size"] == 150754820096
    assert found["interchip_link_bw"] == pytest.approx(450e9, rel=1e-12)
