"""Contenders and timers without a device, for the tests of timing."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from roofcal.core.records import Method, Protocol
from roofcal.measure.contender import Contender
from tests.roofcal.measure.runs import point


def contender(
    name: str = "bf16",
    *,
    copies: int = 1,
    call: Callable[[Any], Any] = id,
    method: Method = "graph",
) -> Contender:
    """A contender of `copies` input sets, numbered by their "x"."""
    return Contender(
        point=point(name, protocol=Protocol(method=method)),
        call=call,
        copies=[{"x": torch.tensor(float(index))} for index in range(copies)],
        bytes_per_copy=4,
        quantisation_error=None,
        relative_error=0.0,
    )


class Clock:
    """Seconds that pass only when somebody says so; stands in for the module `time`."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class ScriptedTimer:
    """Takes equal samples in a turn: the next of `seconds`, then its last for ever.

    They are `per_turn`, or `per_s` for each second; `asked` are the seconds of every turn.
    """

    def __init__(
        self,
        clock: Clock,
        seconds: Sequence[float] = (1.0,),
        per_turn: int = 4,
        per_s: float | None = None,
    ) -> None:
        self._clock, self._seconds = clock, list(seconds)
        self._per_turn, self._per_s = per_turn, per_s
        self.asked: list[float] = []

    def take(self, seconds: float, while_busy: Callable[[], None]) -> list[float]:
        value = self._seconds[min(len(self.asked), len(self._seconds) - 1)]
        self.asked.append(seconds)
        end = self._clock.now + seconds
        while_busy()
        self._clock.now = max(self._clock.now, end)
        return [value] * (round(self._per_s * seconds) if self._per_s else self._per_turn)
