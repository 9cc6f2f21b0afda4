"""An op of several devices one of whose ranks breaks, as its recipe says: "<rank>_<what it does>".

Everything else about it is real: the call gathers a number from every rank.
"""

import os
import signal
import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from roofcal.ops.bench import Call, Inputs
from roofcal.ops.spec import Unsupported

_TIMED = 6  # calls of a contender by when it is being timed: the check and four to set up before


def make_inputs(
    recipe: str, shape: Mapping[str, int], generator: torch.Generator, distribution: str
) -> dict[str, torch.Tensor]:
    x = torch.randn(shape["m"], generator=generator, device=generator.device)
    mine = mishap(recipe) == "has_no_memory"
    return {"x": torch.empty(1 << 60) if mine else x}


def build(provider: str, recipe: str, shape: Mapping[str, int]) -> Call:
    if mishap(recipe) == "refuses":
        raise Unsupported("no peer access")
    calls = count()
    return lambda inputs: gathered(recipe, inputs, next(calls))


def mishap(recipe: str) -> str:
    """What this rank does wrong, "" for nothing."""
    who, _, what = recipe.partition("_")
    return what if who in ("all", str(distributed.get_rank())) else ""


def gathered(recipe: str, inputs: Inputs, earlier: int) -> torch.Tensor:
    """The data of all ranks; what breaks while timed does so after some calls."""
    what = mishap(recipe)
    if what == "raises_before_the_others_meet":
        note_hang()  # the others wait for this rank
        raise RuntimeError("it broke")
    if earlier >= _TIMED and what in WHILE_TIMED:
        WHILE_TIMED[what]()
    if what == "is_slow":
        time.sleep(0.002)
    parts = [torch.empty_like(inputs["x"]) for _ in range(distributed.get_world_size())]
    distributed.all_gather(parts, inputs["x"])
    return torch.stack(parts)


def relative_error(recipe: str, inputs: Inputs, output: Any) -> float:
    """Rank 1's is larger by far where it is asked to; equal data would be as bad."""
    equal = bool((output == output[0]).all())
    return 1.0 if equal else {"is_wrong": 0.5}.get(mishap(recipe), 0.001)


def tolerance(recipe: str) -> float:
    return 0.01


def fail() -> None:
    raise RuntimeError("it broke while timed")


def note_hang() -> None:
    """Tell the test that nothing comes any more of this rank, see runs.hangs_are_noted."""
    with Path(os.environ["TRACE"]).with_name("hanging").open("a") as stream:
        stream.write(f"{os.getpid()}\n")


def hang() -> None:
    note_hang()
    time.sleep(1000)


WHILE_TIMED: dict[str, Callable[[], object]] = {
    "exits": lambda: os._exit(11),
    "is_killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "hangs": hang,
    "raises": fail,
}
