"""An op whose recipes break in the ways that providers do; everything else about it is real."""

import ctypes
import os
import resource
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from roofcal.ops.bench import Call, Inputs
from roofcal.ops.spec import Unsupported

CALLS = {"count": 0}
_TIMED = (
    6  # behind the check and three calls to set up; a turn to settle and one that counts follow
)


def make_inputs(
    recipe: str, shape: Mapping[str, int], generator: torch.Generator, distribution: str
) -> dict[str, torch.Tensor]:
    if recipe == "has_no_memory_for_its_inputs":
        return {"x": torch.empty(1 << 60)}
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    x = torch.randn(shape["m"], generator=generator, device=generator.device)
    if "PAGE_FAULTS" in os.environ:
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
        with Path(os.environ["PAGE_FAULTS"]).open("a") as stream:
            stream.write(f"{faults}\n")
    return {"x": x}


def build(provider: str, recipe: str, shape: Mapping[str, int]) -> Call:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if recipe in AT_BUILD:
        AT_BUILD[recipe]()
    CALLS["count"] = 0
    return lambda inputs: later(recipe, inputs)


def later(recipe: str, inputs: Inputs) -> torch.Tensor:
    """The call; what breaks while timed does so once it is timed, however slow the machine is."""
    CALLS["count"] += 1
    if recipe in ON_THE_CARD:
        ON_THE_CARD[recipe](inputs["x"])
    if CALLS["count"] >= _TIMED and recipe in WHILE_TIMED:
        WHILE_TIMED[recipe]()
    return inputs["x"] * 2


def relative_error(recipe: str, inputs: Inputs, output: torch.Tensor) -> float:
    float(output.sum())  # waits for the device
    return {"is_wrong": 0.5, "gives_NaN": float("nan")}.get(recipe, 0.0)


def tolerance(recipe: str) -> float:
    return 0.01


def refuse() -> None:
    raise Unsupported("n must be a multiple of 16")


def raise_not_implemented() -> None:
    raise NotImplementedError("no fp8 here")


def raise_runtime_error() -> None:
    raise RuntimeError("CUBLAS_STATUS_INTERNAL_ERROR\nsecond line")


def allocate() -> None:
    torch.empty(1 << 60)


def segfault() -> None:
    ctypes.string_at(0)


def hang() -> None:
    with Path(os.environ["TRACE"]).with_name("hanging").open("a") as stream:
        stream.write(f"{os.getpid()}\n")  # see runs.hangs_are_noted
    time.sleep(1000)


def kill_the_session_and_hang() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(1000)


def read_out_of_bounds(x: torch.Tensor) -> None:
    x[torch.full((1,), 1 << 30, device=x.device)]


def never_end(_: torch.Tensor) -> None:
    for _minute in range(60):
        torch.cuda._sleep(100_000_000_000)  # type: ignore[no-untyped-call]


AT_BUILD: dict[str, Callable[[], object]] = {
    "refuses": refuse,
    "is_not_implemented": raise_not_implemented,
    "raises": raise_runtime_error,
    "hangs": hang,
    "kills_the_session_and_hangs": kill_the_session_and_hang,
}
WHILE_TIMED: dict[str, Callable[[], object]] = {
    "raises_while_timed": raise_runtime_error,
    "has_no_memory_while_timed": allocate,
    "segfaults_while_timed": segfault,
}
ON_THE_CARD: dict[str, Callable[[torch.Tensor], object]] = {
    "reads_out_of_bounds": read_out_of_bounds,
    "never_ends": never_end,
}
