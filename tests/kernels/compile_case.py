"""One kernel to compile ahead of time."""

from dataclasses import dataclass, field
from typing import Any

from kernels.common.configs import ARCHITECTURES, Architecture


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A kernel with the types of its arguments, its constants and its warps.

    wide           whether some accesses must be of 16 bytes per thread
    without        what must not be in the PTX of an NVIDIA GPU
    gluon          written in Gluon: layouts are its own
    num_stages     of loads in flight in a loop; None: Triton's default
    matrix         whether it must use the matrix unit of the architecture
    odd_sizes      sizes are no multiples of 16, as far as the compiler knows
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
    matrix: bool = False
    odd_sizes: bool = False
