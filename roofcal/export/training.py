"""Files for models of training: torchao's roofline of float8, and Calculon.

`torchao`: an entry of `gpu_name_to_specs`. Consumer: torchao 0.18.0 (PyPI),
torchao/testing/training/roofline_utils.py, also read at pytorch/ao 0598012907d6. The file is one
Python literal: gpu_name_to_specs.update(ast.literal_eval(Path("h200.py").read_text()))

| theirs                    | ours                                                             |
|---------------------------|------------------------------------------------------------------|
| key                       | what torch.cuda.get_device_name() printed on the calibrated card |
| bf16_peak_tops            | the datasheet's rate                                             |
| pct_achievable_gemm_tops  | fastest bf16 product of the probes / bf16_peak_tops              |
| fp8_, fp4_peak_tops       | fastest product of the probes / pct_achievable_gemm_tops         |
| peak_mem_bw_bytes_sec     | the datasheet's bandwidth                                        |
| pct_achievable_mem_bw     | dram_copy_bytes_per_s / peak: its kernels read and write         |

torchao has one percentage for all formats, and its roofline uses it in `peak * pct` alone. fp8
reaches another part of its peak than bf16, so one percentage cannot be right beside two datasheet
peaks: here `peak * pct` is our measured rate for each format, and a comment gives the datasheet's
figure. (Its benchmarks/float8 print percentages of the peak: they are of the number in this file.)
Dropped: the launch of a kernel (KERNEL_LAUNCH_OVERHEAD_SEC is a constant of the module; a comment
names our value), differences between fp8 recipes (one fp8 rate: the fastest), tiles, waves, the
power limit, and every interval.

`calculon`: a system. Consumer: calculon-ai/calculon, classes System (calculon/system.py at
345f8934e7f2), Processor (f50f3a4838f6), Memory (b2fe8157efd8) and Network (71f643532f67), and
systems/h100_80g_nvl8.json as the example.

| theirs                  | ours                                                            |
|-------------------------|-----------------------------------------------------------------|
| matrix.<type>.tflops    | the datasheet's rate                                            |
| ... gflops_efficiency   | one step: fastest product of the probes / that rate             |
| vector.<type>.tflops    | the datasheet's fp32 rate, efficiency 1: not calibrated         |
| mem1.GiB, GBps          | what the driver offers, the datasheet's bandwidth               |
| mem1.MB_efficiency      | one step: dram_copy_bytes_per_s / that bandwidth                |
| mem2                    | capacity 0: no memory to offload to was measured                |
| processing_mode         | roofline, as all our models                                     |
| networks[0]             | the datasheet's link in a node of eight, efficiency 1, latency 0 |

Types: bfloat16, float8 where calibrated, and float16, which takes bf16's fraction of its own rate
(fp16 was not measured; both run on the same units). Collectives are rings of n (Patarasuk and Yuan,
2009): reduce-scatter and all-gather move (n - 1)/n of the data, all-reduce twice that; as Calculon
has it, [scale, offset] is size * scale * (1 + offset/n). mem2.GBps is 1 only to divide by.
Dropped: launches and the dependence of efficiency on size (our model has tiles and waves, Calculon
a table of steps), networks between nodes, intervals. Its reader ignores unknown keys at the top;
`roofcal` holds the provenance.
"""

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
        *(_described(rate) for rate in (bf16, *measured.values())),
        f"{copy.name}: {copy.value / GB:.4g} GB/s of {copy.peak / GB:.4g}",
    ]
    launch = subject.calibration.constants.get(LAUNCH)
    if launch is not None:
        comments.append(
            f"{LAUNCH}: KERNEL_LAUNCH_OVERHEAD_SEC of that module would be {launch.value!r}"
        )
    return python_literal({subject.device_name: entry}, comments)


def _described(rate: Rate) -> str:
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
