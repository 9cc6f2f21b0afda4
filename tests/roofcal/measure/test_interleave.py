"""When a contender counts as settled, when it is done, and in whose turn."""

import math
from collections.abc import Callable

import pytest

from roofcal.core.machine.nvml import Reading, Sensor
from roofcal.core.timing_protocol import Timing
from roofcal.measure import interleave
from roofcal.measure.contender import Contender
from roofcal.measure.interleave import is_done, time_group
from roofcal.measure.ranks import SINGLE_RANK, SingleRank
from tests.roofcal.measure.contenders import Clock, ScriptedTimer, contender

SLICE_S = 0.125  # a power of two: turns add up without rounding
TIMING = Timing(
    settle_min_s=SLICE_S,
    settle_max_s=12 * SLICE_S,
    settle_tolerance=0.01,
    slice_s=SLICE_S,
    budget_s=10 * SLICE_S,
    target_interval=0.01,
    min_samples=8,
    min_rounds=3,
)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(interleave, "time", clock)
    return clock


def changed(**values: float) -> Timing:
    return TIMING.model_copy(update=values)


def unheard(_: Contender) -> None:
    """Nobody asks whose turn it is."""


def run(
    *timers: ScriptedTimer,
    timing: Timing = TIMING,
    sensor: Sensor | None = None,
    seed: int = 0,
    tell: Callable[[Contender], None] = unheard,
) -> list[Contender]:
    found = [contender(f"r{index}") for index in range(len(timers))]
    time_group(list(zip(found, timers, strict=True)), timing, sensor or Sensor(None), seed, tell)
    return found


FALLING = [0.97**turn for turn in range(200)]


@pytest.mark.parametrize(
    ("rounds", "changes", "settled_after"),
    [
        # Three rounds in a row have to agree; two may by chance on the way down.
        ([[1.3, 1.2, 1.1, 1.0, 1.001, 1.002]], {}, 6),
        ([[1.2, 1.1, 1.1, 1.0, 1.0, 1.0]], {}, 6),
        ([[1.0], [2.0, 1.8, 1.6, 1.4, 1.2]], {}, 7),  # all of a group have to settle
        ([FALLING], {"settle_max_s": 6 * SLICE_S}, 1 + 6),  # what never settles is cut off
        ([[1.0]], {"settle_min_s": 8 * SLICE_S}, 1 + 9),
        ([[1.0], [1.0]], {"settle_min_s": 8 * SLICE_S}, 1 + 5),  # the least time is the group's
    ],
)
def test_a_group_is_settled_when_the_clock_is(
    clock: Clock, rounds: list[list[float]], changes: dict[str, float], settled_after: int
) -> None:
    timers = [ScriptedTimer(clock, seconds) for seconds in rounds]
    for found, seconds in zip(run(*timers, timing=changed(**changes)), rounds, strict=True):
        assert found.warmup_samples == 4 * settled_after
        kept = [value for value in seconds for _ in range(4)]
        assert found.samples[: len(kept)] == kept[: len(found.samples)], "all, in their order"


def noisy(clock: Clock, turns: int, per_turn: int = 4) -> ScriptedTimer:
    """Agrees while settling, then scatters by 10 % for some turns, then is steady."""
    scatter = [1.05 if turn % 2 else 0.95 for turn in range(turns)]
    return ScriptedTimer(clock, [1.0] * 4 + scatter + [1.0], per_turn)


@pytest.mark.parametrize(
    ("scatter", "per_turn", "changes", "rounds"),
    [
        (0, 4, {}, TIMING.min_rounds),  # steady: the least rounds
        (0, 1, {"min_samples": 9}, 9),  # until there are enough samples
        (6, 4, {"budget_s": 1000.0}, 10),  # a wide interval is narrowed by more turns
        (10_000, 4, {}, 10),  # one that stays wide ends with its budget
        (0, 1, {"min_samples": 10_000}, 30),  # one that is too slow ends after three budgets
    ],
)
def test_a_contender_is_measured_until_its_median_is_known_or_its_budget_spent(
    clock: Clock, scatter: int, per_turn: int, changes: dict[str, float], rounds: int
) -> None:
    (found,) = run(noisy(clock, scatter, per_turn), timing=changed(**changes))
    assert found.settled_rounds == rounds
    assert len(found.settled) == rounds * per_turn
    assert is_done(found, 0.0, TIMING, TIMING.min_rounds) is (scatter < 10_000)


