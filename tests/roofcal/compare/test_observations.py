"""What compare reads of a run: turns, clocks, statuses, and the drift regime of a point."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from roofcal.compare.observations import CompareError, drift_regimes, in_both, observe
from roofcal.core.jsonl import RecordsError, write_records
from roofcal.core.paths import RunFolder
from roofcal.core.records import Measurement, PlanPoint
from roofcal.core.visits.rows import merged_visits
from tests.roofcal.compare.made_up import (
    ENVIRONMENT,
    many,
    measurement,
    observations_of,
    observed,
    point,
    write_run,
)
from tests.roofcal.made_up_records import row


def observation(of: PlanPoint, row: Measurement) -> Any:
    """The row of one point."""
    return observations_of([(of, row)]).iloc[0]


def test_units_are_turns_without_hiccups_or_the_visits_of_a_point_that_has_several() -> None:
    row_of_turns = measurement(point(), [1.0, np.e**2])
    assert observation(point(), row_of_turns).units == pytest.approx((0.0, 2.0))
    turn = (*(1.0 for _ in range(9)), 100.0)
    hiccup = replace(row_of_turns, latency_samples_s=turn, warmup_samples=0, slice_starts=(0,))
    assert observation(point(), hiccup).units == pytest.approx((0.0,))
    lines = [
        row(*[time] * 8, visit=number, slice_starts=(0, 4))
        for number, time in enumerate((1.0, 1.1, 1.2))
    ]
    units = observation(point(), merged_visits(lines)).units
    assert units == pytest.approx(np.log([1.0, 1.1, 1.2]))
    seen = observation(point(), measurement(point(), [], status="unsupported"))
    assert (seen.status, seen.units, seen.interval) == ("unsupported", (), None)


def test_the_name_of_a_row_is_the_same_on_another_device() -> None:
    other, row = replace(point(), device="other"), measurement(point(), [1.0, 1.0])
    assert other.point_id != point().point_id
    assert observation(other, row).name == observation(point(), row).name


def test_the_drift_regime_says_whether_the_clock_was_limited_and_for_long() -> None:
    rows = [
        (point(512), [1.0, 1.0], 2e9),
        (point(528), [1e-3, 1e-3], 1.5e9),
        (point(544), [1.0, 1.0], 1.5e9),
        (point(560), [1.0, 1.0], None),
    ]
    points = observations_of([(p, measurement(p, turns, clock)) for p, turns, clock in rows])
    assert drift_regimes(points) == [
        "small",
        "small, clock limited",
        "small, clock limited, long",
        "small",
    ]


def test_a_folder_without_measurements_and_one_that_is_no_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match=r"environment\.jsonl"):
        observe(RunFolder.at(tmp_path))
    write_records(tmp_path / "environment.jsonl", [ENVIRONMENT])
    with pytest.raises(CompareError, match="holds no measurement"):
        observe(RunFolder.at(tmp_path))


@pytest.mark.parametrize(
    ("b", "driver", "is_other"),
    [
        ({"GPU-2"}, None, True),
        ({"GPU-1"}, None, False),
        ({"GPU-1", "GPU-2"}, None, True),
        ({""}, None, False),  # a session that does not know its card
        ({"GPU-2"}, "590", False),  # other software may be other code
    ],
)
def test_a_point_is_of_another_card_where_the_same_software_ran_on_other_cards(
    b: set[str], driver: str | None, is_other: bool
) -> None:
    points = many(count=1)
    one, other = (
        observed(points.assign(cards=pd.Series([frozenset(cards)], points.index)))
        for cards in ({"GPU-1"}, b)
    )
    other = replace(other, environment=replace(ENVIRONMENT, driver=driver))
    assert in_both(one, other)["other_card"].tolist() == [is_other]


@pytest.mark.parametrize(
    ("provider", "code", "is_other"),
    [("triton", "new", True), ("triton", "old", False), ("cublaslt", "new", False)],
)
def test_a_point_is_of_other_code_where_another_commit_measured_our_kernel(
    provider: str, code: str, is_other: bool
) -> None:
    points = many(count=1)
    points = points.assign(point=[replace(points["point"].iloc[0], provider=provider)])
    one, other = (
        observed(points.assign(codes=pd.Series([frozenset({name})], points.index)))
        for name in ("old", code)
    )
    assert in_both(one, other)["other_code"].tolist() == [is_other]


def test_cards_and_code_of_a_point_are_those_of_its_sessions(tmp_path: Path) -> None:
    run = observe(RunFolder.at(write_run(tmp_path, [(point(), measurement(point(), [1.0, 1.0]))])))
    assert (run.environment, run.cards) == (ENVIRONMENT, ("GPU-1",))
    (seen,) = run.points[["cards", "codes"]].itertuples(index=False)
    assert seen == (frozenset({"GPU-1"}), frozenset({"c0de"}))
