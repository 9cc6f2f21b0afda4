"""Which architecture a tensor's GPU has and what it can do. No other module asks the driver.

Architectures are named as in Triton: 80 to 120 (NVIDIA, sm_80 to sm_120), "gfx942" and "gfx950"
(AMD). The compile tests walk ARCHITECTURES.
"""

from functools import cache
from typing import Final

import torch
import triton

Architecture = int | str
ARCHITECTURES: Final[tuple[Architecture, ...]] = (80, 89, 90, 100, 120, "gfx942", "gfx950")
# Largest dynamic shared memory of one block, bytes (CUDA C++ Programming Guide, compute
# capabilities; AMD CDNA3 and CDNA4 ISA guides for LDS). Triton 3.6 does not check it ahead of time.
SHARED_MEMORY_LIMIT: Final[dict[Architecture, int]] = {
    80: 166912,
    89: 101376,
    90: 232448,
    100: 232448,
    120: 101376,
    "gfx942": 65536,
    "gfx950": 163840,
}
# What an architecture lacks, and why; the compile test tries both. gfx942 converts to e4m3 step by
# step, because its own instructions know another format (fnuz, whose largest value is 240).
WITHOUT_E4M3: Final[dict[Architecture, str]] = {
    80: "no instruction converts to e4m3; e5m2 is cut from fp16"
}
WITHOUT_TENSOR_MEMORY_UNIT: Final[dict[Architecture, str]] = dict.fromkeys(
    (80, 89, "gfx942", "gfx950"), "Gluon kernels for it have a twin in plain Triton"
)
_FIRST_WITH_E4M3: Final = (8, 9)
_FIRST_WITH_TENSOR_MEMORY_UNIT: Final = (9, 0)
_HOPPER: Final = (9, 0)


def is_amd_build() -> bool:
    """Whether this torch was built for AMD GPUs, which it calls cuda as well."""
    return torch.version.hip is not None


def compute_capability(x: torch.Tensor) -> tuple[int, int] | None:
    """The compute capability of x's NVIDIA GPU; None on AMD GPUs and in the interpreter."""
    if not x.is_cuda or is_amd_build():
        return None
    return torch.cuda.get_device_capability(x.device)


def has_ptx(x: torch.Tensor) -> bool:
    """Whether kernels on x may contain PTX: on NVIDIA GPUs, not in the interpreter."""
    return x.is_cuda and not is_amd_build()


def is_hopper(x: torch.Tensor) -> bool:
    """Whether x's GPU runs wgmma (warpgroup matrix products), which only sm_90 has."""
    return compute_capability(x) == _HOPPER


def has_tensor_memory_unit(x: torch.Tensor) -> bool:
    """Whether descriptors of x are read by a tensor memory unit: NVIDIA GPUs from 9.0 on."""
    capability = compute_capability(x)
    return capability is not None and capability >= _FIRST_WITH_TENSOR_MEMORY_UNIT


def lacks_e4m3(x: torch.Tensor) -> bool:
    """Whether x's GPU cannot convert to e4m3; AMD GPUs and the interpreter can."""
    capability = compute_capability(x)
    return capability is not None and capability < _FIRST_WITH_E4M3


def shared_memory_bytes(x: torch.Tensor) -> int:
    """Bytes of shared memory that a block on x's GPU may have, from the driver; 0 without a GPU."""
    return _shared_memory_of_device(x.get_device()) if x.is_cuda else 0


@cache  # the driver takes microseconds to answer
def _shared_memory_of_device(device: int) -> int:
    properties = triton.runtime.driver.active.utils.get_device_properties(device)
    size_bytes: int = properties["max_shared_mem"]
    return size_bytes


def compute_units(x: torch.Tensor) -> int:
    """Multiprocessors of x's GPU; 1 in the interpreter, which runs programs one by one."""
    if not x.is_cuda:
        return 1
    return int(torch.cuda.get_device_properties(x.device).multi_processor_count)