def test_a_contender_that_is_done_leaves_the_others_to_go_on(clock: Clock) -> None:
    found = run(ScriptedTimer(clock), noisy(clock, 10_000))
    assert [c.settled_rounds for c in found] == [3, 10]


def turns_of(clock: Clock, seed: int) -> list[str]:
    """Whose turn it was of four, told before each, the settling left out."""
    names: list[str] = []
    timers = [ScriptedTimer(clock) for _ in range(4)]
    timing = changed(min_rounds=8)
    run(*timers, timing=timing, seed=seed, tell=lambda c: names.append(c.point.recipe))
    assert [names.count(f"r{i}") for i in range(4)] == [len(timer.asked) for timer in timers]
    return names[-4 * 8 :]


def test_each_contender_has_one_turn_a_round_in_a_changing_order(clock: Clock) -> None:
    names = turns_of(clock, seed=1)
    rounds = [tuple(names[i : i + 4]) for i in range(0, len(names), 4)]
    assert {tuple(sorted(turn)) for turn in rounds} == {("r0", "r1", "r2", "r3")}
    assert len(set(rounds)) >= 4
    assert names == turns_of(clock, seed=1) != turns_of(clock, seed=2)


class Card(Sensor):
    """A sensor whose clock counts its readings; it names a reason, and 690 W, where it is asked."""

    def __init__(
        self, reason: str = "", is_limited: Callable[[int], bool] = lambda _: True
    ) -> None:
        super().__init__(None)
        self.count, self._reason, self._is_limited = 0, reason, is_limited

    def read(self) -> Reading:
        self.count += 1
        is_limited = bool(self._reason) and self._is_limited(self.count)
        reasons = (self._reason,) if is_limited else ()
        return (float(self.count), 0.0, 690.0 if is_limited else 0.0, 0.0, reasons)


def test_the_first_sample_of_every_turn_is_marked_and_the_card_is_read_beside_it(
    clock: Clock,
) -> None:
    sizes, card = (3, 5), Card()
    found = run(*(ScriptedTimer(clock, per_turn=size) for size in sizes), sensor=card)
    for one, size in zip(found, sizes, strict=True):
        assert one.slice_starts == list(range(0, len(one.samples), size))
        assert one.warmup_samples in one.slice_starts
        assert list(one.recorder.telemetry().sample_index) == one.slice_starts
        assert one.unsettled == [0] * len(one.slice_starts)
    clocks = [hz for one in found for hz in one.recorder.telemetry().sm_clock_hz]
    assert sorted(clocks) == [float(i + 1) for i in range(card.count)], "once a turn"


LONG = changed(power_turn_s=8 * SLICE_S, power_skip_s=2 * SLICE_S, power_rounds=2)


def in_slices(clock: Clock) -> ScriptedTimer:
    """Takes a sample for every half slice."""
    return ScriptedTimer(clock, per_s=2 / SLICE_S)


def limited(
    clock: Clock, card: Card, timing: Timing = LONG, count: int = 2
) -> tuple[list[Contender], list[float]]:
    """So many contenders, and how many slices the first was asked for, turn by turn."""
    timers = [in_slices(clock) for _ in range(count)]
    found = run(*timers, timing=timing, sensor=card)
    return found, [seconds / SLICE_S for seconds in timers[0].asked]


def test_turns_at_the_power_limit_are_long_and_their_start_does_not_count(clock: Clock) -> None:
    contenders, asked = limited(clock, Card("power_cap"))
    assert asked[:2] == [1, 1], "the limit is found while settling"
    assert asked[2:4] == [2, 6]
    for found in contenders:
        assert found.settled_rounds == 2
        assert found.unsettled[-2:] == [4, 4]
        assert len(found.settled) == 2 * 12
        index = found.recorder.telemetry().sample_index
        assert index[-1] == found.slice_starts[-1] + 4, "readings lie beside samples that count"


@pytest.mark.parametrize(
    ("reason", "full_clock", "until_s"),
    [
        ("sw_thermal", None, math.inf),  # drawing all that the card may is no reason
        ("power_cap", 1.0, math.inf),  # readings are 1 Hz and more: the card is at its full clock
        ("power_cap", None, 0.14),  # a limit of the group before: these readings are not its own
    ],
)
def test_a_group_that_stays_below_the_limit_keeps_short_turns(
    clock: Clock, reason: str, full_clock: float | None, until_s: float
) -> None:
    card = Card(reason, lambda _: clock.now < until_s)
    card.max_sm_clock_hz = full_clock
    shorter = LONG.model_copy(update={"slice_s": SLICE_S / 2, "settle_min_s": SLICE_S})
    (found,), asked = limited(clock, card, shorter, count=1)
    assert set(asked) == {1 / 2}
    assert not any(found.unsettled)


