"""When a contender counts as settled, when it is done, and in whose turn."""

from collections.abc import Callable, Sequence

import pytest

from roofcal.core.machine.nvml import Sensor
from roofcal.core.timing_protocol import Timing
from roofcal.measure import interleave
from roofcal.measure.contender import Contender
from roofcal.measure.interleave import is_done, time_group
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


def unheard(_: Contender) -> None:
    """Nobody asks whose turn it is."""


def run(
    *timers: ScriptedTimer,
    timing: Timing = TIMING,
    seed: int = 0,
    tell: Callable[[Contender], None] = unheard,
) -> list[Contender]:
    found = [contender(f"r{index}") for index in range(len(timers))]
    time_group(list(zip(found, timers, strict=True)), timing, Sensor(None), seed, tell)
    return found


def changed(**values: float) -> Timing:
    return TIMING.model_copy(update=values)


def drift(*rounds: float, clock: Clock) -> ScriptedTimer:
    return ScriptedTimer(clock, rounds)


def test_the_clock_has_settled_when_three_rounds_in_a_row_agree(clock: Clock) -> None:
    (found,) = run(drift(1.3, 1.2, 1.1, 1.0, 1.001, 1.002, clock=clock))
    assert found.warmup_samples == 6 * 4
    assert set(found.settled) == {1.002}


def test_two_rounds_that_agree_on_the_way_down_are_not_enough(clock: Clock) -> None:
    (found,) = run(drift(1.2, 1.1, 1.1, 1.0, 1.0, 1.0, clock=clock))
    assert set(found.settled) == {1.0}
    assert found.warmup_samples == 6 * 4


def test_all_contenders_of_a_group_have_to_settle(clock: Clock) -> None:
    quick = drift(1.0, clock=clock)
    slow = drift(2.0, 1.8, 1.6, 1.4, 1.2, clock=clock)
    found = run(quick, slow)
    assert [c.warmup_samples for c in found] == [7 * 4, 7 * 4]


def test_settling_that_never_ends_is_cut_off(clock: Clock) -> None:
    falling = [0.97**turn for turn in range(200)]
    (found,) = run(drift(*falling, clock=clock), timing=changed(settle_max_s=6 * SLICE_S))
    assert found.warmup_samples == (1 + 6) * 4


def test_settling_takes_at_least_its_least_time(clock: Clock) -> None:
    (found,) = run(drift(1.0, clock=clock), timing=changed(settle_min_s=8 * SLICE_S))
    assert found.warmup_samples >= 8 * 4


def test_a_steady_contender_stops_after_the_least_rounds(clock: Clock) -> None:
    (found,) = run(drift(1.0, clock=clock))
    assert found.settled_rounds == TIMING.min_rounds
    assert len(found.settled) == 3 * 4


def test_rounds_go_on_until_there_are_enough_samples(clock: Clock) -> None:
    (found,) = run(ScriptedTimer(clock, [1.0], per_turn=1), timing=changed(min_samples=9))
    assert len(found.settled) == 9


def noisy(clock: Clock, turns: int) -> ScriptedTimer:
    """Agrees while settling, then scatters by 10 % for some turns, then is steady."""
    scatter = [1.05 if turn % 2 else 0.95 for turn in range(turns)]
    return ScriptedTimer(clock, [1.0] * 4 + scatter + [1.0])


def test_a_wide_interval_is_narrowed_by_more_turns(clock: Clock) -> None:
    (found,) = run(noisy(clock, 6), timing=changed(budget_s=1000.0))
    assert found.settled_rounds > TIMING.min_rounds
    assert is_done(found, 0.0, TIMING)


def test_a_contender_that_stays_wide_ends_with_its_budget(clock: Clock) -> None:
    (found,) = run(noisy(clock, 10_000))
    assert found.settled_rounds == 10
    assert not is_done(found, 0.0, TIMING)


def test_a_contender_too_slow_for_enough_samples_ends_after_three_budgets(clock: Clock) -> None:
    slow = ScriptedTimer(clock, [1.0], per_turn=1)
    (found,) = run(slow, timing=changed(min_samples=10_000))
    assert len(found.settled) == 30


def test_a_contender_that_is_done_leaves_the_others_to_go_on(clock: Clock) -> None:
    steady, wide = ScriptedTimer(clock, [1.0]), noisy(clock, 10_000)
    found = run(steady, wide)
    assert [c.settled_rounds for c in found] == [3, 10]


def turns_of(clock: Clock, seed: int, count: int = 4) -> list[str]:
    """Whose turn it was, one name a turn, the settling left out."""
    names: list[str] = []
    timers = [ScriptedTimer(clock, [1.0]) for _ in range(count)]
    timing = changed(min_rounds=8)
    run(*timers, timing=timing, seed=seed, tell=lambda c: names.append(c.point.recipe))
    return names[-count * 8 :]


def rounds_of(names: Sequence[str], count: int = 4) -> list[tuple[str, ...]]:
    return [tuple(names[i : i + count]) for i in range(0, len(names), count)]


def test_each_contender_has_one_turn_a_round_in_a_changing_order(clock: Clock) -> None:
    rounds = rounds_of(turns_of(clock, seed=1))
    assert {tuple(sorted(turn)) for turn in rounds} == {("r0", "r1", "r2", "r3")}
    assert len(set(rounds)) >= 4


def test_the_order_follows_from_the_seed(clock: Clock) -> None:
    assert turns_of(clock, seed=1) == turns_of(clock, seed=1)
    assert turns_of(clock, seed=1) != turns_of(clock, seed=2)


def test_everyone_is_named_before_every_turn(clock: Clock) -> None:
    told: list[str] = []
    timers = [ScriptedTimer(clock, [1.0]) for _ in range(2)]
    run(*timers, tell=lambda c: told.append(c.point.recipe))
    assert [told.count(name) for name in ("r0", "r1")] == [timer.turns for timer in timers]


def test_the_first_sample_of_every_turn_is_marked(clock: Clock) -> None:
    found = run(ScriptedTimer(clock, [1.0], per_turn=3), ScriptedTimer(clock, [2.0], per_turn=5))
    for contender_, size in zip(found, (3, 5), strict=True):
        starts = contender_.slice_starts
        assert starts == list(range(0, len(contender_.samples), size))
        assert contender_.warmup_samples in starts


def test_every_sample_is_kept_in_the_order_it_was_taken(clock: Clock) -> None:
    rounds = [1.3, 1.2, 1.1, 1.0, 1.0, 1.0]
    (found,) = run(drift(*rounds, clock=clock))
    assert found.samples[: 6 * 4] == [value for value in rounds for _ in range(4)]


class Card(Sensor):
    """A sensor that says how often it was read."""

    def __init__(self) -> None:
        super().__init__(None)
        self.count = 0

    def read(self) -> tuple[float, float, float, float, tuple[str, ...]]:
        self.count += 1
        return (float(self.count), 0.0, 0.0, 0.0, ())


def test_the_card_is_read_once_a_turn_beside_the_first_sample_of_it(clock: Clock) -> None:
    card, found = Card(), contender()
    time_group([(found, ScriptedTimer(clock, [1.0]))], TIMING, card, 0, unheard)
    telemetry = found.recorder.telemetry()
    assert list(telemetry.sample_index) == found.slice_starts
    assert list(telemetry.sm_clock_hz) == [float(i + 1) for i in range(card.count)]
