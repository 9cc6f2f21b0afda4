"""Verdicts, causes and shifts on points whose change is known."""

from dataclasses import replace

import numpy as np
import pytest

from roofcal.compare.observations import Observation
from roofcal.compare.point_changes import compare_points, same_measurements
from tests.roofcal.compare.made_up import many, observed


def changed(row: Observation, time: float = 1.0, clock: float = 1.0) -> Observation:
    turns = tuple(turn + np.log(time) for turn in row.log_turns_s)
    log_clock = None if row.log_clock_hz is None else row.log_clock_hz + float(np.log(clock))
    return replace(row, log_turns_s=turns, log_clock_hz=log_clock)


def test_a_slower_kernel_and_a_slower_clock_are_told_apart() -> None:
    after = many(seed=1)
    after[0] = changed(after[0], time=1.05)
    after[1] = changed(after[1], time=1.05, clock=1 / 1.05)
    after[2] = changed(after[2], time=0.9)
    points, (shift,) = compare_points(observed(many()), observed(after))

    assert [p.verdict for p in points[:3]] == ["SLOWER", "SLOWER", "FASTER"]
    assert [p.cause for p in points[:3]] == ["kernel", "clock", "kernel"]
    assert {p.verdict for p in points[3:]} == {"SAME"}
    assert abs(points[0].change - 0.05) < 0.004
    assert points[0].low < 0.05 < points[0].high
    assert abs(shift.shift) < 0.001
    assert shift.resolved == 1.0


def test_without_a_clock_the_cause_is_unknown() -> None:
    after = many(seed=1, clock_hz=None)
    after[0] = changed(after[0], time=1.05)
    points, (shift,) = compare_points(observed(many(clock_hz=None)), observed(after))
    assert (points[0].cause, points[0].clock, points[0].cycles) == ("unknown", None, None)
    assert shift.clock is None


def test_what_all_points_share_is_a_shift_and_its_cause_is_said() -> None:
    slow = many(factor=1.05, seed=1)
    points, (shift,) = compare_points(observed(many()), observed(slow))
    assert {p.verdict for p in points} == {"SAME"}
    assert {p.verdict_raw for p in points} == {"SLOWER"}
    assert shift.low < 0.05 < shift.high
    assert shift.cause == "cycles"

    clocked = [changed(row, clock=1 / 1.05) for row in slow]
    assert compare_points(observed(many()), observed(clocked))[1][0].cause == "clock"


def test_few_points_are_compared_without_a_shift() -> None:
    after = [changed(row, time=1.05) for row in many(5, seed=1)]
    points, shifts = compare_points(observed(many(5)), observed(after))
    assert shifts == []
    assert {p.verdict for p in points} == {"SLOWER"}


def test_one_measurement_in_both_runs_is_counted_and_not_compared() -> None:
    run = observed(many())
    assert compare_points(run, run) == ([], [])
    assert same_measurements(run, run) == 60
    assert same_measurements(run, observed(many(seed=1))) == 0


def test_points_that_scatter_more_are_ambiguous() -> None:
    def noisy(seed: int) -> list[Observation]:
        source = np.random.default_rng(seed)
        return [
            replace(row, log_turns_s=tuple(float(t) for t in source.normal(0, 0.05, 4)))
            for row in many()
        ]

    points, (shift,) = compare_points(observed(noisy(1)), observed(noisy(2)))
    assert {p.verdict for p in points} == {"AMBIGUOUS"}
    assert shift.resolved == 0.0


def test_a_point_that_takes_a_state_of_the_other_run_did_not_move() -> None:
    """Without the rule, the calm points of its group make it FASTER."""
    generator = np.random.default_rng(9)
    before, after = (visited(generator, 3, 0.0) for _ in range(2))
    start = before[0].log_turns_s[0]
    for rows, states in ((before, (0.0, 0.1, 0.1)), (after, (0.0, 0.0, 0.004))):
        assert rows[0].time is not None
        rows[0] = replace(
            rows[0],
            log_turns_s=tuple(start + state for state in states),
            time=replace(rows[0].time, basis="visits"),
        )
    points, _ = compare_points(observed(before), observed(after))
    assert points[0].verdict == "AMBIGUOUS"
    assert points[0].change < -0.02


def visited(generator: np.random.Generator, visits: int, shared: float) -> list[Observation]:
    """Points visited several times; `shared`: deviation of what all points of a visit share."""
    offsets = generator.normal(0, shared, visits)
    return [
        replace(
            row,
            log_turns_s=tuple(float(t) for t in offsets + generator.normal(0, 0.005, visits)),
            turn_variance=1e-6,
            turn_degrees=6,
        )
        for row in many()
    ]


@pytest.mark.parametrize("visits", [2, 3])
@pytest.mark.parametrize("shared", [0.0, 0.03])
def test_intervals_of_common_shifts_hold_what_visits_share(visits: int, shared: float) -> None:
    generator = np.random.default_rng(visits)
    draws, held = 60, 0
    for _ in range(draws):
        before, after = (observed(visited(generator, visits, shared)) for _ in range(2))
        (shift,) = compare_points(before, after)[1]
        held += shift.low <= 0 <= shift.high
    assert held >= 0.89 * draws  # 95 % less two standard errors of 60 draws


def test_visits_that_agree_leave_a_common_shift_certain() -> None:
    generator = np.random.default_rng(0)
    before, after = (observed(visited(generator, 3, 0.0)) for _ in range(2))
    slower = observed([changed(row, time=1.05) for row in after.points.values()])
    (shift,) = compare_points(before, slower)[1]
    assert shift.low > 0.03
    assert shift.cause == "cycles"
