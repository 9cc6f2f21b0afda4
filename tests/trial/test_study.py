"""The real command line, from a bare checkout to a report, on this machine's CPU.

An op more is one folder, one line in the list and its sweep files; a recipe of casts more is one
line of vocabulary and what its op's folder says of it.
"""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from roofcal.core.jsonl import read_records
from roofcal.core.records import Calibration, Measurement, PlanPoint, Prediction, Session
from tests.trial.edits import HERE, OF_THE_OP, RECIPE
from tests.workflow.checkout import Checkout

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="measures a CPU; this has a GPU"),
]


def test_every_planned_point_has_a_row_and_the_report_its_figures(
    study: Checkout, run: Path
) -> None:
    for path in study.folder.glob("config/sweeps/*.yaml"):
        planned = {p.point_id for p in read_records(run / f"plan/{path.stem}.jsonl", PlanPoint)}
        rows = read_records(run / f"measurements/{path.stem}.jsonl", Measurement)

        assert {row.point_id for row in rows} == planned
        assert {row.status for row in rows} == {"ok"}, [row.reason for row in rows]
    assert "<html" in study.text("results/report/report.html")
    assert list(study.folder.glob("results/report/figures/*/*/roofline.gemm.svg"))


def test_a_finished_study_is_measured_again_only_for_a_reason(
    study: Checkout, tmp_path: Path
) -> None:
    """One test, because it measures: two at once would wait for each other's device."""
    shutil.copytree(study.folder, tmp_path / "checkout", symlinks=True)
    copy = Checkout(folder=tmp_path / "checkout")
    (run,) = copy.run_folders()

    assert copy.pending() == set()
    copy.run("--report", "report.zip")
    assert copy.pending() == set()
    check_that_a_docstring_measures_nothing_again(copy, run)
    check_that_timing_measures_everything_again(copy, run)


def check_that_a_docstring_measures_nothing_again(study: Checkout, run: Path) -> None:
    """Snakemake starts the job, which finds every point in its journal."""
    file, bench = run / "measurements/probe_copy.jsonl", "roofcal/ops/probe_copy/bench.py"
    before = file.read_bytes()
    study.write(bench, study.text(bench).replace('"""', '"""New words. ', 1))

    assert "measure probe_copy" in study.pending()
    study.run(str(file.relative_to(study.folder)))

    assert file.read_bytes() == before


def check_that_timing_measures_everything_again(study: Checkout, run: Path) -> None:
    file = run / "measurements/probe_launch.jsonl"
    before = {session.session_id for session in read_records(file, Session)}
    study.replace("config/config.yaml", "cpu: {budget_s: 0.02,", "cpu: {budget_s: 0.05,")

    study.run(str(file.relative_to(study.folder)))

    assert before.isdisjoint(row.session_id for row in read_records(file, Measurement))


# --- op transpose ---

NAME = "transpose.torch_eager.bf16"


def table(study: Checkout, name: str) -> pd.DataFrame:
    (path,) = study.folder.glob(f"results/report/tables/{name}.csv")
    return pd.read_csv(path)


def test_the_op_is_nine_files_at_most() -> None:
    folders = {"transpose": "*.py", "sweeps": "*.yaml"}
    files = [file for folder, kind in folders.items() for file in (HERE / folder).glob(kind)]
    assert len(files) + len(OF_THE_OP) <= 9


def test_its_points_and_those_of_its_probe_are_measured(run: Path) -> None:
    for op, count in (("transpose", 3), ("probe_transpose", 8)):
        rows = read_records(run / f"measurements/{op}.jsonl", Measurement)
        assert [row.status for row in rows] == ["ok"] * count, [row.reason for row in rows]


def test_its_constants_are_fitted_on_its_probe(run: Path) -> None:
    (calibration,) = read_records(run / "calibration.jsonl", Calibration)
    constants = {name for name in calibration.constants if name.startswith(f"{NAME}.")}
    assert constants == {
        f"{NAME}.{last}" for last in ("transpose_family", "fixed_s", "bytes_per_s")
    }
    assert calibration.probe_errors[NAME]["count"] == 8


def test_the_calibrated_model_predicts_it_with_intervals(run: Path) -> None:
    predictions = read_records(run / "predictions/transpose.jsonl", Prediction)
    assert [prediction.model for prediction in predictions] == ["calibrated"] * 3
    for prediction in predictions:
        assert prediction.low_s is not None
        assert prediction.low_s < prediction.total_s


def test_the_report_has_its_points_its_constants_and_its_figure(study: Checkout) -> None:
    assert "turns rows into columns" in study.text("results/report/report.html")
    points = table(study, "cpu-*[!e]_transpose")
    assert set(points["status"]) == {"ok"}
    assert points["predicted_s"].notna().all()
    constants = table(study, "constants").set_index("name")
    assert constants.loc[f"{NAME}.transpose_family", "choice"] in ("streamed", "padded_64")
    assert constants.loc[f"{NAME}.fixed_s", "label"] == "Start of a transpose"
    errors = table(study, "error_by_regime")
    assert "transpose" in set(errors["op"])
    figures = study.folder / "results/report/figures"
    assert list(figures.glob("*/*/measured_against_predicted.transpose.svg"))


# --- the recipe of casts ---


def test_the_report_shows_the_recipe(study: Checkout) -> None:
    assert RECIPE in study.text("results/report/details.html")


def test_the_recipe_is_measured_and_right(run: Path) -> None:
    rows = read_records(run / "measurements/cast.jsonl", Measurement)
    assert [row.status for row in rows] == ["ok", "ok"], [row.reason for row in rows]


def test_the_recipe_is_fitted_and_predicted(run: Path) -> None:
    (calibration,) = read_records(run / "calibration.jsonl", Calibration)
    assert f"cast.torch_eager.{RECIPE}.bytes_per_s" in calibration.constants
    predictions = read_records(run / "predictions/cast.jsonl", Prediction)
    # Tensorwise casts have no probes in the small study.
    assert [prediction.model for prediction in predictions] == ["calibrated"]
