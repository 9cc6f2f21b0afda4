"""Time contenders in turns until the median of each has a narrow interval.

A group is warmed up in turns until the medians of some rounds agree, then measured in turns, in an
order drawn anew each round. The warm-up is kept: it begins as a short burst on a cool card would.

At its power limit a card averages over tens of milliseconds: in turns of 20 ms on an H200, times of
axiswise products were 4 to 6 % too short and those of bf16 ones up to 4 % too long. So turns at the
limit are long, and their start is not counted: the clock is that of the contender before for 30 ms,
then overshoots by up to 5 %; one in twenty of 164 turns was still 9 % too slow after 200 to 250 ms,
6 % after 250 to 300 ms, and within 2 % from 300 ms on.

A group inherits the limit of the one before it: its first readings name it while the clock rises.
So the card is at its limit only where it names it, its clock is lower than it may be, and the group
has run for so long that this is its own.
"""

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from roofcal.core.machine.nvml import Reading, Sensor
from roofcal.core.records import EnergyWindow
from roofcal.core.statistics import summarise
from roofcal.core.timing_protocol import Timing
from roofcal.measure.contender import Contender
from roofcal.measure.ranks import SINGLE_RANK, SingleRank
from roofcal.measure.timing import Timer

Turn = tuple[Contender, Timer]
Renewal = tuple[float, float] | None  # time and joules of the counter; None where it is not seen
_LONGEST_ALONE_S: Final = 3.0  # of settling
_ROUNDS_ALONE: Final = 2  # that have to agree, and that are measured then
_ROUNDS_THAT_AGREE: Final = 3  # of short turns
_ENERGY_WINDOW_S: Final = 5.5  # of the counter, so that five seconds lie between two renewals
_LEAST_BETWEEN_RENEWALS_S: Final = 5.0  # roofcal.points.power reads no shorter windows
_ENERGY_WINDOWS: Final = 2
_INHERITED_S: Final = 0.15  # of a group: its readings may be those of the group before
_FULL_CLOCK: Final = 0.98  # of the card's highest: it is not held back by more than this
_LONGEST_RENEWAL_S: Final = 0.3  # cards renew the counter every 20 to 100 ms
_COOL_S: Final = 2.0  # until a card at rest has left the power of what ran before


def time_group(
    turns: Sequence[Turn],
    timing: Timing,
    sensor: Sensor,
    seed: int,
    tell: Callable[[Contender], None],
    team: SingleRank = SINGLE_RANK,
) -> None:
    """Fill the samples of every contender.

    Args:
        turns: contenders with their timers.
        timing: how long to warm up and to measure.
        sensor: reads clock, power and temperature beside the samples.
        seed: of the order within a round.
        tell: called with the contender before each of its turns.
        team: the ranks that share the points; by the clock and the sensor of rank 0 all decide.
    """
    group = _Group(turns, timing, sensor, tell, team)
    if turns[0][0].point.protocol.method == "burst":
        for turn in turns:
            time.sleep(timing.burst_rest_s)
            group.take(turn, timing.burst_s)
        return
    if turns[0][0].point.protocol.method == "energy":
        group.take_energy(turns[0])
        return
    order = random.Random(seed)
    has_finished = False
    while not has_finished:
        group.settle()
        has_finished = group.measure(order)


