"""The process that compiles points before they are timed, without any work on the device.

The first line out says `ready`. One JSON line in is one plan point; one line out is {"point": id,
"kernels": n, "seconds": s, "reason": text or null}. A point is built and called exactly as the
timing process does it, but with fake tensors (torch's FakeTensorMode: shapes and types without
memory), and the launch of a Triton or Gluon kernel ends once its binary and its launcher lie in
Triton's cache on disk. torch.compile writes its code to Inductor's cache and stops before that code
would run. The timing process then finds both caches warm: a compilation took 8 to 38 s there, while
the GPU idled.

A point that cannot be compiled here (a provider that looks at values, a kernel that does not
compile) is left to the timing process, which reports what is wrong with it as for any point.
"""

import ctypes
import fcntl
import functools
import hashlib
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

import torch
import torch._functorch.config as functorch
import torch._inductor.config as inductor
from torch._inductor.output_code import CompiledFxGraph
from torch._subclasses.fake_tensor import FakeTensorMode
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from kernels.common.operators import kernels_on_fakes
from roofcal.core.jsonl import decode
from roofcal.core.records import PlanPoint
from roofcal.measure.failures import reason_of
from roofcal.ops.bench import arranged_inputs, load_bench

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_NICENESS: Final = 10  # of it and the assemblers that it starts: the timing process goes first


class CompiledAheadError(Exception):
    """Raised where compiled code would run: what was wanted of it lies on disk already."""


class FakeDevice:
    """The device of a generator of fake tensors: benches read nothing else of a generator."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)


@contextmanager
def compiling_only(locks: Path) -> Iterator[list[str]]:
    """Within it, kernels are compiled and never launched; gives the names of those compiled.

    Args:
        locks: folder of one lock file per kernel, which the processes of a pool share: two of them
            that need one kernel wait for each other, and the second finds it in the cache.
    """
    compiled: list[str] = []
    launch, compile_kernel = JITFunction.run, JITFunction._do_compile
    run_graph = CompiledFxGraph.__call__

    def compile_once(self: Any, key: str, *arguments: Any) -> Any:
        name = f"{self.__module__}.{self.__qualname__}"
        with _locked(locks / hashlib.sha256(f"{name} {key}".encode()).hexdigest()):
            kernel = compile_kernel(self, key, *arguments)
            driver.active.launcher_cls(kernel.src, kernel.metadata)
        compiled.append(name)
        return kernel

    def compile_only(self: Any, *arguments: Any, **options: Any) -> Any:
        return launch(self, *arguments, **(options | {"warmup": True}))

    def stop(*_: Any) -> Any:
        raise CompiledAheadError

    JITFunction.run, JITFunction._do_compile = compile_only, compile_once
    CompiledFxGraph.__call__ = stop  # type: ignore[method-assign, assignment]
    try:
        yield compiled
    finally:
        JITFunction.run, JITFunction._do_compile = launch, compile_kernel
        CompiledFxGraph.__call__ = run_graph  # type: ignore[method-assign]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def fake_inputs() -> Iterator[None]:
    """Within it tensors have no memory, random numbers need no generator, values read are 0."""
    random = {name: getattr(torch, name) for name in ("randn", "rand", "randint", "randperm")}

    def without_generator(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        @functools.wraps(function)
        def draw(*arguments: Any, generator: Any = None, **options: Any) -> torch.Tensor:
            del generator
            return function(*arguments, **options)

        return draw

    for name, function in random.items():
        setattr(torch, name, without_generator(function))
    try:
        with ValuelessTensors(allow_non_fake_inputs=True):
            yield
    finally:
        for name, function in random.items():
            setattr(torch, name, function)


class ValuelessTensors(FakeTensorMode):
    """FakeTensorMode, but 0 where code reads a value of a tensor: packing int4 checks their range.

    No second TorchDispatchMode does this: torch.compile leaves code alone where one is active.
    """

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        if function is torch.ops.aten._local_scalar_dense.default:
            dtype = arguments[0].dtype
            return False if dtype == torch.bool else 0.0 if dtype.is_floating_point else 0
        return super().__torch_dispatch__(function, types, arguments, options or {})


def compile_point(point: PlanPoint, device: str) -> None:
    """Build and call a point on fake tensors; raises whatever the provider raises."""
    bench = load_bench(point.op)
    inputs = bench.make_inputs(
        point.recipe,
        point.shape,
        FakeDevice(device),  # type: ignore[arg-type]
        point.protocol.distribution,
    )
    call = bench.build(point.provider, point.recipe, point.shape)
    own_inputs = arranged_inputs(bench, point.provider, point.recipe, inputs)
    with suppress(CompiledAheadError):
        call(own_inputs)
    with kernels_on_fakes(), torch.compiler.set_stance("force_eager"):
        call(own_inputs)


def answer(line: str, device: str, locks: Path) -> dict[str, Any]:
    """What is said of one plan point, given as the text of its record."""
    point = decode(line)
    assert isinstance(point, PlanPoint)
    start, reason = time.perf_counter(), None
    with compiling_only(locks) as kernels, fake_inputs():
        try:
            compile_point(point, device)
        except Exception as error:  # noqa: BLE001 (the timing process finds out and reports it)
            reason = reason_of(error)
    seconds = round(time.perf_counter() - start, 3)
    return {
        "point": point.point_id,
        "kernels": len(kernels),
        "seconds": seconds,
        "reason": reason,
    }


def run(setup: Mapping[str, Any], lines: IO[str], answers: IO[str]) -> None:
    """Say that the process is ready, then compile one point per line until the input ends."""
    # Else a backward pass is compiled when it first runs, which is in the timing process: on a CPU
    # that took 16 s of the 25 s of a first call.
    functorch.force_non_lazy_backward_lowering = True
    inductor.compile_threads = 1  # the pool has as many processes as it may use cores
    torch.set_num_threads(1)
    # FakeTensor warns whenever Triton asks for the alignment of a pointer, which is 0: aligned.
    warnings.filterwarnings("ignore", message="Accessing the data pointer of FakeTensor")
    answers.write('{"ready": true}\n')
    answers.flush()
    for line in lines:
        said = answer(line, setup["torch_device"], Path(setup["locks"]))
        answers.write(json.dumps(said) + "\n")
        answers.flush()


def main() -> None:
    """Entry of the process: argv[1] is the set-up as JSON; points in and answers out by pipes."""
    setup = json.loads(sys.argv[1])
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.nice(_NICENESS)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    run(setup, sys.stdin, answers)


if __name__ == "__main__":
    main()
