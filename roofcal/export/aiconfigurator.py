"""`aiconfigurator`: a system of NVIDIA's AIConfigurator.

Consumer: ai-dynamo/aiconfigurator, aic-core/src/aiconfigurator_core/systems/*.yaml (read as
h200_sxm.yaml at 43bee4b805ae of the fork redhat-performance/aiconfigurator), PerfDatabase of its
SDK and SystemSpec of its Rust core. Units are SI.

| theirs                              | ours                                                     |
|-------------------------------------|----------------------------------------------------------|
| gpu.mem_bw                          | the datasheet's bandwidth: the base of its speed of light |
| gpu.mem_bw_empirical_scaling_factor | dram_copy_bytes_per_s / gpu.mem_bw                       |
| gpu.mem_empirical_constant_latency  | launch_graph_s                                           |
| gpu.mem_capacity                    | what the driver offers                                   |
| gpu.*_tc_flops                      | the datasheet's dense rates                              |
| gpu.power, gpu.sm_version           | the datasheet's power limit and architecture             |
| node.intra_node_bw                  | the datasheet's link, one direction                      |
| misc.vendor, architecture, name     | vendor, architecture, and what torch prints              |

Memory operations cost bytes / (mem_bw * factor) + latency there, as they do in our calibration.

Dropped: measured rates of products (its system file has no efficiency of math: it measures tables
of GEMMs of its own, and divides its speed of light by a constant 0.8 elsewhere; comments name ours)
and intervals. Not ours, and marked so: the node around the GPU, the memory that NCCL and the
runtime take, nccl_version (names a folder of tables there) and data_dir: those of h200_sxm.yaml.
"""

from typing import Final

from roofcal.export.errors import ExportError
from roofcal.export.subject import COPY, LAUNCH, Subject, comment

FORMAT = "aiconfigurator"
SUFFIX = "yaml"
_FLOPS: Final = {"bf16": "bfloat16", "int8": "int8", "fp8": "fp8", "fp4": "fp4"}
# Folders of systems/data there, by our device; of others nothing was collected.
_DATA: Final = {
    "nvidia-a100-sxm-80gb": "a100_sxm",
    "nvidia-h200": "h200_sxm",
    "nvidia-b200": "b200_sxm",
    "nvidia-b300": "b300_sxm",
    "nvidia-gb200": "gb200",
}
_NODE: Final = {
    "num_gpus_per_node": 8,
    "inter_node_bw": 50_000_000_000,
    "pcie_bw": 64_000_000_000,
    "p2p_latency": 0.00001,
}
_NCCL_BYTES: Final = {1: 0, 2: 358612992, 4: 411041792, 8: 411041792}
_OTHER_BYTES: Final = 3758096384
_NCCL_VERSION: Final = "2.26.2"
_NOT_OURS: Final = "not ours: as in its h200_sxm.yaml; set it for your machine"


def write(subject: Subject) -> str:
    """The YAML file; raises ExportError where something is missing, and for other vendors."""
    spec, device = subject.sheet, subject.calibration.device
    if spec.vendor != "nvidia":
        raise ExportError(f"describes GPUs by their sm_version, and {device} is none of NVIDIA's")
    lines = [
        f"data_dir: data/{_DATA.get(device, device)}  # its own tables of measured operators",
        "gpu:",
        *_gpu(subject),
        "",
        "node:",
        *(f"  {key}: {_plain(value)}  # {_NOT_OURS}" for key, value in _NODE.items()),
        f"  intra_node_bw: {_plain(subject.link_bytes_per_s)}  # datasheet, one direction",
        "",
        "misc:",
        f"  nccl_mem:  # {_NOT_OURS}",
        *(f"    {gpus}: {count}" for gpus, count in _NCCL_BYTES.items()),
        f"  other_mem: {_OTHER_BYTES}  # {_NOT_OURS}",
        f"  nccl_version: {_NCCL_VERSION!r}  # {_NOT_OURS}",
        f"  vendor: {spec.vendor!r}",
        f"  architecture: {spec.architecture!r}",
        f"  name: {subject.device_name!r}",
    ]
    head = ["For aiconfigurator: systems/<name>.yaml", *subject.provenance(FORMAT)]
    return comment(head) + "\n".join(lines) + "\n"


def _gpu(subject: Subject) -> list[str]:
    spec, memory, launch = subject.sheet, subject.memory(COPY), subject.constant(LAUNCH)
    lines = [
        f"mem_bw: {_plain(memory.peak)}  # datasheet",
        f"mem_bw_empirical_scaling_factor: {_plain(memory.fraction)}  # {COPY} / mem_bw",
        f"mem_empirical_constant_latency: {_plain(launch.value)}  # {LAUNCH}",
        f"mem_capacity: {subject.memory_bytes}",
    ]
    for dtype, key in _FLOPS.items():
        printed = spec.peak_flops_per_s.get(dtype)
        if printed is not None:
            lines.append(
                f"{key}_tc_flops: {_plain(printed)}  # datasheet{_measured(subject, dtype)}"
            )
    lines += [
        f"power: {_plain(spec.power_limit_w)}",
        f"sm_version: {int(spec.architecture.removeprefix('sm_'))}",
    ]
    return [f"  {line}" for line in lines]


def _measured(subject: Subject, dtype: str) -> str:
    rate = subject.math(dtype)
    return "" if rate is None else f"; {rate.name} is {rate.value:.4g}"


def _plain(value: float) -> str:
    """A number as YAML 1.1 reads it: 5.0e-07, because 5e-07, without a point, is text there."""
    text = repr(value)
    head, mark, tail = text.partition("e")
    return f"{head}.0e{tail}" if mark and "." not in head else text
