"""One kernel to compile ahead of time, as a call launches it, and for which architectures."""

import inspect
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from unittest import mock

import torch
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction, mangle_type

from kernels.common import architecture as gpus
from kernels.common import operators, replay
from kernels.common.architecture import (
    ARCHITECTURES,
    SHARED_MEMORY_LIMIT,
    WITHOUT_E4M3,
    Architecture,
)
from tests.kernels.on_gpus import H200

WITH_E4M3 = tuple(arch for arch in ARCHITECTURES if arch not in WITHOUT_E4M3)
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
    """A tensor without memory, which `launches` takes for one on its GPU."""
    return torch.empty(size, dtype=dtype, device="meta")


def launched(
    call: Callable[[], object],
    architecture: Architecture = 90,
    *,
    odd: tuple[str, ...] = (),
    **how: Any,
) -> Case:
    """The one launch of a call, as if its sizes but the `odd` ones were multiples of 16."""
    (case,) = launches(call, architecture)
    return replace(case, odd=odd, **how)


def launches(call: Callable[[], object], architecture: Architecture) -> list[Case]:
    """What a call launches on a GPU of this architecture, with an H200's multiprocessors.

    Nothing runs.
    """
    noted: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def note(kernel: Any, *args: Any, grid: Any, warmup: bool, **named: Any) -> None:
        del grid, warmup
        noted.append((kernel, args, named))

    is_amd = isinstance(architecture, str)
    capability = divmod(architecture, 10) if isinstance(architecture, int) else None
    answers: tuple[tuple[Any, str, Any], ...] = (
        (torch.Tensor, "is_cuda", True),
        (torch.Tensor, "get_device", lambda _: 0),
        (torch.version, "hip", "6.4" if is_amd else None),
        (torch.cuda, "get_device_capability", lambda _: capability),
        (torch.cuda, "get_device_properties", lambda _: H200),
        (gpus, "_shared_memory_of_device", lambda _: SHARED_MEMORY_LIMIT[architecture]),
        (operators, "on_device_of", lambda _: nullcontext()),
        (replay, "_is_called_as_it_is", lambda _: True),
        (JITFunction, "run", note),
        (InterpretedFunction, "run", note),  # tests interpret kernels in plain Triton
    )
    with ExitStack() as stack:
        for owner, name, answer in answers:
            stack.enter_context(mock.patch.object(owner, name, answer))
        call()
    return [_case_of(*launch) for launch in noted]


def _case_of(kernel: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Case:
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
    odd = tuple(name for name in signature if isinstance(given[name], int) and given[name] % 16)
    gluon = isinstance(kernel, JITFunction) and kernel.is_gluon()
    return Case(
        kernel=kernel, signature=signature, constants=constants, odd=odd, gluon=gluon, **options
    )
