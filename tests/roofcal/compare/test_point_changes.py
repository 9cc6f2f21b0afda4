"""Verdicts, causes and shifts on points whose change is known; the variance of points."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from roofcal.compare.point_changes import compare_points, same_measurements
from roofcal.compare.visit_scatter import Scatter, moderated_in_groups
from roofcal.core.records import Protocol
from tests.roofcal.compare.made_up import many, measurement, observations_of, pairs_of, point

Rows = list[dict[str, Any]]


def compared(a: pd.DataFrame, b: pd.DataFrame) -> tuple[Rows, Rows]:
    return compare_points(pairs_of(a, b))


def with_units(points: pd.DataFrame, units: Callable[[int, Any], Any]) -> pd.DataFrame:
    """The points with other units, by their number and those they have."""
    again = [tuple(float(t) for t in units(i, u)) for i, u in enumerate(points["units"])]
    return points.assign(units=pd.Series(again, index=points.index))


def slower(points: pd.DataFrame, *factors: float) -> pd.DataFrame:
    """Points whose first ones take so many times as long."""
    logs = [*np.log(factors), *[0.0] * len(points)]
    return with_units(points, lambda i, units: np.array(units) + logs[i])


def test_a_slower_kernel_and_a_slower_clock_are_told_apart() -> None:
    after = slower(many(1), 1.05, 1.05, 0.9)
    after["clock"] /= [1.0, 1.05, *[1.0] * 58]
    points, (shift,) = compared(many(), after)
    assert [p["verdict"] for p in points[:3]] == ["SLOWER", "SLOWER", "FASTER"]
    assert [p["cause"] for p in points[:3]] == ["kernel", "clock", "kernel"]
    assert {p["verdict"] for p in points[3:]} == {"SAME"}
    assert abs(points[0]["change"] - 0.05) < 0.004
    assert points[0]["low"] < 0.05 < points[0]["high"]
    assert abs(shift["shift"]) < 0.001
    assert shift["resolved"] == 1.0


def test_without_a_clock_the_cause_is_unknown() -> None:
    points, (shift,) = compared(many(clock_hz=None), slower(many(1, clock_hz=None), 1.05))
    assert [points[0][name] for name in ("cause", "clock", "cycles")] == ["unknown", None, None]
    assert shift["clock"] is None


def test_what_all_points_share_is_a_shift_and_its_cause_is_said() -> None:
    slow = many(1, factor=1.05)
    points, (shift,) = compared(many(), slow)
    assert {p["verdict"] for p in points} == {"SAME"}
    assert {p["verdict_raw"] for p in points} == {"SLOWER"}
    assert shift["low"] < 0.05 < shift["high"]
    assert shift["cause"] == "cycles"
    clocked = slow.assign(clock=slow["clock"] / 1.05)
    assert compared(many(), clocked)[1][0]["cause"] == "clock"


def test_few_points_are_compared_without_a_shift() -> None:
    points, shifts = compared(many(count=5), many(1, count=5, factor=1.05))
    assert shifts == []
    assert {p["verdict"] for p in points} == {"SLOWER"}


def test_one_measurement_in_both_runs_is_counted_and_not_compared() -> None:
    run = many()
    assert compared(run, run) == ([], [])
    assert same_measurements(pairs_of(run, run)) == 60
    assert same_measurements(pairs_of(run, many(1))) == 0


def test_points_that_scatter_more_are_ambiguous() -> None:
    generator = np.random.default_rng(1)
    noisy = [with_units(many(), lambda *_: generator.normal(0, 0.05, 4)) for _ in range(2)]
    points, (shift,) = compared(*noisy)
    assert {p["verdict"] for p in points} == {"AMBIGUOUS"}
    assert shift["resolved"] == 0.0


def visited(generator: np.random.Generator, visits: int, shared: float) -> pd.DataFrame:
    """Points visited several times; `shared`: deviation of what all points of a visit share."""
    offsets = generator.normal(0, shared, visits)
    points = with_units(many(), lambda *_: offsets + generator.normal(0, 0.005, visits))
    return points.assign(turn_variance=1e-6, turn_degrees=6)


def test_a_point_that_takes_a_state_of_the_other_run_did_not_move() -> None:
    """Without the rule, the calm points of its group make it FASTER."""
    generator = np.random.default_rng(9)
    runs = [visited(generator, 3, 0.0) for _ in range(2)]
    start = runs[0]["units"].iloc[0][0]
    for run, states in zip(runs, ((0.0, 0.1, 0.1), (0.0, 0.0, 0.004)), strict=True):
        first = [tuple(start + state for state in states), *run["units"].iloc[1:]]
        run["units"] = pd.Series(first, index=run.index)
        run["interval"] = [replace(interval, basis="visits") for interval in run["interval"]]
    points, _ = compared(*runs)
    assert points[0]["verdict"] == "AMBIGUOUS"
    assert points[0]["change"] < -0.02


@pytest.mark.parametrize(("visits", "shared"), [(2, 0.03), (3, 0.0)])
def test_intervals_of_common_shifts_hold_what_visits_share(visits: int, shared: float) -> None:
    generator = np.random.default_rng(visits)
    draws, held = 40, 0
    for _ in range(draws):
        (shift,) = compared(*(visited(generator, visits, shared) for _ in range(2)))[1]
        held += shift["low"] <= 0 <= shift["high"]
    assert held >= 0.88 * draws  # 95 % less two standard errors of 40 draws


def test_visits_that_agree_leave_a_common_shift_certain() -> None:
    generator = np.random.default_rng(0)
    before, after = (visited(generator, 3, 0.0) for _ in range(2))
    (shift,) = compared(before, slower(after, *[1.05] * 60))[1]
    assert shift["low"] > 0.03
    assert shift["cause"] == "cycles"


def on_card(points: pd.DataFrame, name: str) -> pd.DataFrame:
    return points.assign(cards=pd.Series([frozenset({name})] * len(points), points.index))


def test_a_change_within_what_cards_differ_by_is_no_news_and_one_beyond_it_is() -> None:
    """Every eighth point is off by 5 % on the other card; the first is twice as slow."""
    after = slower(many(1), 2.0, 1.0, *[1.05, *[1.0] * 3, 1 / 1.05, *[1.0] * 3] * 7)
    one_card, (shift,) = compared(many(), after)
    two_cards, (again,) = compared(on_card(many(), "GPU-1"), on_card(after, "GPU-2"))
    assert sum(p["verdict"] in ("SLOWER", "FASTER") for p in one_card) == 15
    assert [p["verdict"] for p in two_cards if p["verdict"] != "SAME"] == [
        "SLOWER",
        *["AMBIGUOUS"] * 14,
    ]
    assert two_cards[0]["low"] > 0.5
    assert two_cards[2]["low"] < 0 < two_cards[2]["high"]
    assert [again[name] for name in ("shift", "low")] == [shift[name] for name in ("shift", "low")]


def test_of_few_points_of_two_cards_none_is_called() -> None:
    points, _ = compared(
        on_card(many(count=5), "GPU-1"), on_card(many(1, count=5, factor=1.05), "GPU-2")
    )
    assert {p["verdict"] for p in points} == {"AMBIGUOUS"}


def launches(step_s: float, seed: int) -> pd.DataFrame:
    """Empty kernels of 0.8, 1.6, 3.2 and 6.4 us, all with another state of the launch."""
    source, hot = np.random.default_rng(seed), Protocol(cache="hot")
    rows = []
    for i in range(4):
        of = replace(point(), op="probe_launch", shape={"grid": 2**i}, protocol=hot)
        turns = (0.8e-6 * 2**i + step_s) * np.exp(source.normal(0, 1e-3, 4))
        rows.append((of, measurement(of, turns.tolist())))
    return observations_of(rows)


def test_another_state_of_the_launch_is_named_once_and_moves_no_point() -> None:
    a, b = on_card(launches(0.0, 1), "GPU-1"), on_card(launches(0.18e-6, 2), "GPU-2")
    points, (state,) = compared(a, b)
    assert (state["group"], state["cause"], state["points"]) == (
        "probe_launch: launches",
        "state",
        4,
    )
    assert state["low"] <= 0.18 / 0.8 <= state["high"]
    assert np.allclose(state["shortest_s"], [0.8e-6, 0.98e-6], rtol=0.01)
    assert {p["verdict"] for p in points} <= {"SAME", "AMBIGUOUS"}
    assert all(abs(p["change"]) < 0.01 < p["raw"] for p in points)

    points, shifts = compared(a, on_card(launches(0.18e-6, 2), "GPU-1"))
    assert shifts == []
    assert points[0]["verdict"] == "SLOWER"
    assert compared(a, on_card(launches(0.001e-6, 2), "GPU-2"))[1] == []


POINTS, GROUPS, DEGREES, TURN_DEGREES = 300, 10, 2.0, 24.0


def visits_of(
    between: np.ndarray, of_turns: np.ndarray, seed: int
) -> tuple[Scatter, np.ndarray, np.ndarray, list[np.ndarray]]:
    """Arguments of moderated_in_groups: two visits in either run, in groups of thirty points."""
    source = np.random.default_rng(seed)
    chance = source.chisquare(DEGREES, POINTS) / DEGREES
    own = Scatter((between + of_turns) * chance, np.full(POINTS, DEGREES))
    turns = of_turns * source.chisquare(TURN_DEGREES, POINTS) / TURN_DEGREES
    groups = [np.arange(POINTS) % GROUPS == number for number in range(GROUPS)]
    return own, turns, np.full(POINTS, TURN_DEGREES), groups


def test_visits_that_scatter_alike_know_their_variance_from_their_group() -> None:
    between = np.full(POINTS, 25e-6)
    of_turns = np.exp(np.random.default_rng(0).normal(0, 1, POINTS)) * 1e-6
    scatter = moderated_in_groups(*visits_of(between, of_turns, seed=1))
    off = np.log(scatter.variance / (between + of_turns))
    assert abs(off.mean()) < 0.1
    assert off.std() < 0.4
    assert np.median(scatter.degrees) > 15


def test_a_point_whose_turns_scatter_more_has_visits_that_do() -> None:
    of_turns = np.where(np.arange(POINTS) < POINTS // 2, 1e-6, 100e-6)
    scatter = moderated_in_groups(*visits_of(np.full(POINTS, 4e-6), of_turns, seed=2))
    calm, restless = np.split(scatter.variance, 2)
    assert np.median(calm) == pytest.approx(5e-6, rel=0.3)
    assert np.median(restless) == pytest.approx(104e-6, rel=0.3)


def test_restless_groups_do_not_make_calm_ones_uncertain_and_calm_ones_do_not_calm_them() -> None:
    restless = np.arange(POINTS) % GROUPS < GROUPS // 2
    jumps = np.exp(np.random.default_rng(5).normal(0, 2, POINTS)) * 25e-6
    between = np.where(restless, jumps, 25e-6)
    scatter = moderated_in_groups(*visits_of(between, np.full(POINTS, 1e-6), seed=6))
    assert np.median(scatter.degrees[restless]) < 6
    assert np.median(scatter.degrees[~restless]) > 1.5 * np.median(scatter.degrees[restless])


def test_points_outside_of_groups_keep_their_own_and_turns_are_not_needed() -> None:
    own, turns, turn_degrees, groups = visits_of(np.ones(POINTS), np.ones(POINTS), seed=7)
    assert moderated_in_groups(own, turns, turn_degrees, []) is own
    scatter = moderated_in_groups(own, turns, turn_degrees, groups[:1])
    assert (scatter.variance[~groups[0]] == own.variance[~groups[0]]).all()
    assert (scatter.degrees[~groups[0]] == DEGREES).all()
    alike, none, _, groups = visits_of(np.full(POINTS, 25e-6), np.zeros(POINTS), seed=8)
    scatter = moderated_in_groups(alike, none, np.zeros(POINTS), groups)
    assert np.log(scatter.variance / 25e-6).std() < 0.5
