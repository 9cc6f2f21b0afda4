"""Predictions with calibrations of other environments: names, errors, audit and commands."""

from pathlib import Path

import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.core.environments import transferred_model
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.data.audit import violations
from roofcal.report.data.prediction_errors import error_of, model_labels, with_model_labels
from roofcal.report.data.provenance import commands
from roofcal.report.summary import device_line, regime_tables
from roofcal.report.write import write_report
from tests.roofcal.report.conftest import DEVICES
from tests.roofcal.report.synthetic import GPU, MadeUpRun, product
from tests.roofcal.report.transferred import ERRORS, OTHER_DRIVER, OTHER_TORCH, transferred_run

TORCH = transferred_model(OTHER_TORCH.environment_id)
DRIVER = transferred_model(OTHER_DRIVER.environment_id)
LABELS = {TORCH: "calibrated of torch2.0.1", DRIVER: "calibrated of driver123.45"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return transferred_run().write(tmp_path_factory.mktemp("transferred"))


@pytest.fixture(scope="module")
def moved(place: Path, h200: DeviceSpec) -> Analysis:
    return analyse(load_run(place), h200)


def test_people_read_what_differs(moved: Analysis) -> None:
    assert (
        moved.labels
        == LABELS
        == model_labels(GPU.environment_id, pd.DataFrame({"model": [TORCH, "torchao", DRIVER]}))
    )
    models = set(with_model_labels(moved.errors, moved.labels)["model"])
    assert models == {"calibrated", "datasheet", "torchao", *LABELS.values()}


def test_other_calibrations_are_models_of_the_error_table(moved: Analysis) -> None:
    row = error_of(moved.errors, TORCH, op="gemm")
    assert row is not None
    assert (row["mape"], row["coverage"]) == pytest.approx((0.02, 1.0))


def test_the_tables_and_the_summary_name_them(moved: Analysis) -> None:
    (errors,) = [t for t in regime_tables(moved, "x") if t.id == "x-error-gemm"]
    assert "calibrated of driver123.45" in errors.body
    assert "calibrated@" not in errors.body
    assert "calibrated of torch2.0.1" in errors.body


def test_they_count_in_no_audit_and_stand_for_no_model(moved: Analysis, analysis: Analysis) -> None:
    frame = moved.frames["gemm"]
    faster = frame.assign(**{f"{TORCH}_s": 1.0, f"{TORCH}_low_s": 1.0})
    pd.testing.assert_frame_equal(violations(faster), violations(analysis.frames["gemm"]))
    assert device_line(moved) == device_line(analysis)
    same = [name for name in analysis.frames["gemm"].columns if "calibrated@" not in name]
    pd.testing.assert_frame_equal(frame[same], analysis.frames["gemm"])


def test_the_commands_give_the_calibrations(moved: Analysis, tmp_path: Path) -> None:
    (line,) = [s for s in commands(moved) if "roofcal predict" in s and "--op cast" in s]
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


def test_a_device_with_one_environment_names_no_other(analysis: Analysis) -> None:
    assert analysis.labels == {}
    assert not any("--also" in line for line in commands(analysis))
