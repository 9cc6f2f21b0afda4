"""Rows of several visits: what merging keeps, and that splitting gives the visits back."""

from dataclasses import replace
from typing import Any

import pytest

from roofcal.core.jsonl import decode, encode
from roofcal.core.records import Measurement, Telemetry
from roofcal.core.visits.rows import merged_visits, session_drift, split_visits, states_of_visits
from tests.roofcal.made_up_records import readings
from tests.roofcal.made_up_records import row as made_up_row


def visit(number: int, *samples: float, **rest: Any) -> Measurement:
    limited = {"power_w": (1.0, 2.0), "throttle_reasons": ((), ("power_cap",))}
    values: dict[str, Any] = {
        "warmup_samples": 2, "slice_starts": (0, 2), "session_id": f"s{number}", "visit": number,
        "telemetry": readings((0, 2), sm_clock_hz=(1e9 + number, 2e9), **limited),
        "started_s": 10.0 * number, "elapsed_s": 1.0,
        "kernel_names": ("k",), "relative_error": 0.001,
    }  # fmt: skip
    return made_up_row(*samples, **values | rest)


FIRST = visit(0, 1.0, 1.1, 1.2, 1.3)
SECOND = visit(1, 1.0, 1.1, 1.2, 1.25, 1.3, unsettled_samples=(0, 1), relative_error=0.002)


def test_indices_of_later_visits_point_at_their_own_samples() -> None:
    row = merged_visits([FIRST, SECOND])
    assert row.slice_starts == (0, 2, 4, 6)
    assert row.unsettled_samples == (0, 0, 0, 1)
    assert row.telemetry.sample_index == (0, 2, 4, 6)
    assert row.settled_turns_s == (((1.2, 1.3),), ((1.25, 1.3),))
    assert decode(encode(row)) == row, "the record is consistent"


def test_the_largest_error_the_whole_time_and_the_samples_of_all_ranks_are_kept() -> None:
    ranks: list[dict[str, Any]] = [
        {"fastest_rank_s": (0.5,) * 4, "rank_medians_s": (1.0, 3.0)},
        {"fastest_rank_s": (0.6,) * 5, "rank_medians_s": (2.0, 5.0)},
    ]
    row = merged_visits([replace(FIRST, **ranks[0]), replace(SECOND, **ranks[1])])
    assert (row.relative_error, row.elapsed_s, row.started_s) == (0.002, 2.0, 0.0)
    assert [v.session_id for v in row.visits] == ["s0", "s1"]
    assert len(row.fastest_rank_s) == len(row.latency_samples_s)
    assert row.rank_medians_s == (1.5, 4.0)


def test_a_visit_that_failed_or_launched_other_kernels_is_in_the_reason() -> None:
    failed = visit(1, status="timeout", reason="no sign of life", slice_starts=(),
                   warmup_samples=0, telemetry=Telemetry())  # fmt: skip
    other = visit(2, *SECOND.latency_samples_s, kernel_names=("other",))
    row = merged_visits([FIRST, failed, other])
    assert row.status == "ok"
    assert row.reason == (
        "visit 2 of 3: timeout: no sign of life; visit 3 of 3 launched other kernels: other"
    )
    assert [v.started_s for v in row.visits] == [0.0, 20.0], "without the one that failed"
    assert row.kernel_names == ("k", "other")


def test_splitting_a_row_gives_its_visits_back() -> None:
    assert merged_visits([FIRST]) is FIRST
    assert split_visits(FIRST) == [FIRST]
    parts = split_visits(merged_visits([FIRST, SECOND]))
    for field in (
        *("latency_samples_s", "slice_starts", "telemetry", "session_id"),
        *("warmup_samples", "started_s", "settled_samples_s"),
    ):
        assert [getattr(p, field) for p in parts] == [getattr(v, field) for v in (FIRST, SECOND)]


def test_two_states_of_a_point_are_kept_and_named() -> None:
    slower = visit(1, *(1.09 * s for s in FIRST.latency_samples_s))
    row = merged_visits([FIRST, slower])
    assert row.reason == "its visits are in different states, in us: 1.25e+06, 1.363e+06"
    assert merged_visits([FIRST, replace(FIRST, visit=1)]).reason is None


@pytest.mark.parametrize(
    ("medians", "states"),
    [
        ((), []),
        ((2.0,), [(2.0, 1)]),
        ((1.05, 1.0, 1.02), [(1.02, 3)]),  # within five per cent
        ((121.3, 109.3, 108.7), [(109.0, 2), (121.3, 1)]),  # the fastest first
        ((100.0, 104.9, 105.1), [(100.0, 1), (105.0, 2)]),  # cut at the widest gap
        ((100.0, 104.0, 109.0, 120.0), [(102.0, 2), (109.0, 1), (120.0, 1)]),
    ],
)
def test_visits_more_than_five_percent_apart_are_states(
    medians: tuple[float, ...], states: list[tuple[float, int]]
) -> None:
    assert [(state.seconds, state.visits) for state in states_of_visits(medians)] == states


@pytest.mark.parametrize(
    ("times", "drift"),
    [
        ([], 0.0),
        ([[1.0]], 0.0),
        ([[1.0, 1.2, 1.1], [5.0]], 0.2),
        ([[1.0, 1.2, 1.0], [2.0, 2.0, 2.02]], 0.01),  # one of two has another state
        ([[1.0, 1.2], [2.0, 2.4], [3.0, 3.0]], 0.2),  # work beside the session slows most
    ],
)
def test_a_session_drifts_as_most_of_its_sentinels_do(
    times: list[list[float]], drift: float
) -> None:
    assert session_drift(times) == pytest.approx(drift)
