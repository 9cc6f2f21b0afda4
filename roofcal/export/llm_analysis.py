"""`llm-analysis`: a GPU of llm-analysis.

Consumer: cli99/llm-analysis, `GPUConfig` and `read_configs` in llm_analysis/config.py at
0b979ddd83a3, units in analysis.py at 08d7f8f69586, efficiencies in constant.py at 980a812ae5fc.
The file goes into llm_analysis/gpu_configs/, and its `name` is what `--gpu_name` takes.

| theirs                             | ours                                                      |
|------------------------------------|-----------------------------------------------------------|
| name                               | our device id                                             |
| mem_per_GPU_in_GB                  | what the driver offers, in 2**30 B (it multiplies by that) |
| hbm_bandwidth_in_GB_per_sec        | dram_read_bytes_per_s: inference reads weights and cache   |
| intra_node_bandwidth_in_GB_per_sec | the datasheet's link, one direction: not calibrated        |
| intra_node_min_message_latency     | 8e-6 s, as all files there have it: no link was timed      |
| peak_fp16_TFLOPS                   | fastest bf16 product of the probes (fp16 was not measured) |
| peak_i8_TFLOPS                     | fastest int8 product, without one the fastest fp8 product  |
| peak_i4_TFLOPS                     | fastest fp4 product, left out where none was measured      |

Rates are achieved ones: leave flops_efficiency and hbm_memory_efficiency at their default 1.

Dropped: inter_node_bandwidth_in_GB_per_sec (default 200 there: we have no network), launches,
intervals. A peak_i4_TFLOPS that is left out becomes 4 x fp16 there. Its reader takes no other key
and JSON has no comments, so the file cannot say where it comes from: keep the command.
"""

import json
from typing import Final

from roofcal.core.units import GB, GIB, TERA
from roofcal.export.subject import READ, Subject

FORMAT = "llm-analysis"
SUFFIX = "json"
_MESSAGE_LATENCY_S: Final = 8e-6  # a100-sxm-80gb.json, h100-sxm-80gb.json and the others there


def write(subject: Subject) -> str:
    """The JSON object; raises ExportError where a constant, datasheet or link is missing."""
    values: dict[str, float | str] = {
        "name": subject.calibration.device,
        "mem_per_GPU_in_GB": subject.memory_bytes / GIB,
        "hbm_bandwidth_in_GB_per_sec": subject.memory(READ).value / GB,
        "intra_node_bandwidth_in_GB_per_sec": subject.link_bytes_per_s / GB,
        "intra_node_min_message_latency": _MESSAGE_LATENCY_S,
        "peak_fp16_TFLOPS": subject.needed_math("bf16").value / TERA,
    }
    for key, rate in (
        ("peak_i8_TFLOPS", subject.math("int8") or subject.math("fp8")),
        ("peak_i4_TFLOPS", subject.math("fp4")),
    ):
        if rate is not None:
            values[key] = rate.value / TERA
    return json.dumps(values, indent=4) + "\n"
