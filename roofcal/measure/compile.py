"""Compile the kernels of a plan before they are timed, on cores that measuring leaves free.

A point is built and called exactly as the timing process does it, but with fake tensors (torch's
FakeTensorMode: shapes and types without memory), and the launch of a Triton or Gluon kernel ends
once its binary and its launcher lie in Triton's cache on disk. torch.compile writes its code to
Inductor's cache and stops before that code would run. The timing process then finds all kernels in
the cache; a compilation took 8 to 38 s there, while the GPU idled. Nothing runs on the GPU, and no
CUDA context is made on purpose, but some was seen: another study may be measuring there.

Compilers and the timing process assemble each kernel with the same one of two ptxas, else it would
have two keys in Triton's cache: roofcal.ops.bench.assemble_with_two_ptxas.

Compilers are forked from a process that has imported everything, which takes 6 s. A compiler that
aborts, as a failing pass of LLVM does, hangs or is killed costs the point that it compiles, and
another one is forked. What is not compiled here (a provider that looks at values, a kernel that
does not compile) is left to the timing process, which reports what is wrong with it as for any
point.
"""

import functools
import hashlib
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import torch
import torch._inductor.config as inductor

# Inductor asks for GPUs while it is imported. Asked without NVML, CUDA is initialised, which no
# process that is forked afterwards can use: nothing of an H100's study was compiled ahead.
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"

from torch._inductor.output_code import CompiledFxGraph
from torch._inductor.runtime.triton_heuristics import CachingAutotuner
from torch._subclasses import fake_tensor
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from kernels.common.operators import kernels_on_fakes
from roofcal.core.jsonl import read_records, read_single_record
from roofcal.core.machine.locks import HOST_CLOCK, is_locked, lock_held
from roofcal.core.records import Environment, PlanPoint
from roofcal.measure.failures import reason_of
from roofcal.measure.session import matching_gpus
from roofcal.measure.workers import describe_exit, dies_with, hold_kernel_cache
from roofcal.ops import BY_NAME
from roofcal.ops.bench import arranged_inputs, assemble_with_two_ptxas, load_bench

LONGEST_S: Final = 120.0  # of the compilation of a point, as `point_timeout_s` of a GPU
_TICK_S: Final = 0.1  # between two looks at whether the host is timed
_BYTES_PER_COMPILER: Final = 2 << 30  # torch, Triton and LLVM: 1.2 to 1.7 GiB resident
_NICENESS: Final = 10  # of compilers and their assemblers: the timing process goes first


def compile_plan(plan: Path, environment: Path, processes: int) -> Iterator[dict[str, Any]]:
    """Compile what the first visible GPU of the environment's kind needs for the points of a plan.

    Points of several devices, and those whose kernels come with a library, are left out; on a CPU
    nothing is compiled ahead, because measuring takes all of its cores.

    Args:
        plan: file of points, the first needed first.
        environment: file of the environment.
        processes: how many compilers run at once, as far as there is memory for them.

    Yields what became of each point, as `compile_points` does; raises MeasureError without such a
    GPU, RecordsError for bad files.
    """
    device = read_single_record(environment, Environment)
    points = [
        point
        for point in read_records(plan, PlanPoint)
        if point.world_size == 1 and point.provider not in BY_NAME[point.op].precompiled
    ]
    if device.vendor == "cpu" or not points:
        return
    os.environ["CUDA_VISIBLE_DEVICES"] = matching_gpus(device)[0]
    available = next(
        line for line in Path("/proc/meminfo").read_text().splitlines() if "MemAvailable" in line
    )
    most = (int(available.split()[1]) << 10) // _BYTES_PER_COMPILER
    yield from compile_points(points, max(1, min(processes, most)))


def compile_points(points: Sequence[PlanPoint], processes: int) -> Iterator[dict[str, Any]]:
    """Compile points, so many at once; what became of each as soon as it is known.

    {"point": id, "kernels": how many were compiled, "seconds": how long it took, "reason": why it
    is not compiled, or None}. While a session holds the lock HOST_CLOCK no compiler runs: what the
    host times would wait for a core.
    """
    hold_kernel_cache()
    # Else each process would start compilers of its own, before it is forked.
    inductor.compile_threads = 1
    import_module("torch._inductor.compile_fx")
    for op in {point.op for point in points}:
        with suppress(Exception):  # a bench that cannot be imported is the failure of each point
            load_bench(op)
    waiting = list(reversed(points))
    idle: list[_Compiler] = []
    busy: dict[Connection, _Compiler] = {}
    before, was_paused = time.monotonic(), False
    try:
        while waiting or busy:
            if (is_paused := is_locked(HOST_CLOCK)) != was_paused:
                was_paused = is_paused
                for compiler in busy.values():
                    compiler.signal(signal.SIGSTOP if is_paused else signal.SIGCONT)
            while waiting and len(busy) < processes and not is_paused:
                compiler = idle.pop() if idle else _Compiler()
                compiler.take(waiting.pop())
                busy[compiler.answers] = compiler
            ready = wait(list(busy), timeout=_TICK_S)
            seconds, before = time.monotonic() - before, time.monotonic()
            for compiler in list(busy.values()):
                compiler.left_s -= 0.0 if is_paused else seconds
                if compiler.answers not in ready and compiler.left_s > 0:
                    continue
                del busy[compiler.answers]
                answer = compiler.answer() if compiler.answers in ready else None
                if answer is None:
                    yield compiler.failed()
                else:
                    idle.append(compiler)
                    yield answer
    finally:
        for compiler in (*busy.values(), *idle):
            compiler.end()