def test_a_group_that_comes_to_the_limit_while_it_is_measured_starts_anew(clock: Clock) -> None:
    late = 2 * 3 + 2  # two contenders, three rounds to settle, one that is measured
    contenders, _ = limited(clock, Card("power_cap", lambda count: count >= late))
    for found in contenders:
        assert found.settled_rounds == 2
        assert set(found.unsettled[-2:]) == {4}
        assert found.warmup_samples >= 4 * 2, "the short turns count as warm-up"


class FirstRank(SingleRank):
    """Decides for others: of this rank's own numbers it makes those of rank 0."""

    def __init__(self, is_limited: bool) -> None:
        self._is_limited = is_limited

    def broadcast(self, value: float) -> float:
        return float(self._is_limited) if value in (0.0, 1.0) else value


@pytest.mark.parametrize("of_first_rank", [True, False])
def test_rank_0_decides_for_all_whether_turns_are_long(clock: Clock, of_first_rank: bool) -> None:
    clock.now = 1000.0
    own = Card("" if of_first_rank else "power_cap")
    found = contender()
    time_group([(found, in_slices(clock))], LONG, own, 0, unheard, FirstRank(of_first_rank))
    assert any(found.unsettled) is of_first_rank


def test_a_contender_alone_settles_and_is_measured_in_turns_of_its_own_length(clock: Clock) -> None:
    found, timer = contender(method="alone"), in_slices(clock)
    time_group([(found, timer)], changed(alone_turn_s=4 * SLICE_S), Sensor(None), 0, unheard)
    assert timer.asked == [4 * SLICE_S] * 5, "three rounds that settle, two that count"
    assert len(found.settled) == 2 * 8


def test_a_burst_is_one_turn_after_a_rest_and_has_no_warm_up(clock: Clock) -> None:
    found, timer = contender(method="burst"), in_slices(clock)
    timing = changed(burst_rest_s=3.0, burst_s=SLICE_S)
    time_group([(found, timer)], timing, Sensor(None), 0, unheard)
    assert clock.now == 3.0 + SLICE_S
    assert (timer.asked, found.warmup_samples, len(found.settled)) == ([SLICE_S], 0, 2)


class CountingSensor(Sensor):
    """A board that takes 100 W at rest and 600 W beside a timer, renewed every 0.05 s.

    The first renewal beside the timer is seen `late_s` late, as by a process that had to wait;
    without `late_s` there is no counter.
    """

    def __init__(self, clock: Clock, timer: ScriptedTimer, late_s: float | None) -> None:
        super().__init__(None)
        self._clock, self._timer, self._late_s, self._seen = clock, timer, late_s, 0.0
        self._busy_from: float | None = None

    def energy_j(self) -> float | None:
        if self._late_s is None:
            return None
        if self._busy_from is None and self._timer.asked:
            self._busy_from = self._clock.now
        renewed = math.floor(self._clock.now / 0.05) * 0.05
        busy = max(0.0, renewed - self._busy_from) if self._busy_from is not None else 0.0
        if busy and self._seen and renewed > self._seen:
            self._clock.now += self._late_s
            self._late_s = 0.0
        self._seen = renewed
        return 100.0 * renewed + 500.0 * busy


@pytest.mark.parametrize("late_s", [0.0, 0.08, None])
def test_energy_is_counted_between_renewals_over_five_seconds_and_at_rest(
    clock: Clock, late_s: float | None
) -> None:
    one, timer = contender(method="energy"), ScriptedTimer(clock, [1e-3])
    sensor = CountingSensor(clock, timer, late_s)
    time_group([(one, timer)], changed(alone_turn_s=0.5), sensor, 0, unheard, SINGLE_RANK)
    if late_s is None:
        assert one.energy_windows == []
        # Two windows of turns of half a second are taken without a counter too.
        assert len(one.settled) * 0.5 / 4 >= 10
        return
    rest, *busy = one.energy_windows
    assert [window.is_rest for window in (rest, *busy)] == [True, False, False]
    assert all(window.seconds >= 5 for window in (rest, *busy))
    assert rest.joules / rest.seconds == pytest.approx(100, rel=0.01)
    assert [w.joules / w.seconds for w in busy] == pytest.approx([600, 600], rel=0.02)
