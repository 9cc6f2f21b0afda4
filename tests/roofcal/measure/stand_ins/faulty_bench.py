"""An op whose recipes break in the ways that providers do; everything else about it is real.

Of a recipe "<rank>_<what>" that rank breaks alone, of "all_<what>" all do. Where several ranks
share a point, the call gathers the data of all.
"""

import ctypes
import os
import resource
import signal
import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

import torch
from torch import distributed

from roofcal.ops.bench import Call, Inputs
from roofcal.ops.spec import Unsupported

# Behind the check and the calls to set up; a turn to settle and one that counts follow.
_TIMED = 6


def mishap(recipe: str) -> str:
    """What this process does wrong; "" or a name that stands for no deed: nothing."""
    who, _, what = recipe.partition("_")
    if who not in ("0", "1", "all"):
        return recipe
    return what if who in ("all", str(distributed.get_rank())) else ""


def make_inputs(
    recipe: str, shape: Mapping[str, int], generator: torch.Generator, distribution: str
) -> dict[str, torch.Tensor]:
    if mishap(recipe) == "has_no_memory_for_its_inputs":
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
    what, calls = mishap(recipe), count(1)
    if what in AT_BUILD:
        AT_BUILD[what]()
    return lambda inputs: called(what, inputs, next(calls))


def called(what: str, inputs: Inputs, number: int) -> torch.Tensor:
    """The call; what breaks while timed does so once it is timed, however slow the machine is."""
    if what in AT_CALL:
        AT_CALL[what](inputs["x"])
    if number >= _TIMED and what in WHILE_TIMED:
        WHILE_TIMED[what]()
    if not distributed.is_initialized():
        return inputs["x"] * 2
    parts = [torch.empty_like(inputs["x"]) for _ in range(distributed.get_world_size())]
    distributed.all_gather(parts, inputs["x"])
    return torch.stack(parts)


def relative_error(recipe: str, inputs: Inputs, output: torch.Tensor) -> float:
    """Large where it is asked to be; ranks with equal data would be as bad."""
    float(output.sum())  # waits for the device
    if output.dim() > 1 and bool((output == output[0]).all()):
        return 1.0
    return {"is_wrong": 0.5, "gives_NaN": float("nan")}.get(mishap(recipe), 0.0)


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


def note_hang() -> None:
    """Tell the test that nothing comes any more of this process, see runs.hangs_are_noted."""
    with Path(os.environ["TRACE"]).with_name("hanging").open("a") as stream:
        stream.write(f"{os.getpid()}\n")


def hang() -> None:
    note_hang()
    time.sleep(1000)


def kill_the_session_and_hang() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(1000)


def raise_before_the_others_meet(_: torch.Tensor) -> None:
    note_hang()  # the others wait for this rank
    raise_runtime_error()


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
AT_CALL: dict[str, Callable[[torch.Tensor], object]] = {
    "is_slow": lambda _: time.sleep(0.002),
    "raises_before_the_others_meet": raise_before_the_others_meet,
    "reads_out_of_bounds": read_out_of_bounds,
    "never_ends": never_end,
}
WHILE_TIMED: dict[str, Callable[[], object]] = {
    "raises_while_timed": raise_runtime_error,
    "has_no_memory_while_timed": allocate,
    "segfaults_while_timed": lambda: ctypes.string_at(0),
    "exits_while_timed": lambda: os._exit(11),
    "is_killed_while_timed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "hangs_while_timed": hang,
}