@dataclass(slots=True)
class _Group:
    """Contenders that take turns, and what all ranks decide on them together."""

    turns: Sequence[Turn]
    timing: Timing
    sensor: Sensor
    tell: Callable[[Contender], None]
    team: SingleRank
    is_at_limit: bool = False
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = time.perf_counter()

    @property
    def _is_alone(self) -> bool:
        return self.turns[0][0].point.protocol.method in ("alone", "energy")

    def _now(self) -> float:
        return self.team.broadcast(time.perf_counter())

    def settle(self) -> None:
        """Take turns until the medians of the last rounds agree, or for the longest time allowed.

        Two rounds of short turns in a row can agree by chance while the clock comes down. Long
        turns of a group at its limit settle by themselves. Clock and temperature are the card's, so
        the least time is that of the whole group: counted per contender it was 75 % of the timed
        seconds of short kernels on an H200.
        """
        count = len(self.turns)
        longest = _LONGEST_ALONE_S if self._is_alone else self.timing.settle_max_s * count
        if not self.is_at_limit:
            rounds = [[median(self._take(turn)) for turn in self.turns]]
            start = self._now()
            while (spent := self._now() - start) < longest:
                rounds.append([median(self._take(turn)) for turn in self.turns])
                enough = spent >= self.timing.settle_min_s
                if self._comes_to_limit() or (enough and self._agree(rounds)):
                    break
        for contender, _ in self.turns:
            contender.warmup_samples = len(contender.samples)

    def take_energy(self, turn: Turn) -> None:
        """The energy of the board over a window at rest, and over windows of the settled contender.

        A window begins and ends when the counter is renewed, which is awaited within a turn.
        Without a counter the turns are taken all the same: the power that is read beside them is
        the contender's own.
        """
        contender, _ = turn
        time.sleep(_COOL_S)
        start = self._renewal()
        time.sleep(_ENERGY_WINDOW_S)
        self._add_window(contender, start, self._renewal(), is_rest=True)
        self.settle()
        turn_s, renewals = self.timing.alone_turn_s, list[Renewal]()
        for _ in range(_ENERGY_WINDOWS):
            renewals.clear()
            begin = self._now()
            # The first renewal is seen up to a turn after `begin`, and on an H100 one of 14 windows
            # between renewals was 4.99 s long, so their distance decides.
            while (
                self._now() - begin < _ENERGY_WINDOW_S
                or _seconds_between(renewals) < _LEAST_BETWEEN_RENEWALS_S
            ):
                is_edge = not renewals or self._now() - begin >= _ENERGY_WINDOW_S - turn_s
                note = (lambda: renewals.append(self._renewal())) if is_edge else None
                self.take(turn, turn_s, while_busy=note)
            self._add_window(contender, renewals[0], renewals[-1])

    def _renewal(self) -> Renewal:
        """The next renewal of the counter."""
        before = now = self.sensor.energy_j()
        start = time.perf_counter()
        while now == before and time.perf_counter() - start < _LONGEST_RENEWAL_S:
            time.sleep(0.001)
            now = self.sensor.energy_j()
        return None if now is None or now == before else (time.perf_counter(), now)

    def _add_window(
        self, contender: Contender, start: Renewal, end: Renewal, *, is_rest: bool = False
    ) -> None:
        """The window between two renewals; none where one of them was not seen."""
        if start is not None and end is not None:
            joules, seconds = round(end[1] - start[1], 3), round(end[0] - start[0], 6)
            contender.energy_windows.append(
                EnergyWindow(joules=joules, seconds=seconds, is_rest=is_rest)
            )

    def _agree(self, rounds: Sequence[Sequence[float]]) -> bool:
        """Whether each contender's medians of the last rounds lie within the tolerance."""
        needed = _ROUNDS_ALONE if self._is_alone else _ROUNDS_THAT_AGREE
        most = 1 + self.timing.settle_tolerance
        last = zip(*rounds[-needed:], strict=True)
        return len(rounds) >= needed and all(max(m) <= most * min(m) for m in last)

    def measure(self, order: random.Random) -> bool:
        """Take turns until all are done; False where the card came to its limit meanwhile."""
        waiting = list(self.turns)
        spent = {id(contender): 0.0 for contender, _ in self.turns}
        rounds = self.timing.power_rounds if self.is_at_limit else self.timing.min_rounds
        rounds = _ROUNDS_ALONE if self._is_alone else rounds
        while waiting:
            order.shuffle(waiting)
            for turn in waiting:
                start = self._now()
                self._take(turn)
                spent[id(turn[0])] += self._now() - start
            if self._comes_to_limit():
                return False
            waiting = [
                (contender, timer)
                for contender, timer in waiting
                if not is_done(contender, spent[id(contender)], self.timing, rounds)
            ]
        return True

    def _comes_to_limit(self) -> bool:
        """Whether rank 0 finds the card at its power limit for the first time."""
        if self.is_at_limit or self._is_alone:
            return False
        last = (c.recorder.readings[-1] for c, _ in self.turns if c.recorder.readings)
        # A reading is taken when its turn begins.
        is_own = time.perf_counter() - self.started >= _INHERITED_S + self.timing.slice_s
        full = self.sensor.max_sm_clock_hz
        is_limited = is_own and any(at_power_limit(reading, full) for reading in last)
        self.is_at_limit = self.team.broadcast(float(is_limited)) > 0
        return self.is_at_limit

    def _take(self, turn: Turn) -> list[float]:
        """The samples that count of one turn, as long as the group needs it."""
        if self._is_alone:
            return self.take(turn, self.timing.alone_turn_s)
        if not self.is_at_limit:
            return self.take(turn, self.timing.slice_s)
        skip_s = self.timing.power_skip_s
        return self.take(turn, self.timing.power_turn_s - skip_s, skip_s)

    def take(
        self,
        turn: Turn,
        seconds: float,
        skip_s: float = 0.0,
        while_busy: Callable[[], None] | None = None,
    ) -> list[float]:
        """The samples of one turn, after `skip_s` of samples that do not count."""
        contender, timer = turn
        self.tell(contender)
        start = len(contender.samples)
        unsettled = timer.take(skip_s, lambda: None) if skip_s else []
        first = start + len(unsettled)

        def read_card() -> None:
            contender.recorder.record(self.sensor, first)
            if while_busy is not None:
                while_busy()

        samples = timer.take(seconds, read_card)
        contender.slice_starts.append(start)
        contender.unsettled.append(len(unsettled))
        contender.samples += [*unsettled, *samples]
        return samples


def at_power_limit(reading: Reading, full_clock_hz: float | None) -> bool:
    """Whether a card names its power as the reason for a clock below its highest, in Hz.

    Its power does not tell: an H200 of 700 W draws 681 W in a bf16 decode at its full clock, and
    NVML's figure is the mean of a second. Where the highest clock is unknown the reason decides.
    """
    is_slow = full_clock_hz is None or reading[0] < _FULL_CLOCK * full_clock_hz
    return is_slow and "power_cap" in reading[4]


def is_done(contender: Contender, spent_s: float, timing: Timing, rounds: int) -> bool:
    """Whether a contender needs no further turn, after so many seconds of turns.

    It has enough settled samples from at least `rounds` turns, and a narrow interval or a spent
    budget.
    """
    settled = contender.settled
    if len(settled) >= timing.min_samples and contender.settled_rounds >= rounds:
        is_narrow = summarise(settled).half_width_fraction <= timing.target_interval
        return is_narrow or spent_s >= timing.budget_s
    # A slow contender with few samples gets three budgets, then what it has must do.
    return spent_s >= 3 * timing.budget_s and len(settled) >= 1


def _seconds_between(renewals: Sequence[Renewal]) -> float:
    """From the first renewal to the last: infinite where one was not seen, 0 without two."""
    if len(renewals) < 2:
        return 0.0
    first, last = renewals[0], renewals[-1]
    return math.inf if first is None or last is None else last[0] - first[0]
