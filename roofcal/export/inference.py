"""Files for models of LLM inference: AIConfigurator, llm-analysis, GenZ. See docs/exports.md."""

import json
from typing import Any, Final

import yaml

from roofcal.core.units import GB, GIB, TERA
from roofcal.export.subject import (
    COPY,
    LAUNCH,
    READ,
    ExportError,
    Subject,
    Writer,
    comment_lines,
    python_literal,
)

_FLOPS_KEYS: Final = {"bf16": "bfloat16", "int8": "int8", "fp8": "fp8", "fp4": "fp4"}
# Folders of systems/data in AIConfigurator, by our device; of others nothing was collected.
_DATA_FOLDERS: Final = {
    "nvidia-a100-sxm-80gb": "a100_sxm",
    "nvidia-h200": "h200_sxm",
    "nvidia-b200": "b200_sxm",
    "nvidia-b300": "b300_sxm",
    "nvidia-gb200": "gb200",
}
# Of its h200_sxm.yaml, not ours.
_NODE: Final = {
    "num_gpus_per_node": 8,
    "inter_node_bw": 50_000_000_000,
    "pcie_bw": 64_000_000_000,
    "p2p_latency": 0.00001,
}
_RUNTIME: Final = {
    "nccl_mem": {1: 0, 2: 358612992, 4: 411041792, 8: 411041792},
    "other_mem": 3758096384,
    "nccl_version": "2.26.2",
}
_MESSAGE_LATENCY_S: Final = 8e-6  # all files of llm_analysis/gpu_configs have it


def write_aiconfigurator(subject: Subject) -> str:
    """The YAML file; raises ExportError where something is missing, and for other vendors."""
    spec, device = subject.sheet, subject.calibration.device
    if spec.vendor != "nvidia":
        raise ExportError(f"describes GPUs by their sm_version, and {device} is none of NVIDIA's")
    system = {
        "data_dir": f"data/{_DATA_FOLDERS.get(device, device)}",
        "gpu": _aiconfigurator_gpu(subject),
        "node": {**_NODE, "intra_node_bw": subject.link_bytes_per_s},
        "misc": {
            **_RUNTIME,
            "vendor": spec.vendor,
            "architecture": spec.architecture,
            "name": subject.device_name,
        },
    }
    products = [subject.fastest_product(dtype) for dtype in _FLOPS_KEYS]
    comments = [
        "For aiconfigurator: systems/<name>.yaml",
        *subject.provenance("aiconfigurator"),
        "data_dir: its own tables of measured operators",
        "mem_bw, *_tc_flops, power, sm_version and intra_node_bw are of the datasheet",
        *(f"{rate.name} is {rate.value:.4g}" for rate in products if rate is not None),
        f"mem_bw_empirical_scaling_factor: {COPY} / mem_bw",
        f"mem_empirical_constant_latency: {LAUNCH}",
        f"not ours, as in its h200_sxm.yaml: {', '.join((*_NODE, *_RUNTIME))}",
        "set them for your machine",
    ]
    return comment_lines(comments) + yaml.safe_dump(system, sort_keys=False)


def _aiconfigurator_gpu(subject: Subject) -> dict[str, Any]:
    spec, copy = subject.sheet, subject.bandwidth(COPY)
    peaks = {dtype: spec.peak_flops_per_s.get(dtype) for dtype in _FLOPS_KEYS}
    return {
        "mem_bw": copy.peak,
        "mem_bw_empirical_scaling_factor": copy.fraction,
        "mem_empirical_constant_latency": subject.constant(LAUNCH).value,
        "mem_capacity": subject.memory_bytes,
        **{f"{_FLOPS_KEYS[d]}_tc_flops": peak for d, peak in peaks.items() if peak is not None},
        "power": spec.power_limit_w,
        "sm_version": int(spec.architecture.removeprefix("sm_")),
    }


def write_llm_analysis(subject: Subject) -> str:
    """The JSON object; raises ExportError where a constant, datasheet or link is missing."""
    values: dict[str, float | str] = {
        "name": subject.calibration.device,
        "mem_per_GPU_in_GB": subject.memory_bytes / GIB,
        "hbm_bandwidth_in_GB_per_sec": subject.bandwidth(READ).value / GB,
        "intra_node_bandwidth_in_GB_per_sec": subject.link_bytes_per_s / GB,
        "intra_node_min_message_latency": _MESSAGE_LATENCY_S,
        "peak_fp16_TFLOPS": subject.required_product("bf16").value / TERA,
    }
    rates = {
        "peak_i8_TFLOPS": subject.fastest_product("int8") or subject.fastest_product("fp8"),
        "peak_i4_TFLOPS": subject.fastest_product("fp4"),
    }
    values |= {key: rate.value / TERA for key, rate in rates.items() if rate is not None}
    return json.dumps(values, indent=4) + "\n"


def write_genz(subject: Subject) -> str:
    """The Python literal; raises ExportError where a constant, datasheet or link is missing."""
    entry = {
        "Flops": subject.required_product("bf16").value / TERA,
        "Memory_size": subject.memory_bytes / GIB,
        "Memory_BW": subject.bandwidth(READ).value / GIB,
        "ICN": subject.link_bytes_per_s / GIB,
        "real_values": True,
    }
    comments = [
        "For GenZ-LLM-Analyzer: system_configs.update(ast.literal_eval(text)); ceff=1, meff=1",
        "Its GB are 2**30 bytes; ICN is the datasheet's, everything else was measured",
        *subject.provenance("genz"),
    ]
    return python_literal({subject.device_name: entry}, comments)


FORMATS: Final[dict[str, Writer]] = {
    "aiconfigurator": write_aiconfigurator,
    "llm-analysis": write_llm_analysis,
    "genz": write_genz,
}
