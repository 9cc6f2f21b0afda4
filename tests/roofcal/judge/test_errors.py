"""The table of a judge against errors that are counted here from its records."""

import shutil
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import pytest

from roofcal.core.jsonl import read_plan, read_records, write_records
from roofcal.core.paths import RunFolder
from roofcal.core.records import Measurement, PlanPoint, Prediction, Session
from roofcal.judge import errors as judge
from roofcal.judge.errors import (
    ALL,
    COLUMNS,
    FASTEST_OF_OURS,
    error_lines,
    error_sentences,
    errors_of_seed,
    judged_errors,
)
from roofcal.judge.layers import OUR_INT4
from roofcal.models.registry import MODELS, predict_points
from roofcal.ops import point_problem
from roofcal.ops.time_models import Sources
from roofcal.points.run import Run
from tests.roofcal.judge.records import JUDGED, SEED, h100, published_run

OURS = [MODELS["calibrated"]]  # without rivals, which would be fitted first


@pytest.fixture(scope="module")
def errors() -> pd.DataFrame:
    return errors_of_seed(SEED, JUDGED, published_run(), h100())


def row_of(errors: pd.DataFrame, **keys: str) -> Any:
    """The only row with these keys, `all` of the others."""
    for name, value in ({"model": "calibrated"} | keys).items():
        errors = errors[errors[name] == value]
    for name in {"recipe", "provider", "regime"} - keys.keys():
        errors = errors[errors[name] == ALL]
    (row,) = errors.to_dict("records")
    return row


def planned(op: str) -> list[PlanPoint]:
    return read_plan(JUDGED, op, point_problem)


def measured_s(op: str) -> dict[str, float]:
    """Point -> the median of its samples that settled."""
    rows = read_records(JUDGED.measurements_file(op), Measurement)
    return {row.point_id: median(row.settled_samples_s) for row in rows}


def predictions(model: str, points: list[PlanPoint]) -> dict[str, Prediction]:
    sources = Sources(calibration=published_run().calibration, spec=h100())
    return {p.point_id: p for p in predict_points(MODELS[model], points, sources)}


@pytest.mark.parametrize("op", ["gemm", "mixed_gemm", "cast", "linear"])
@pytest.mark.parametrize("model", ["calibrated", "torchao", "datasheet"])
def test_an_op_has_the_errors_of_its_points(errors: pd.DataFrame, op: str, model: str) -> None:
    times, own = measured_s(op), predictions(model, planned(op))
    answered = [i for i in times if i in own and i in predictions("calibrated", planned(op))]
    ratios = np.array([own[i].total_s / times[i] for i in answered])
    row = row_of(errors, op=op, model=model)
    assert row["count"] == len(answered) > 0
    # Medians of turns differ from those of all samples by up to a percent.
    assert row["mape"] == pytest.approx(np.abs(ratios - 1).mean(), abs=0.01)
    assert row["bias"] == pytest.approx(np.exp(np.log(ratios).mean()) - 1, abs=0.01)
    assert row["p95_abs_error"] == pytest.approx(np.percentile(np.abs(ratios - 1), 95), abs=0.02)
    if model == "calibrated":
        widths = [(own[i].high_s or 0.0) / (own[i].low_s or 1.0) for i in answered]
        assert row["half_width"] == pytest.approx(float(np.median(np.sqrt(widths))) - 1)
        inside = [(own[i].low_s or 0) <= times[i] <= (own[i].high_s or 0) for i in answered]
        assert row["coverage"] == pytest.approx(np.mean(inside), abs=1 / len(inside))
    else:
        assert pd.isna(row["half_width"])


def test_parts_add_up_to_their_op(errors: pd.DataFrame) -> None:
    for op in ("gemm", "mixed_gemm", "cast", "linear"):
        whole = row_of(errors, op=op)
        parts = errors[(errors["op"] == op) & (errors["regime"] != ALL)]
        assert whole["drawn"] == parts["drawn"].sum() == len(planned(op))
        assert whole["count"] == parts["count"].sum()
        weighted = (parts["mape"] * parts["count"]).sum() / whole["count"]
        assert whole["mape"] == pytest.approx(weighted)


def test_of_our_kernels_the_fastest_is_judged_by_the_fastest(errors: pd.DataFrame) -> None:
    points = [p for p in planned("mixed_gemm") if p.provider in OUR_INT4]
    times, own = measured_s("mixed_gemm"), predictions("calibrated", points)
    by_shape: dict[str, list[str]] = defaultdict(list)
    for point in points:
        by_shape[str(dict(point.shape))].append(point.point_id)
    wrong = [
        min(own[i].total_s for i in ids) / min(times[i] for i in ids) - 1
        for ids in by_shape.values()
    ]
    recipe = "int4_groupwise_g128"
    row = row_of(errors, op="mixed_gemm", provider=FASTEST_OF_OURS, recipe=recipe)
    assert row["count"] == len(by_shape) < len(points)
    assert row["mape"] == pytest.approx(np.abs(wrong).mean(), abs=0.01)


