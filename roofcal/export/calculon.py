"""`calculon`: a system of Calculon.

Consumer: calculon-ai/calculon, classes System (calculon/system.py at 345f8934e7f2), Processor
(f50f3a4838f6), Memory (b2fe8157efd8) and Network (71f643532f67), and systems/h100_80g_nvl8.json as
the example.

| theirs                  | ours                                                                   |
|-------------------------|------------------------------------------------------------------------|
| matrix.<type>.tflops    | the datasheet's rate                                                   |
| ... gflops_efficiency   | one step: fastest product of the probes / that rate                    |
| vector.<type>.tflops    | the datasheet's fp32 rate, efficiency 1: not calibrated                |
| mem1.GiB, GBps          | what the driver offers, the datasheet's bandwidth                      |
| mem1.MB_efficiency      | one step: dram_copy_bytes_per_s / that bandwidth                 |
| mem2                    | capacity 0: no memory to offload to was measured                       |
| processing_mode         | roofline, as all our models                                            |
| networks[0]             | the datasheet's link in a node of eight, efficiency 1, latency 0       |

Types: bfloat16, float8 where calibrated, and float16, which takes bf16's fraction of its own rate
(fp16 was not measured; both run on the same units). Collectives are rings of n (Patarasuk and Yuan,
2009): reduce-scatter and all-gather move (n - 1)/n of the data, all-reduce twice that; as Calculon
has it, [scale, offset] is size * scale * (1 + offset/n). mem2.GBps is 1 only to divide by.

Dropped: launches and the dependence of efficiency on size (our model has tiles and waves, Calculon
a table of steps), networks between nodes, intervals. Its reader passes over top-level keys that it
does not know; `roofcal` holds the provenance.
"""

import json
from typing import Any, Final

from roofcal.core.units import GB, GIB, TERA
from roofcal.export.subject import COPY, Rate, Subject

FORMAT = "calculon"
SUFFIX = "json"
_GPUS_PER_NODE: Final = 8  # of systems/h100_80g_nvl8.json and a100_80g.json: HGX boards
_RING: Final = {
    "p2p": [1.0, None],
    "reduce_scatter": [1.0, -1],
    "all_gather": [1.0, -1],
    "all_reduce": [2.0, -1],
}


def write(subject: Subject) -> str:
    """The JSON object; raises ExportError where a constant, datasheet or link is missing."""
    matrix, memory = _matrix(subject), subject.memory(COPY)
    scalar = {"tflops": subject.printed_math("fp32") / TERA, "gflops_efficiency": [[0, 1.0]]}
    system = {
        "roofcal": subject.provenance(FORMAT),
        "matrix": matrix,
        "vector": dict.fromkeys(matrix, scalar),
        "mem1": {
            "GiB": subject.memory_bytes / GIB,
            "GBps": memory.peak / GB,
            "MB_efficiency": [[0, memory.fraction]],
        },
        "mem2": {"GiB": 0, "GBps": 1, "MB_efficiency": [[0, 1.0]]},
        "processing_mode": "roofline",
        "networks": [_network(subject)],
    }
    return json.dumps(system, indent=2) + "\n"


def _matrix(subject: Subject) -> dict[str, Any]:
    bf16, fp8 = subject.needed_math("bf16"), subject.math("fp8")
    found = {"bfloat16": _engine(bf16)}
    half = subject.sheet.peak_flops_per_s.get("fp16")
    if half is not None:
        found["float16"] = {
            "tflops": half / TERA,
            "gflops_efficiency": [[0, bf16.fraction]],
        }
    if fp8 is not None:
        found["float8"] = _engine(fp8)
    return found


def _engine(rate: Rate) -> dict[str, Any]:
    return {"tflops": rate.peak / TERA, "gflops_efficiency": [[0, rate.fraction]]}


def _network(subject: Subject) -> dict[str, Any]:
    return {
        "bandwidth": subject.link_bytes_per_s / GB,
        "efficiency": 1.0,
        "size": _GPUS_PER_NODE,
        "latency": 0.0,
        "ops": _RING,
        "must_be_filled": False,
        "processor_usage": 0.0,
    }
