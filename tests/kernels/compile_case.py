"""One kernel to compile ahead of time, and for which architectures kernels are compiled."""

from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from kernels.common.architecture import (
    ARCHITECTURES,
    WITHOUT_E4M3,
    WITHOUT_TENSOR_MEMORY_UNIT,
    Architecture,
)

WITH_E4M3 = tuple(arch for arch in ARCHITECTURES if arch not in WITHOUT_E4M3)
FROM_HOPPER_ON = tuple(arch for arch in ARCHITECTURES if arch not in WITHOUT_TENSOR_MEMORY_UNIT)
NVIDIA_WITH_E4M3 = tuple(arch for arch in WITH_E4M3 if isinstance(arch, int))
AMD_WITH_E4M3 = tuple(arch for arch in WITH_E4M3 if isinstance(arch, str))
# fp8 type -> (its name in Triton, in torch)
FP8 = {"e4m3": ("fp8e4nv", torch.float8_e4m3fn), "e5m2": ("fp8e5", torch.float8_e5m2)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A kernel with the types of its arguments, its constants and its warps.

    wide           whether some accesses must be of 16 bytes per thread
    without        what must not be in the PTX of an NVIDIA GPU
    gluon          written in Gluon: layouts are its own
    num_stages     of loads in flight in a loop; None: Triton's default
    matrix         whether it must use a matrix unit: not (""), "any" or the "fastest"
    odd            sizes that are no multiples of 16, as far as the compiler knows
    """

    kernel: Any
    signature: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    num_warps: int = 4
    architectures: tuple[Architecture, ...] = ARCHITECTURES
    wide: bool = True
    without: tuple[str, ...] = ()
    gluon: bool = False
    num_stages: int | None = None
    matrix: Literal["", "any", "fastest"] = ""
    odd: tuple[str, ...] = ()
