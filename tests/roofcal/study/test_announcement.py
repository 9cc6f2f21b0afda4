"""A study says how many points it measures and for about how long."""

from dataclasses import replace
from pathlib import Path

import pytest

from roofcal.core.jsonl import write_records
from roofcal.core.records import Environment
from roofcal.study.announcement import announcement
from roofcal.study.config import load_study
from roofcal.study.runs import Run, current_runs
from tests.paths import ROOT

CPU = Environment(
    device="cpu-test", vendor="cpu", device_name="Test", compute_units=2, torch="2", python="3.11"
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    study = load_study(ROOT / "config")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("roofcal.study.discover.discover", lambda _folder: [CPU])
    (run,) = current_runs(study)
    return run


def test_points_ops_and_minutes_are_said(run: Run) -> None:
    (sentence,) = announcement([run])
    assert sentence.startswith("cpu-test: ")
    points = int(sentence.split()[1])
    minutes = round((points * 0.6 + 36) / 60)
    assert f"{points} points of 9 ops to measure, about {minutes} min" in sentence
    twice = replace(run, timing={**run.timing, "visits": 3})
    assert next(announcement([twice])).endswith(f"{round((points * 1.8 + 36) / 60)} min")


def test_what_is_measured_is_not_announced_again(run: Run) -> None:
    for op in run.ops[1:]:
        write_records(run.measurements_file(op), [])
    (sentence,) = announcement([run])
    assert "cpu-test: 1 points of 1 ops to measure, about 1 min, " in sentence
    write_records(run.measurements_file(run.ops[0]), [])
    assert list(announcement([run, replace(run, backend=None)])) == []


def test_an_op_that_cannot_be_planned_is_named(run: Run) -> None:
    broken = replace(run, slices={"gemm": {**run.slices["gemm"], "sweeps": {}}})
    (sentence,) = announcement([broken])
    assert sentence.startswith("gemm cannot be planned: gemm: nothing to measure on cpu")
