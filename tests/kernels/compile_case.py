"""One kernel to compile ahead of time, and for which architectures kernels are compiled.

`launched` makes a case of what a call launches; others list types and constants themselves.
"""

import inspect
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal
from unittest import mock

import torch
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction, mangle_type

from kernels.common import operators
from kernels.common.architecture import (
    ARCHITECTURES,
    WITHOUT_E4M3,
    WITHOUT_TENSOR_MEMORY_UNIT,
    Architecture,
)
from tests.kernels.on_gpus import TensorOnGpu

WITH_E4M3 = tuple(arch for arch in ARCHITECTURES if arch not in WITHOUT_E4M3)
FROM_HOPPER_ON = tuple(arch for arch in ARCHITECTURES if arch not in WITHOUT_TENSOR_MEMORY_UNIT)
NVIDIA_WITH_E4M3 = tuple(arch for arch in WITH_E4M3 if isinstance(arch, int))
AMD_WITH_E4M3 = tuple(arch for arch in WITH_E4M3 if isinstance(arch, str))
# fp8 type -> (its name in Triton, in torch)
FP8 = {"e4m3": ("fp8e4nv", torch.float8_e4m3fn), "e5m2": ("fp8e5", torch.float8_e5m2)}
_OPTIONS = ("num_warps", "num_stages", "launch_pdl")


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


def on_gpu(dtype: torch.dtype, *size: int) -> torch.Tensor:
    """A tensor without memory, for `launched`."""
    return torch.empty(size, dtype=dtype, device="meta").as_subclass(TensorOnGpu)


def launched(
    call: Callable[[], object], *, capability: tuple[int, int] = (9, 0), **how: Any
) -> Case:
    """The one launch of a call, on a GPU of this capability with an H200's multiprocessors.

    Nothing runs. how: what a launch does not tell, of the fields of Case.
    """
    noted: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def note(kernel: Any, *args: Any, grid: Any, warmup: bool, **named: Any) -> None:
        del grid, warmup
        noted.append((kernel, args, named))

    answers: dict[str, tuple[Any, Any]] = {
        "run": (JITFunction, note),
        "get_device_capability": (torch.cuda, lambda _: capability),
        "get_device_properties": (torch.cuda, lambda _: SimpleNamespace(multi_processor_count=132)),
        "on_device_of": (operators, lambda _: nullcontext()),
    }
    with ExitStack() as stack:
        for name, (owner, answer) in answers.items():
            stack.enter_context(mock.patch.object(owner, name, answer))
        # Tests interpret kernels in plain Triton.
        stack.enter_context(mock.patch.object(InterpretedFunction, "run", note))
        call()
    ((kernel, args, named),) = noted
    options = {name: named.pop(name) for name in _OPTIONS if name in named}
    options.pop("launch_pdl", None)
    given = dict(zip(kernel.arg_names, args, strict=False)) | named
    parameters = inspect.signature(kernel.fn).parameters
    constants = {
        name: value
        for name, value in given.items()
        if value is None or "constexpr" in str(parameters[name].annotation)
    }
    signature = {name: mangle_type(value) for name, value in given.items() if name not in constants}
    gluon = isinstance(kernel, JITFunction) and kernel.is_gluon()
    return Case(
        kernel=kernel, signature=signature, constants=constants, gluon=gluon, **options, **how
    )
