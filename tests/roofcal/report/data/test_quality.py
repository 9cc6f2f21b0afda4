"""Drift, busy time, pace: how well a run was measured."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from roofcal.core.records import Session
from roofcal.points.run import load_run
from roofcal.report.data import panel_factors, quality
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.tidy import models_in
from tests.roofcal.report.synthetic import DRIFT, MadeUpRun, product

SESSION = MadeUpRun().session("gemm")


def two_cards(analysis: Analysis, factor: float) -> tuple[pd.DataFrame, list[Session]]:
    """The frame of gemm, as if its sentinel's last two repetitions ran on a card of another factor.

    So did its products of 4096 rows.
    """
    frame = analysis.frames["gemm"].copy()
    is_other = (frame["repeat"] >= 4) | (frame["m"] == 4096) & (frame["repeat"] == 0)
    frame.loc[is_other, "session_id"] = "other"
    for name in ("median_s", "ci95_low_s", "ci95_high_s"):
        frame.loc[is_other, name] *= factor
    own = SESSION.session_id
    pairs = ((own, "GPU-1"), ("other", "GPU-2"))
    return frame, [replace(SESSION, session_id=name, device_uuid=card) for name, card in pairs]


def test_times_of_another_card_are_put_on_the_scale_of_the_panel(analysis: Analysis) -> None:
    frame, sessions = two_cards(analysis, 1.1)
    factors = panel_factors.panel_factors(
        panel_factors.panel_fits(panel_factors.panel_readings({"gemm": frame}, {"gemm": sessions}))
    )
    by_card = factors[factors["session_id"] == ""].set_index("card")["factor"]
    assert by_card["GPU-2"] / by_card["GPU-1"] == pytest.approx(1.1, rel=0.02)

    scaled = panel_factors.on_panel_scale(frame, factors)
    is_other = scaled["session_id"] == "other"
    kind = panel_factors.kinds_of_work(scaled) == factors["kind"][0]
    known = scaled["panel_factor"].notna()
    assert (known & is_other).any()
    assert (known == (kind & scaled["median_s"].notna())).all()
    assert (scaled["median_s"] == frame["median_s"]).equals(frame["median_s"].notna())
    assert scaled.loc[known, "panel_s"].to_numpy() == pytest.approx(
        (scaled["median_s"] / scaled["panel_factor"])[known].to_numpy()
    )
    assert "panel" not in models_in(scaled)


def test_busy_is_timed_over_wall_of_all_sessions() -> None:
    second = replace(SESSION, wall_s=20.0, timed_s=1.0)

    assert quality.busy_fraction([SESSION]) == pytest.approx(39 / 60)
    assert quality.busy_fraction([SESSION, second]) == pytest.approx(40 / 80)
    assert quality.wall_seconds([SESSION, second]) == 80.0
    cut = replace(SESSION, wall_s=None, timed_s=None)  # it never ended
    assert quality.busy_fraction([cut]) is None
    assert quality.busy_fraction([SESSION, cut]) == quality.busy_fraction([SESSION])


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


def test_what_the_device_waited_for_adds_up_to_the_wall_time_in_the_order_of_measuring() -> None:
    first = replace(
        SESSION,
        device_uuid="GPU-1",
        started_utc="2026-11-23T03:00:00+00:00",
        finished_utc="2026-11-23T03:00:20+00:00",
        wall_s=20.0,
        timed_s=12.0,
        starting_s=3.0,
        compiling_s=1.0,
    )
    second = replace(
        first,
        op="cast",
        started_utc="2026-11-23T03:00:22+00:00",
        finished_utc="2026-11-23T03:00:32+00:00",
        wall_s=10.0,
    )
    elsewhere = replace(second, op="linear", device_uuid="GPU-2", compiling_s=None)

    table = quality.waiting_rows({"cast": [second], "gemm": [first], "linear": [elsewhere]})

    assert list(table["op"]) == ["gemm", "cast", "linear"]
    parts = ["busy_fraction", "starting_fraction", "compiling_fraction", "preparing_fraction"]
    assert list(table[parts].iloc[0]) == pytest.approx([0.6, 0.15, 0.05, 0.2])
    assert table["between_s"].isna().tolist() == [True, False, True]
    assert table["between_s"][1] == 2.0
    cut = replace(SESSION, wall_s=None, starting_s=1.0)
    assert quality.waiting_rows({"gemm": [SESSION], "cast": [cut]}).empty, "neither says it"
