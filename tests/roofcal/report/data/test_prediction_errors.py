"""Errors by model, regime and recipe, against errors that the made-up run was given."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from roofcal.core.environments import transferred_model
from roofcal.points.run import Run
from roofcal.report.data import prediction_errors
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.provenance import commands
from roofcal.report.data.quality import violations
from roofcal.report.summary import device_line, regime_tables
from roofcal.report.write import write_report
from tests.roofcal.report.conftest import DEVICES
from tests.roofcal.report.synthetic import (
    MODEL_ERROR,
    MadeUpRun,
    product,
    true_seconds,
)
from tests.roofcal.report.transferred import ERRORS, OTHER_DRIVER, OTHER_TORCH


def row_of(errors: pd.DataFrame, model: str = "calibrated", **keys: str) -> "pd.Series[Any]":
    """A row of error_by_regime, which has it."""
    row = prediction_errors.error_of(errors, model, op="gemm", **keys)
    assert row is not None
    return row


def test_errors_are_those_of_the_made_up_predictions(analysis: Analysis, run: Run) -> None:
    for regime in ("decode", "mid", "large", "skinny_k"):
        row = row_of(analysis.errors, regime=regime)
        error = MODEL_ERROR[regime]
        assert tuple(row[["mape", "median_abs_error"]]) == pytest.approx((abs(error), abs(error)))
        assert tuple(row[["median_error", "worst_error"]]) == pytest.approx((error, error))

    frame = prediction_errors.judged(run.points("gemm").table)  # over all, every point weighs alike
    expected = [abs(MODEL_ERROR[regime]) for regime in frame["regime"]]
    row = row_of(analysis.errors)
    assert row["count"] == len(expected)
    assert row["mape"] == pytest.approx(sum(expected) / len(expected))
    assert row_of(analysis.errors, "torchao")["mape"] == pytest.approx(0.3)


def test_points_inside_their_interval_and_those_faster_than_it_are_counted(tmp_path: Path) -> None:
    made_up = MadeUpRun()
    for step, error in enumerate([0.0, 0.05, -0.05, 0.2]):
        point = product(64 * (step + 1), 4096, 4096)
        made_up.measure(point)
        guess = true_seconds(point) * (1 + error)
        made_up.predict(point, "calibrated", guess, low_s=0.9 * guess, high_s=1.1 * guess)
        made_up.predict(point, "torchao", guess)
        if step == 0:  # a model is judged on the points it predicts
            made_up.predict(point, "wave", 2 * guess)
    errors = prediction_errors.error_by_regime(made_up.table(tmp_path))

    calibrated, torchao = row_of(errors), row_of(errors, "torchao")
    assert calibrated["coverage"] == 0.75
    assert pd.isna(torchao["coverage"])
    assert (calibrated["violations"], torchao["violations"]) == (1, 2)
    wave = row_of(errors, "wave")
    assert (wave["count"], wave["mape"]) == (1, pytest.approx(1.0))
    assert prediction_errors.error_of(errors, "datasheet", op="gemm") is None


TORCH, DRIVER = (transferred_model(one.environment_id) for one in (OTHER_TORCH, OTHER_DRIVER))
LABELS = {TORCH: "calibrated of torch2.0.1", DRIVER: "calibrated of driver123.45"}


def test_people_read_what_differs(transferred: Analysis, analysis: Analysis) -> None:
    assert transferred.labels == LABELS
    row = row_of(transferred.errors, TORCH)
    assert (row["mape"], row["coverage"]) == pytest.approx((0.02, 1.0))
    (table,) = [t for t in regime_tables(transferred) if t.id == "error-gemm"]
    assert all(label in table.body for label in LABELS.values())
    assert "calibrated@" not in table.body
    assert analysis.labels == {}, "a device with one environment names no other"
    assert not any("--also" in line for line in commands(analysis))


def test_they_count_in_no_audit_and_stand_for_no_model(
    transferred: Analysis, analysis: Analysis
) -> None:
    frame = transferred.frames["gemm"]
    faster = frame.assign(**{f"{TORCH}_s": 1.0, f"{TORCH}_low_s": 1.0})
    pd.testing.assert_frame_equal(violations(faster), violations(analysis.frames["gemm"]))
    assert device_line(transferred) == device_line(analysis)
    same = [name for name in analysis.frames["gemm"].columns if "calibrated@" not in name]
    pd.testing.assert_frame_equal(frame[same], analysis.frames["gemm"])


def test_the_commands_give_the_calibrations(transferred: Analysis, tmp_path: Path) -> None:
    (line,) = [s for s in commands(transferred) if "roofcal predict" in s and "--op cast" in s]
    published = "reports/published/nvidia-h200"
    names = sorted(ERRORS)
    assert f" --also {published}/{names[0]}/calibration.jsonl {published}/{names[1]}/" in line

    neighbour, own = MadeUpRun(OTHER_TORCH), MadeUpRun()
    for run in (neighbour, own):
        run.measure(product(64, 64, 64))
    for model in (TORCH, DRIVER):
        own.predict(product(64, 64, 64), model, 1e-6)
    folders = [(run.write(tmp_path), None) for run in (neighbour, own)]
    write_report(folders, tmp_path / "out/report.html", DEVICES)

    text = (tmp_path / "out/details.html").read_text()
    there = f"results/nvidia-h200/{OTHER_TORCH.environment_id}/calibration.jsonl"
    assert f"--also {published}/{OTHER_DRIVER.environment_id}/calibration.jsonl {there}" in text
