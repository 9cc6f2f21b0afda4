"""Files for models of training: torchao's roofline of float8, and Calculon. See docs/exports.md."""

import json
from typing import Any, Final

from roofcal.core.units import GB, GIB, TERA
from roofcal.export.subject import COPY, LAUNCH, Rate, Subject, Writer, python_literal

_GPUS_PER_NODE: Final = 8  # of systems/h100_80g_nvl8.json and a100_80g.json: HGX boards
_RING: Final = {
    "p2p": [1.0, None],
    "reduce_scatter": [1.0, -1],
    "all_gather": [1.0, -1],
    "all_reduce": [2.0, -1],
}


def write_torchao(subject: Subject) -> str:
    """The Python literal; raises ExportError where a constant or the datasheet is missing."""
    bf16, copy = subject.required_product("bf16"), subject.bandwidth(COPY)
    narrow = {dtype: subject.fastest_product(dtype) for dtype in ("fp8", "fp4")}
    measured = {dtype: rate for dtype, rate in narrow.items() if rate is not None}
    entry = {
        "bf16_peak_tops": bf16.peak,
        **{f"{dtype}_peak_tops": rate.value / bf16.fraction for dtype, rate in measured.items()},
        "pct_achievable_gemm_tops": bf16.fraction,
        "peak_mem_bw_bytes_sec": copy.peak,
        "pct_achievable_mem_bw": copy.fraction,
    }
    comments = [
        "For torchao.testing.training.roofline_utils:",
        "gpu_name_to_specs.update(ast.literal_eval(text))",
        *subject.provenance("torchao"),
        "pct_achievable_gemm_tops: bf16 measured / peak; *_peak_tops times it are measured rates:",
        *(_rate_comment(rate) for rate in (bf16, *measured.values())),
        f"{copy.name}: {copy.value / GB:.4g} GB/s of {copy.peak / GB:.4g}",
    ]
    launch = subject.calibration.constants.get(LAUNCH)
    if launch is not None:
        comments.append(
            f"{LAUNCH}: KERNEL_LAUNCH_OVERHEAD_SEC of that module would be {launch.value!r}"
        )
    return python_literal({subject.device_name: entry}, comments)


def _rate_comment(rate: Rate) -> str:
    """A measured rate, and the datasheet's where it has one."""
    printed = f" of {rate.printed / TERA:.5g} on the datasheet" if rate.printed else ""
    return f"{rate.name}: {rate.value / TERA:.5g} TFLOP/s{printed}"


def write_calculon(subject: Subject) -> str:
    """The JSON object; raises ExportError where a constant, datasheet or link is missing."""
    matrix, copy = _calculon_matrix(subject), subject.bandwidth(COPY)
    scalar = {"tflops": subject.datasheet_rate("fp32") / TERA, "gflops_efficiency": [[0, 1.0]]}
    network = {
        "bandwidth": subject.link_bytes_per_s / GB,
        "efficiency": 1.0,
        "size": _GPUS_PER_NODE,
        "latency": 0.0,
        "ops": _RING,
        "must_be_filled": False,
        "processor_usage": 0.0,
    }
    system = {
        "roofcal": subject.provenance("calculon"),
        "matrix": matrix,
        "vector": dict.fromkeys(matrix, scalar),
        "mem1": {
            "GiB": subject.memory_bytes / GIB,
            "GBps": copy.peak / GB,
            "MB_efficiency": [[0, copy.fraction]],
        },
        "mem2": {"GiB": 0, "GBps": 1, "MB_efficiency": [[0, 1.0]]},
        "processing_mode": "roofline",
        "networks": [network],
    }
    return json.dumps(system, indent=2) + "\n"


def _calculon_matrix(subject: Subject) -> dict[str, Any]:
    bf16, fp8 = subject.required_product("bf16"), subject.fastest_product("fp8")
    matrix = {"bfloat16": _calculon_engine(bf16.peak, bf16.fraction)}
    fp16_peak = subject.sheet.peak_flops_per_s.get("fp16")
    if fp16_peak is not None:
        matrix["float16"] = _calculon_engine(fp16_peak, bf16.fraction)
    if fp8 is not None:
        matrix["float8"] = _calculon_engine(fp8.peak, fp8.fraction)
    return matrix


def _calculon_engine(peak: float, fraction: float) -> dict[str, Any]:
    return {"tflops": peak / TERA, "gflops_efficiency": [[0, fraction]]}


FORMATS: Final[dict[str, Writer]] = {
    "torchao": write_torchao,
    "calculon": write_calculon,
}