class _Compiler:
    """A forked process that compiles one point after the other.

    left_s  seconds until the compilation of its point has taken too long
    """

    def __init__(self) -> None:
        context = get_context("fork")
        self.answers, other_end = context.Pipe()
        self._process = context.Process(target=_compile_all, args=(other_end, os.getpid()))
        self._process.daemon = True
        self._process.start()
        other_end.close()

    def take(self, point: PlanPoint) -> None:
        """Compile a point; a compiler that has died meanwhile shows when it is asked."""
        self._point, self.left_s = point, LONGEST_S
        with suppress(BrokenPipeError):
            self.answers.send(point)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; its assembler (ptxas, a second or so) goes on to its end."""
        assert self._process.pid is not None
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, number)

    def answer(self) -> dict[str, Any] | None:
        """What became of the point; None where the process has died."""
        with suppress(EOFError, ConnectionError):
            answer: dict[str, Any] = self.answers.recv()
            return answer
        return None

    def failed(self) -> dict[str, Any]:
        """What became of the point of a process that died, or that is too slow and is killed."""
        reason = f"not compiled after {LONGEST_S:g} s"
        if self.left_s > 0:
            self._process.join()
            reason = f"the compiler died ({describe_exit(self._process.exitcode or 0)})"
        self.end()
        return {"point": self._point.point_id, "kernels": 0, "seconds": None, "reason": reason}

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self.signal(signal.SIGKILL)
        self._process.join()
        self.answers.close()


def _compile_all(answers: Connection, parent: int) -> None:
    """Compile the points that come, until the parent ends."""
    if not dies_with(parent):
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, whose end is theirs
    os.nice(_NICENESS)
    os.dup2(2, 1)
    kernels = compile_only()
    while True:
        point: PlanPoint = answers.recv()
        kernels.clear()
        start, reason = time.perf_counter(), None
        try:
            _call_on_fakes(point)
        except Exception as error:  # noqa: BLE001 (the timing process finds out and reports it)
            reason = reason_of(error)
        seconds = round(time.perf_counter() - start, 3)
        said = {"point": point.point_id, "kernels": len(kernels), "seconds": seconds}
        answers.send(said | {"reason": reason})


def compile_only() -> list[str]:
    """Have this process compile kernels and launch none, for good; the names of those compiled."""
    compiled: list[str] = []
    launch, compile_kernel = JITFunction.run, JITFunction._do_compile
    precompile = CachingAutotuner.precompile

    def compile_once(self: Any, key: str, *arguments: Any) -> Any:
        name = f"{self.__module__}.{self.__qualname__}"
        digest = hashlib.sha256(f"{name} {key}".encode()).hexdigest()
        # Of two processes that need a kernel the second one waits, and finds it in the cache.
        with lock_held(f"kernel/{digest}", lambda _: None):
            kernel = compile_kernel(self, key, *arguments)
            driver.active.launcher_cls(kernel.src, kernel.metadata)
        compiled.append(name)
        return kernel

    def compile_instead(self: Any, *arguments: Any, **options: Any) -> Any:
        return launch(self, *arguments, **(options | {"warmup": True}))

    def compile_without_loading(self: Any, *_: Any, **__: Any) -> None:
        precompile(self, warm_cache_only=True)

    def stop(*_: Any) -> Any:
        raise CompiledAheadError

    def without_generator(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        @functools.wraps(function)
        def draw(*arguments: Any, generator: Any = None, **options: Any) -> torch.Tensor:
            del generator
            return function(*arguments, **options)

        return draw

    drawing = ("randn", "rand", "randint", "randperm")
    replaced: list[tuple[Any, dict[str, Any]]] = [
        (JITFunction, {"run": compile_instead, "_do_compile": compile_once}),
        (CompiledFxGraph, {"__call__": stop}),
        (torch, {name: without_generator(getattr(torch, name)) for name in drawing}),
        # Each of these would make a context of CUDA, 0.5 GB on a card that is being measured. The
        # compilers that Inductor starts load no kernel either.
        (fake_tensor, {"init_gpu_context": lambda _: None}),
        (CachingAutotuner, {"precompile": compile_without_loading}),
        (driver.active, {"get_current_stream": lambda _: 0}),
        (torch.cuda, {"set_device": lambda _: None, "synchronize": lambda _=None: None}),
        (torch.cuda, {"current_stream": lambda _=None: SimpleNamespace(cuda_stream=0)}),
        (torch.cuda, {"is_current_stream_capturing": lambda: False}),
    ]
    for owner, attributes in replaced:
        for name, value in attributes.items():
            setattr(owner, name, value)
    assemble_with_two_ptxas()
    torch.set_num_threads(1)
    # FakeTensor warns whenever Triton asks for the alignment of a pointer, which is 0: aligned.
    warnings.filterwarnings("ignore", message="Accessing the data pointer of FakeTensor")
    return compiled


class CompiledAheadError(Exception):
    """Raised where compiled code would run: what was wanted of it lies on disk already."""


class ValuelessTensors(fake_tensor.FakeTensorMode):
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


def _call_on_fakes(point: PlanPoint) -> None:
    """Build and call a point on fake tensors; raises whatever the provider raises."""
    with ValuelessTensors(allow_non_fake_inputs=True):
        bench = load_bench(point.op)
        # Benches read nothing of a generator but its device.
        generator: Any = SimpleNamespace(device=torch.device("cuda:0"))
        distribution = point.protocol.distribution
        inputs = bench.make_inputs(point.recipe, point.shape, generator, distribution)
        call = bench.build(point.provider, point.recipe, point.shape)
        own_inputs = arranged_inputs(bench, point.provider, point.recipe, inputs)
        with suppress(CompiledAheadError):
            call(own_inputs)
        with kernels_on_fakes(), torch.compiler.set_stance("force_eager"):
            call(own_inputs)
