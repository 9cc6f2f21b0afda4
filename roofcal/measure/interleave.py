"""Time contenders in turns until the median of each has a narrow interval.

A group is warmed up in turns until the medians of three rounds agree, then measured in turns, in an
order drawn anew each round, until the interval of the median is narrow or the budget is spent. The
warm-up is kept: its first samples are what a short burst on a cool card would have shown.
"""

import random
import time
from collections.abc import Callable, Sequence
from statistics import median

from roofcal.core.machine.nvml import Sensor
from roofcal.core.statistics import summarise
from roofcal.core.timing_protocol import Timing
from roofcal.measure.contender import Contender
from roofcal.measure.timing import Timer

Turn = tuple[Contender, Timer]


def time_group(
    turns: Sequence[Turn],
    timing: Timing,
    sensor: Sensor,
    seed: int,
    tell: Callable[[Contender], None],
    now: Callable[[], float] | None = None,
) -> None:
    """Fill the samples of every contender.

    Args:
        turns: contenders with their timers.
        timing: how long to warm up and to measure.
        sensor: reads clock, power and temperature beside the samples.
        seed: of the order within a round.
        tell: called with the contender before each of its turns.
        now: the clock in seconds by which to decide; several ranks read the clock of one of them.
    """
    now = now or time.perf_counter
    order = random.Random(seed)
    for turn in turns:
        _take(turn, timing.slice_s, sensor, tell)
    _settle(turns, timing, sensor, tell, now)
    for contender, _ in turns:
        contender.warmup_samples = len(contender.samples)
    waiting = list(turns)
    spent = {id(contender): 0.0 for contender, _ in turns}
    while waiting:
        order.shuffle(waiting)
        for turn in waiting:
            start = now()
            _take(turn, timing.slice_s, sensor, tell)
            spent[id(turn[0])] += now() - start
        waiting = [turn for turn in waiting if not is_done(turn[0], spent[id(turn[0])], timing)]


def _settle(
    turns: Sequence[Turn],
    timing: Timing,
    sensor: Sensor,
    tell: Callable[[Contender], None],
    now: Callable[[], float],
) -> None:
    """Take turns until the medians of three rounds agree, or for settle_max_s per contender.

    An H200 at its power limit needs about two seconds to come down from 1965 to 1410 MHz; two
    rounds in a row can agree by chance on the way down.
    """
    start = now()
    rounds = [[median(contender.samples) for contender, _ in turns]]
    while (spent := now() - start) < timing.settle_max_s * len(turns):
        rounds.append([median(_take(turn, timing.slice_s, sensor, tell)) for turn in turns])
        if spent >= timing.settle_min_s * len(turns) and _agree(rounds, timing.settle_tolerance):
            return


def _agree(rounds: Sequence[Sequence[float]], tolerance: float) -> bool:
    """Whether each contender's medians of the last three rounds lie within the tolerance."""
    last = list(zip(*rounds[-3:], strict=True))
    return len(rounds) >= 3 and all(max(m) <= (1 + tolerance) * min(m) for m in last)


def _take(
    turn: Turn, seconds: float, sensor: Sensor, tell: Callable[[Contender], None]
) -> list[float]:
    contender, timer = turn
    tell(contender)
    index = len(contender.samples)
    samples = timer.take(seconds, lambda: contender.recorder.record(sensor, index))
    contender.slice_starts.append(index)
    contender.samples += samples
    return samples


def is_done(contender: Contender, spent_s: float, timing: Timing) -> bool:
    """Whether a contender needs no further turn, after so many seconds of turns.

    It has enough settled samples from enough turns, and a narrow interval or a spent budget.
    """
    settled = contender.settled
    if len(settled) >= timing.min_samples and contender.settled_rounds >= timing.min_rounds:
        is_narrow = summarise(settled).half_width_fraction <= timing.target_interval
        return is_narrow or spent_s >= timing.budget_s
    # A slow contender with few samples gets three budgets, then what it has must do.
    return spent_s >= 3 * timing.budget_s and len(settled) >= 1
