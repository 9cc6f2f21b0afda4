"""Which GPU a tensor lies on, what it can do, and how much of it kernels take.

No other module asks the driver.

Architectures are named as in Triton: 80 to 120 (NVIDIA, sm_80 to sm_120), "gfx942" and "gfx950"
(AMD). The compile tests walk ARCHITECTURES.
"""

import threading
from contextlib import AbstractContextManager, nullcontext
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
# What the largest tiles of products need: 128 x 256 x 128 with four stages takes 230,432 bytes.
LARGE_TILES_BYTES: Final = 232448
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


def has_large_tiles(x: torch.Tensor) -> bool:
    """Whether x's GPU has the shared memory of large tiles; the interpreter has."""
    if not x.is_cuda:
        return True
    return has_tensor_memory_unit(x) and shared_memory_bytes(x) >= LARGE_TILES_BYTES


@cache  # the driver takes microseconds to answer
def _shared_memory_of_device(device: int) -> int:
    properties = triton.runtime.driver.active.utils.get_device_properties(device)
    size_bytes: int = properties["max_shared_mem"]
    return size_bytes


_ON_THE_CURRENT_DEVICE: Final = nullcontext()
_OF_THREAD: Final = threading.local()


def on_device_of(x: torch.Tensor) -> AbstractContextManager[object]:
    """A scope in which x's GPU is the current device, as operators of torch work.

    Triton launches on the current device, whose streams and counters a call takes as well.
    """
    if not x.is_cuda:
        return _ON_THE_CURRENT_DEVICE
    index = x.get_device()
    if index != torch.cuda.current_device():
        return torch.cuda.device(index)
    if not hasattr(_OF_THREAD, "has_context"):
        # A thread has no context of CUDA before it sets a device or launches something by torch. A
        # backward pass that begins with one of our kernels would fail at its first descriptor.
        torch.cuda.set_device(index)
        _OF_THREAD.has_context = True
    return _ON_THE_CURRENT_DEVICE


_limit: int | None = None


def limit_units(units: int | None) -> None:
    """Let kernels of this process take at most so many multiprocessors; None: all that there are.

    It holds for persistent kernels, whose programs stay, on every GPU and thread, until it is set
    anew; the argument `units` of a call overrules it. Kernels whose programs end soon run on all,
    int4 products too.

    Raises ValueError unless it is a whole number above 0, and RuntimeError under torch.compile:
    graphs read the limit when they run.
    """
    global _limit  # noqa: PLW0603 (the backward pass runs in threads of its own)
    if torch.compiler.is_compiling():
        raise RuntimeError("limit_units: call it outside of what torch.compile compiles")
    if units is not None:
        _check_units(units)
    _limit = units


def units_limit() -> int | None:
    """What limit_units has set: kernels that are chosen or recorded depend on it."""
    return _limit


def compute_units(x: torch.Tensor, units: int | None = None) -> int:
    """Multiprocessors of x's GPU that a kernel takes: at most `units`, or what limit_units says.

    1 in the interpreter, which runs programs one by one. Raises ValueError as limit_units does.
    """
    if units is not None:
        _check_units(units)
    if not x.is_cuda:
        return 1
    there = int(torch.cuda.get_device_properties(x.device).multi_processor_count)
    most = _limit if units is None else units
    return there if most is None else min(there, most)


def _check_units(units: int) -> None:
    if type(units) is not int or units < 1:
        raise ValueError(f"units: wanted a whole number of multiprocessors above 0, got {units!r}")
