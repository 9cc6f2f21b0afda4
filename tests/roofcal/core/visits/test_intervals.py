"""Intervals of points: what they are taken from, and that they hold as often as they say."""

import math
from collections import defaultdict
from collections.abc import Sequence
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


def hold(intervals: Sequence[PointInterval | None]) -> list[bool]:
    """Whether each interval holds the truth, which is 1."""
    return [i.ci95_low <= 1 <= i.ci95_high for i in intervals if i is not None]


def planned(draw: np.random.Generator, scatters: np.ndarray, shift: float = 0.0) -> Any:
    """Two visits of every point, whose time is 1 but for a shift of its logarithm."""
    logs = shift + draw.normal(0, scatters[:, None], (len(scatters), 2))
    return [[visit(math.exp(log), half=1e-5) for log in pair] for pair in logs]


def drawn_scatters(draw: np.random.Generator, points: int, degrees: float) -> np.ndarray:
    """Standard deviations between visits as points of an op have them, 1 % in the middle."""
    return 0.01 * np.sqrt(degrees / draw.chisquare(degrees, points))


def test_two_visits_cover_the_truth_in_93_to_98_percent_of_points() -> None:
    """Where points scatter in their own ways, and where they scatter alike."""
    for degrees in (2.0, 30.0):
        draw = np.random.default_rng(1)
        held = []
        for _ in range(30):
            held += hold(point_intervals(planned(draw, drawn_scatters(draw, 80, degrees))))
        assert 0.93 <= np.mean(held) <= 0.98


def differ_by_nothing(
    a: Sequence[PointInterval | None], b: Sequence[PointInterval | None]
) -> list[bool]:
    """Whether the interval of the ratio of each point of two runs holds 1."""
    ratios = [time_ratio(i.ends, j.ends) for i, j in zip(a, b, strict=True) if i and j]
    return [bool(low <= 1 <= high) for _, low, high in ratios]


def measured(
    draw: np.random.Generator, sessions: int, common: float, own: np.ndarray, visits: int = 1
) -> list[PointInterval]:
    """A study of points whose time is 1, of sessions that differ by `common` at all points.

    own: scatter of each point between visits of a session; of samples: a tenth of that.
    """
    shifts = draw.normal(0, common, sessions)
    points = [
        [
            visit(math.exp(shift + draw.normal(0, scatter)), scatter / 10, f"session {number}")
            for number, shift in enumerate(shifts)
            for _ in range(visits)
        ]
        for scatter in own
    ]
    return [interval for interval in point_intervals(points) if interval is not None]


@pytest.mark.parametrize(("sessions", "common"), [(2, 0.0), (3, 0.003), (2, 0.03)])
def test_intervals_of_sessions_hold_the_truth_where_sessions_share_a_shift(
    sessions: int, common: float
) -> None:
    """Student's interval of each point by itself would hold it in 70 % where the shift is large."""
    draw = np.random.default_rng(6)
    held = []
    for _ in range(60):
        held += hold(measured(draw, sessions, common, drawn_scatters(draw, 40, 4.0)))
    assert np.mean(held) >= 0.93


def points_of_sessions(
    draw: np.random.Generator, shifts: dict[str, float], points: int
) -> list[list[VisitTime]]:
    """Points whose time is 1, scattered by 0.3 % around what each session adds to all of them."""
    return [
        [visit(math.exp(shifts[s] + draw.normal(0, 0.003)), 1e-4, s) for s in shifts]
        for _ in range(points)
    ]


@pytest.mark.parametrize(("sessions", "few"), [("ab", 1), ("abc", 2)])
def test_one_or_two_points_of_a_kind_are_covered_beside_many_of_another(
    few: int, sessions: str
) -> None:
    draw = np.random.default_rng(8)
    held = []
    for _ in range(150):
        points = [
            point
            for count in (40, few)
            for point in points_of_sessions(
                draw, {name: float(draw.normal(0, 0.01)) for name in sessions}, count
            )
        ]
        held += hold(point_intervals(points, kinds=["many"] * 40 + ["few"] * few)[40:])
    assert len(held) == 150 * few
    assert 0.93 <= np.mean(held) <= 0.98


def test_one_point_of_other_sessions_is_covered_beside_many_of_its_kind() -> None:
    draw = np.random.default_rng(9)
    held = []
    for _ in range(150):
        a, b, c = draw.normal(0, 0.01, 3).tolist()
        points = points_of_sessions(draw, {"a": a, "b": b}, 40)
        points += points_of_sessions(draw, {"a": a, "c": c}, 1)
        held += hold(point_intervals(points)[40:])
    assert 0.93 <= np.mean(held) <= 0.98


def test_a_session_measured_again_differs_by_less_than_both_intervals_allow() -> None:
    """Two studies of two sessions: scatter of visits and samples as the sentinels of H200s show."""
    draw = np.random.default_rng(7)
    held = []
    for _ in range(40):
        own = drawn_scatters(draw, 40, 4.0)
        held += differ_by_nothing(*(measured(draw, 2, 0.005, own, visits=2) for _ in range(2)))
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
