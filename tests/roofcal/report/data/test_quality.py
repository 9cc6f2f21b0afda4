"""Drift, busy time, pace: how well a run was measured."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from roofcal.points.run import load_run
from roofcal.report.data import quality
from roofcal.report.data.analysis import Analysis
from tests.roofcal.report.synthetic import DRIFT, MadeUpRun, product

SESSION = MadeUpRun().session("gemm")


def test_a_quality_row_sums_up_an_op(analysis: Analysis, bare: Path) -> None:
    row = analysis.quality.set_index("op").loc["gemm"]

    frame = analysis.frames["gemm"]
    assert (row["points"], row["ok"]) == (len(frame), len(frame) - 4)
    assert row["points_per_minute"] == pytest.approx(len(frame))
    assert row["busy_fraction"] == pytest.approx(0.65)
    assert row["throttled_fraction"] == row["narrow_fraction"] == 1.0
    assert row["drift_fraction"] == pytest.approx(DRIFT)

    without_telemetry = load_run(bare).points("gemm").table
    cut = replace(SESSION, wall_s=None)  # it never ended
    assert quality.quality_row(without_telemetry, [cut])["points_per_minute"] is None
    assert quality.quality_row(without_telemetry, [])["throttled_fraction"] is None
    never_measured = quality.quality_row(load_run(bare).points("cast").table, [])
    assert never_measured["points"] == never_measured["ok"] == 0
    assert never_measured["half_width_fraction"] is never_measured["busy_fraction"] is None


def test_a_wide_interval_is_not_narrow_unless_the_host_timed_it(analysis: Analysis) -> None:
    frame = analysis.frames["gemm"]
    by_host = frame.iloc[: 3 * len(frame) // 4].assign(method="wall")
    loose = by_host.assign(ci95_high_s=10 * by_host["median_s"])
    of_both = quality.quality_row(pd.concat([frame, loose]), [])
    for name in ("half_width_fraction", "narrow_fraction"):
        assert of_both[name] == pytest.approx(quality.quality_row(frame, [])[name])
    assert quality.quality_row(loose, [])["half_width_fraction"] > 1
    assert quality.quality_row(loose, [])["narrow_fraction"] == 0.0


def test_points_are_placed_in_time_by_session_and_start(tmp_path: Path) -> None:
    made_up = MadeUpRun()
    made_up.measure(product(64, 64, 64), started_s=30.0)
    made_up.measure(product(64, 64, 128), started_s=6.0, session_id="later")
    frame = made_up.table(tmp_path)
    later = replace(SESSION, session_id="later", started_utc="2026-11-21T04:10:00+00:00")

    assert list(quality.minutes_since_start(frame, [SESSION, later])) == pytest.approx([0.5, 10.1])
    nameless = replace(SESSION, started_utc="")  # counts from the first
    assert list(quality.minutes_since_start(frame[:1], [nameless])) == pytest.approx([0.5])