def test_points_whose_shape_the_run_planned_are_left_out_and_counted(tmp_path: Path) -> None:
    """As a probe too: a shape of a probe was fitted on."""
    run = published_run()
    known = RunFolder.at(tmp_path / "run")
    shapes = list(dict.fromkeys(str(dict(point.shape)) for point in planned("gemm")))
    as_study, as_probe = (
        next(point for point in planned("gemm") if str(dict(point.shape)) == shape)
        for shape in shapes[:2]
    )
    write_records(known.plan_file("gemm"), [replace(as_study, recipe="bf16")])
    write_records(known.plan_file("probe_math"), [replace(as_probe, op="probe_math")])
    errors = errors_of_seed(SEED, JUDGED, replace(run, files=known), h100(), OURS)
    left_out = [p for p in planned("gemm") if str(dict(p.shape)) in shapes[:2]]
    row = row_of(errors, op="gemm")
    assert row["left_out"] == len(left_out) == row["drawn"] - row["count"]
    assert row_of(errors, op="cast")["left_out"] == 0
    sentence = error_sentences(errors)[0]
    assert f"{len(left_out)} of {len(planned('gemm'))} points are left out" in sentence


def test_a_point_that_failed_counts_as_drawn_alone(tmp_path: Path) -> None:
    folder = tmp_path / "seed1"
    shutil.copytree(JUDGED.folder, folder)
    file = JUDGED.measurements_file("gemm")
    sessions, rows = read_records(file, Session), read_records(file, Measurement)
    failed = Measurement(
        point_id=rows[0].point_id,
        environment_id=rows[0].environment_id,
        session_id=rows[0].session_id,
        status="out_of_memory",
        reason="too large",
    )
    write_records(folder / "measurements/gemm.jsonl.gz", [*sessions, failed, *rows[1:]])
    errors = errors_of_seed(SEED, RunFolder.at(folder), published_run(), h100(), OURS)
    row = row_of(errors, op="gemm")
    assert row["drawn"] - row["count"] == 1
    assert " Without a time or a prediction: 1 more." in error_sentences(errors)[0]


def test_ops_with_outdated_constants_are_left_out() -> None:
    outdated = replace(published_run(), outdated=("gemm",))
    assert set(errors_of_seed(SEED, JUDGED, outdated, h100(), OURS)["op"]) == {"cast"}
    bare = replace(published_run(), calibration=None)
    assert errors_of_seed(SEED, JUDGED, bare, h100()).empty


def run_with(tmp_path: Path, started: dict[str, str]) -> Run:
    """The published run with records of the judge: folder -> when it was measured."""
    for name, started_utc in started.items():
        folder = tmp_path / "judged" / name
        shutil.copytree(JUDGED.folder, folder)
        for op in JUDGED.measured_ops():
            file = JUDGED.measurements_file(op)
            sessions = [replace(s, started_utc=started_utc) for s in read_records(file, Session)]
            rows = read_records(file, Measurement)
            write_records(folder / "measurements" / file.name, [*sessions, *rows])
    return replace(published_run(), files=RunFolder.at(tmp_path))


def test_seeds_come_in_the_order_in_which_they_were_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "rivals_of", lambda *_: ())
    run = run_with(tmp_path, {"seed12": "2026-11-02", "seed3": "2026-11-09", "seed03": "2026"})
    errors = judged_errors(run, h100())
    assert list(errors.columns) == list(COLUMNS)
    assert list(dict.fromkeys(errors["seed"])) == [12, 3]
    assert list(dict.fromkeys(errors["measured_utc"])) == ["2026-11-02", "2026-11-09"]


def test_a_terminal_shows_every_row_and_a_sentence_of_each_op(errors: pd.DataFrame) -> None:
    lines = error_lines(errors)
    assert len(lines) == len(errors) + 1
    assert "half_width" in lines[0]
    whole = row_of(errors, op="gemm")
    assert f"{whole['mape']:.1%}" in lines[1]
    sentences = error_sentences(errors)
    assert len(sentences) == 4
    assert sentences[0].startswith(f"Predictions of {whole['count']} points of gemm are off by ")
    assert "The fastest of our kernels is off by" in sentences[1]
    assert f"torchao by {row_of(errors, op='gemm', model='torchao')['mape']:.1%}," in sentences[0]


def test_rivals_are_judged_on_the_points_of_the_calibrated_model(errors: pd.DataFrame) -> None:
    of_parts = ["datasheet", "torchao", "torchao_fitted"]
    rivals = {"gemm": [*of_parts, "ten_constants"], "mixed_gemm": of_parts, "cast": of_parts}
    for op, names in {**rivals, "linear": of_parts}.items():
        rows = errors[(errors["op"] == op) & (errors["recipe"] == ALL)]
        on_equal_points = rows[rows["count"] == rows["count"].iloc[0]]
        assert list(on_equal_points["model"]) == ["calibrated", *names]
        assert (rows["count"] <= rows["count"].iloc[0]).all()
    fitted = row_of(errors, op="gemm", model="torchao_fitted")
    assert fitted["mape"] < row_of(errors, op="gemm", model="torchao")["mape"]


def test_a_model_that_lacks_a_point_is_named_and_not_compared(errors: pd.DataFrame) -> None:
    is_torchao = (errors["op"] == "gemm") & (errors["model"] == "torchao")
    fewer = errors.assign(count=errors["count"] - is_torchao)
    (sentence, *_) = error_sentences(fewer)
    count = row_of(errors, op="gemm", model="torchao")["count"]
    assert f"Not compared: torchao, which answers {count - 1} of them." in sentence
    assert "torchao by" not in sentence
