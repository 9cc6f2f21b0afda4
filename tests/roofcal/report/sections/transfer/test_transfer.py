"""Own calibration against those of other environments: table, names, section and command."""

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
from roofcal.report.kit.blocks import Table
from roofcal.report.sections.transfer import COLUMNS, KEYS, SECTION, transfers
from roofcal.report.summary import device_line, regime_tables
from roofcal.report.write import write_report
from tests.roofcal.report.chapters import blocks_of, csv_tables
from tests.roofcal.report.conftest import DEVICES
from tests.roofcal.report.synthetic import GPU, MadeUpRun, product, true_seconds
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


def transfers_of(analysis: Analysis) -> pd.DataFrame:
    (table,) = SECTION.fill(analysis).tables()
    return table.frame


def test_each_other_environment_is_compared_with_the_own_one(moved: Analysis) -> None:
    rows = transfers_of(moved).to_dict("records")
    table = {(row["op"], row["other_environment"]): row for row in rows}

    assert list(transfers_of(moved).columns) == list(KEYS)
    assert len(table) == len(rows) == 3
    own = error_of(moved.errors, "calibrated", op="gemm")
    assert own is not None
    for environment, error in ERRORS.items():
        row = table["gemm", environment]
        assert row["mape_other"] == pytest.approx(abs(error))
        assert row["median_error_other"] == pytest.approx(error)
        assert row["coverage_other"] == float(abs(error) < 0.09)
        assert row["mape_own"] == pytest.approx(own["mape"])
        assert row["coverage_own"] == pytest.approx(own["coverage"])
        assert row["count"] == own["count"] == 48


def test_only_points_that_both_predict_are_compared(tmp_path: Path) -> None:
    made_up = MadeUpRun()
    for n, guesses in ((64, {"calibrated": 1.1, TORCH: 1.2}), (96, {TORCH: 9.0}), (128, {})):
        point = product(64, n, 64)
        made_up.measure(point)
        for model, factor in guesses.items():
            made_up.predict(point, model, factor * true_seconds(point))
    frame = load_run(made_up.write(tmp_path)).points("gemm").table

    (row,) = transfers(frame).to_dict("records")

    assert row["count"] == 1
    assert (row["mape_own"], row["mape_other"]) == pytest.approx((0.1, 0.2))
    assert pd.isna(row["coverage_other"])


def test_calibrations_without_a_shared_point_have_no_row(tmp_path: Path) -> None:
    made_up = MadeUpRun()
    made_up.measure(product(64, 64, 64))
    made_up.predict(product(64, 64, 64), TORCH, 1e-6)
    assert transfers(load_run(made_up.write(tmp_path)).points("gemm").table).empty


def test_people_read_what_differs(moved: Analysis) -> None:
    assert (
        moved.labels
        == LABELS
        == model_labels(GPU.environment_id, pd.DataFrame({"model": [TORCH, "torchao", DRIVER]}))
    )
    names = SECTION.contents(moved)
    assert dict(zip(names["other_environment"], names["origin"], strict=True)) == {
        OTHER_TORCH.environment_id: "torch2.0.1",
        OTHER_DRIVER.environment_id: "driver123.45",
    }
    assert {column.key for column in COLUMNS} == {*KEYS, "origin"}
    models = set(with_model_labels(moved.errors, moved.labels)["model"])
    assert models == {"calibrated", "datasheet", "torchao", *LABELS.values()}


def test_other_calibrations_are_models_of_the_error_table(moved: Analysis) -> None:
    row = error_of(moved.errors, TORCH, op="gemm")
    assert row is not None
    assert (row["mape"], row["coverage"]) == pytest.approx((0.02, 1.0))


def test_the_section_the_tables_and_the_summary_name_them(moved: Analysis) -> None:
    blocks = blocks_of(moved, "transfer")

    _, table = blocks

    assert isinstance(table, Table)
    assert (table.total, table.source) == (3, "transfer.csv")
    assert "<td>torch2.0.1</td>" in table.body
    (errors,) = [t for t in regime_tables(moved, "x") if t.id == "x-error-gemm"]
    assert "calibrated of driver123.45" in errors.body
    assert "calibrated@" not in errors.body
    assert "calibrated of torch2.0.1" in errors.body
    assert "transfer.csv" in dict(csv_tables(moved))


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


def test_a_device_with_one_environment_has_no_such_section(analysis: Analysis) -> None:
    assert SECTION.contents(analysis).empty
    assert analysis.labels == {}
    assert blocks_of(analysis, "transfer") == []
    assert "transfer.csv" not in dict(csv_tables(analysis))
    assert not any("--also" in line for line in commands(analysis))
