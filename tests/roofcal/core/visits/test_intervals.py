"""Intervals of points: what they are taken from, and that they hold as often as they say."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from roofcal.core.jsonl import read_records
from roofcal.core.paths import RunFolder
from roofcal.core.records import Measurement
from roofcal.core.statistics import summarise
from roofcal.core.visits.differences import time_ratio
from roofcal.core.visits.intervals import (
    HOLDS,
    PointInterval,
    VisitTime,
    narrowest_hold,
    point_intervals,
    sentinel_medians,
    visit_times,
)
from roofcal.core.visits.rows import merged_visits, split_visits
from tests.paths import ROOT
from tests.roofcal.made_up_records import point_of, row


def visit(median: float, half: float = 0.001, session: str = "s") -> VisitTime:
    """A visit whose own samples know its median to a fraction `half`."""
    low, high = median * math.exp(-half), median * math.exp(half)
    return VisitTime(session_id=session, median=median, ci95_low=low, ci95_high=high, count=20)


SAMPLES = tuple(1.0 + 0.01 * i for i in range(20))


def interval_of(points: Sequence[Sequence[VisitTime]]) -> PointInterval:
    interval = point_intervals(points)[0]
    assert interval is not None
    return interval


def test_one_visit_has_the_interval_of_its_samples_alone() -> None:
    summary = summarise(SAMPLES)
    interval = interval_of([list(visit_times(row(*SAMPLES)))])
    assert (interval.median, interval.ci95_low, interval.ci95_high, interval.count) == (
        summary.median, summary.ci95_low, summary.ci95_high, 20,
    )  # fmt: skip
    assert interval.basis == "samples"


def test_a_row_of_two_visits_has_a_time_for_each_and_a_failed_one_none() -> None:
    merged = merged_visits([row(*SAMPLES), row(*(2 * s for s in SAMPLES), visit=1)])
    assert [time.median for time in visit_times(merged)] == pytest.approx([1.095, 2.19])
    interval = interval_of([visit_times(merged)])
    assert interval.basis == "visits"
    assert interval.median == pytest.approx(1.095 * 2**0.5)
    assert visit_times(row(status="failed", reason="why")) == ()
    assert point_intervals([(), [visit(1.0)]])[0] is None


@pytest.mark.parametrize(
    ("cards", "holds", "median"),
    [
        (None, "another session", (1.0 * 1.04 * 1.02) ** (1 / 3)),
        ({"a": "GPU-1", "b": "GPU-1", "c": "GPU-2"}, "another card",
         ((1.0 * 1.04) ** 0.5 * 1.02) ** 0.5),
    ],
)  # fmt: skip
def test_cards_else_sessions_are_the_units_of_a_point(
    cards: dict[str, str] | None, holds: str, median: float
) -> None:
    visits = [visit(1.0, session="a"), visit(1.0, session="a"), visit(1.04, session="b")]
    (interval,) = point_intervals([[*visits, visit(1.02, session="c")]], cards)
    assert interval is not None
    assert HOLDS[interval.basis] == holds
    assert interval.median == pytest.approx(median)


def test_what_two_sessions_differ_by_at_every_point_is_known_from_two_values_alone() -> None:
    """800 points that all moved by 1 % say no more of the next session than one of them."""
    draw = np.random.default_rng(5)
    logs = 1e-4 * draw.standard_normal((800, 2)) + np.array([0.0, 0.01])
    points = [
        [
            visit(math.exp(log), half=1e-5, session=name)
            for name, log in zip("ab", pair, strict=True)
        ]
        for pair in logs
    ]
    interval = interval_of(points)
    half = math.log(interval.ci95_high / interval.median)
    assert half == pytest.approx(12.706 * 0.01 / 2, rel=0.02)


def test_few_points_do_not_moderate_one_another() -> None:
    interval = interval_of([[visit(1.0), visit(1.01)]])
    half = math.log(interval.ci95_high / interval.median)
    assert half == pytest.approx(12.706 * math.log(1.01) / 2, rel=1e-3)


def test_visits_that_agree_by_luck_are_no_surer_than_their_samples() -> None:
    points = [[visit(1.0, half=0.05), visit(1.0, half=0.05)] for _ in range(50)]
    interval = interval_of(points)
    assert math.log(interval.ci95_high / interval.median) > 0.05 / 2**0.5 * 0.99


def scatters(draw: np.random.Generator, points: int, degrees: float) -> list[float]:
    """Standard deviations between visits as points of an op have them, 1 % in the middle."""
    return list(0.01 * np.sqrt(degrees / draw.chisquare(degrees, points)))


def drawn(
    draw: np.random.Generator, own: Sequence[float], shifts: Sequence[float], visits: int = 1
) -> list[list[VisitTime]]:
    """Points whose time is 1, each with its own scatter between visits.

    shifts: of each session, at all points. Samples of a visit scatter by a tenth of the visits.
    """
    return [
        [
            visit(math.exp(shift + draw.normal(0, scatter)), scatter / 10, f"session {number}")
            for number, shift in enumerate(shifts)
            for _ in range(visits)
        ]
        for scatter in own
    ]


def study(
    points: int, degrees: float, sessions: int, common: float, visits: int = 1
) -> Callable[[np.random.Generator], list[list[VisitTime]]]:
    """Draws points of sessions that differ by `common` at all points."""
    return lambda draw: drawn(
        draw, scatters(draw, points, degrees), draw.normal(0, common, sessions).tolist(), visits
    )


def many_and_few(few: int, sessions: int) -> Callable[[np.random.Generator], Any]:
    """Draws 40 points of a kind, and a few of another that sessions shift otherwise."""

    def points(draw: np.random.Generator) -> list[list[VisitTime]]:
        shifts = draw.normal(0, 0.01, (2, sessions)).tolist()
        return drawn(draw, [0.003] * 40, shifts[0]) + drawn(draw, [0.003] * few, shifts[1])

    return points


def many_and_one_of_another_session(draw: np.random.Generator) -> list[list[VisitTime]]:
    """Forty points of sessions 0 and 1, and one of 0 and 2."""
    first, second, third = draw.normal(0, 0.01, 3).tolist()
    *many, (one, _, other) = drawn(draw, [0.003] * 41, [first, second, third])
    return [*(visits[:2] for visits in many), [one, other]]


@pytest.mark.parametrize(
    ("points_of", "draws", "kinds", "most"),
    [
        (study(80, 2.0, 1, 0.0, visits=2), 30, [], 0.98),  # points scatter in their own ways
        (study(80, 30.0, 1, 0.0, visits=2), 30, [], 0.98),  # they scatter alike
        (study(40, 4.0, 2, 0.0), 60, [], 1.0),
        (study(40, 4.0, 3, 0.003), 60, [], 1.0),
        # Student's interval of each point by itself would hold it in 70 %.
        (study(40, 4.0, 2, 0.03), 60, [], 1.0),
        (many_and_few(1, 2), 150, ["many"] * 40 + ["few"], 0.98),
        (many_and_few(2, 3), 150, ["many"] * 40 + ["few"] * 2, 0.98),
        (many_and_one_of_another_session, 150, ["many"] * 41, 0.98),
    ],
)
def test_intervals_hold_the_truth_as_often_as_they_say(
    points_of: Callable[[np.random.Generator], list[list[VisitTime]]],
    draws: int,
    kinds: list[str],
    most: float,
) -> None:
    """Of all points, or of those behind the first 40 where these are many of a kind."""
    draw, held = np.random.default_rng(8), list[bool]()
    for _ in range(draws):
        intervals = point_intervals(points_of(draw), kinds=kinds or None)
        held += [i.ci95_low <= 1 <= i.ci95_high for i in intervals[40 if kinds else 0 :] if i]
    assert len(held) >= draws
    assert 0.93 <= np.mean(held) <= most


def test_a_session_measured_again_differs_by_less_than_both_intervals_allow() -> None:
    """Two studies of two sessions: scatter of visits and samples as the sentinels of H200s show."""
    draw, held = np.random.default_rng(7), list[bool]()
    for _ in range(40):
        own = scatters(draw, 40, 4.0)
        runs = [
            point_intervals(drawn(draw, own, draw.normal(0, 0.005, 2).tolist(), visits=2))
            for _ in range(2)
        ]
        ratios = [time_ratio(i.ends, j.ends) for i, j in zip(*runs, strict=True) if i and j]
        held += [bool(low <= 1 <= high) for _, low, high in ratios]
    assert np.mean(held) >= 0.94


def test_an_interval_made_of_two_holds_what_the_weaker_holds() -> None:
    assert narrowest_hold("another session", "this visit", "this session") == "this visit"
    assert narrowest_hold("another card", "another session") == "another session"
    assert narrowest_hold("another card", None) is None


def at_power_limit(*windows: float) -> Measurement:
    """A visit of one turn: 0.1 s of each time of a call, in us, of which the last ones count."""
    samples = [
        window * 1e-6 * (1 + 1e-4 * (i % 2))
        for window in windows
        for i in range(round(0.1 / (2e-6 * window)))
    ]
    counted = round(0.1 / (2e-6 * windows[-1]))
    turn = {"slice_starts": (0,), "unsettled_samples": (len(samples) - counted,)}
    return row(*samples, calls_per_sample=2, **turn)


def test_an_interval_of_one_window_knows_how_far_windows_lie_apart() -> None:
    """A linear of an H100: its clock went down while its turn was counted, and up again."""
    wandering = interval_of([list(visit_times(at_power_limit(450, 439, 497, 504)))])
    assert wandering.median == pytest.approx(504e-6, rel=1e-3)
    assert wandering.ci95_low < 436e-6
    assert wandering.basis == "samples"
    steady = interval_of([list(visit_times(at_power_limit(450, 503.9, 504.1, 504)))])
    assert steady.ci95_low == pytest.approx(504e-6, rel=2e-3)


def test_the_start_of_a_turn_and_short_turns_say_nothing_of_the_clock() -> None:
    (visit_time,) = visit_times(at_power_limit(300, 504, 504, 504))
    assert visit_time.windows_s == pytest.approx([504e-6] * 3, rel=1e-3)
    assert visit_time.counted_windows == pytest.approx(1.0, rel=0.02)
    (short,) = visit_times(row(*[1e-3, 2e-3] * 20, slice_starts=(0, 20)))
    assert short.windows_s == ()


def test_points_that_wander_alike_moderate_one_another() -> None:
    lucky, *others = (
        visit_times(at_power_limit(504, 504 + apart, 504 - apart, 504))
        for apart in (3, 8, 9, 10, 11, 12)
    )
    halves = [
        math.log(interval.ci95_high / interval.median)
        for interval in (interval_of([list(lucky)]), interval_of([list(lucky), *map(list, others)]))
    ]
    assert halves[0] == pytest.approx(4.30 * 3 / 504, rel=0.01)  # Student's of three windows
    assert 1.2 * halves[0] < halves[1]


def test_visits_of_products_at_the_power_limit_differ_as_their_intervals_say() -> None:
    (folder,) = ROOT.glob("reports/published/nvidia-h200/*/cards/GPU-6237b75b")
    rows = read_records(RunFolder.at(folder).measurements_file("gemm"), Measurement)
    visits = [
        (measured.point_id, visit)
        for measured in rows
        if any(measured.unsettled_samples)
        for visit in split_visits(measured)
        if any(visit.unsettled_samples)
    ]
    times = [visit_times(visit) for _, visit in visits]
    of_windows = [i.ends for i in point_intervals(times) if i is not None]
    of_samples = [(t.median, t.ci95_low, t.ci95_high) for (t,) in times]

    def share_within(intervals: list[tuple[float, float, float]]) -> float:
        by_point = defaultdict(list)
        for (point_id, _), interval in zip(visits, intervals, strict=True):
            by_point[point_id].append(interval)
        ratios = [time_ratio(a, b) for ends in by_point.values() for a, b in combinations(ends, 2)]
        return float(np.mean([low <= 1 <= high for _, low, high in ratios]))

    assert share_within(of_samples) < 0.3
    assert 0.92 < share_within(of_windows) < 0.97


def test_a_point_that_is_a_sentinel_too_has_an_interval_that_holds_its_repetitions() -> None:
    """An empty kernel of an H100, in two states."""
    probe = point_of("probe_launch", "empty", {"grid": 1})
    sentinel, other = replace(probe, repeat=1, sweeps=("sentinel",)), replace(probe, repeat=2)
    repetitions = {sentinel.point_id: [visit(0.9593), visit(0.9596)], other.point_id: [visit(9.0)]}

    medians = sentinel_medians([probe, sentinel, other], repetitions)

    assert medians == {probe.point_id: [0.9593, 0.9596]}
    held, free = point_intervals([[visit(0.784)]] * 2, repeated_s=[medians[probe.point_id], ()])
    assert held is not None
    assert free is not None
    assert (held.median, held.ci95_low, held.ci95_high) == (0.784, free.ci95_low, 0.9596)
