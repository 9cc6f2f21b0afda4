"""Contenders and timers without a device, for the tests of timing."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from roofcal.measure.contender import Contender
from tests.roofcal.measure.runs import point


def contender(name: str = "bf16", *, copies: int = 1, call: Callable[[Any], Any] = id) -> Contender:
    """A contender of `copies` input sets, numbered by their "x"."""
    return Contender(
        point=point(name),
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
    """Takes `per_turn` equal samples a turn: the next of `seconds`, then its last for ever."""

    def __init__(self, clock: Clock, seconds: Sequence[float], per_turn: int = 4) -> None:
        self._clock, self._seconds, self._per_turn = clock, list(seconds), per_turn
        self.turns = 0

    def take(self, seconds: float, while_busy: Callable[[], None]) -> list[float]:
        value = self._seconds[min(self.turns, len(self._seconds) - 1)]
        self.turns += 1
        end = self._clock.now + seconds
        while_busy()
        self._clock.now = max(self._clock.now, end)
        return [value] * self._per_turn
