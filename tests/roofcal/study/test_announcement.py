"""A study says how many points it measures and for about how long."""

from dataclasses import replace
from pathlib import Path

import pytest

from roofcal.core.jsonl import write_records
from roofcal.core.records import VISITED_ONCE, Environment
from roofcal.ops import visit_times
from roofcal.study import announcement as announcements
from roofcal.study.announcement import announcement, study_notes
from roofcal.study.config import load_study
from roofcal.study.plan import plan_op
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


def test_points_ops_and_minutes_are_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visit_times, "CPU_VISIT_S", 1.0)
    monkeypatch.setattr(announcements, "SESSION_S", {"cpu": 0.0})
    once = replace(run, timing={**run.timing, "visits": 1, "more_visits": 0})
    (sentence,) = announcement([once])
    assert sentence.startswith("cpu-test: ")
    points = int(sentence.split()[1])
    assert f"{points} points of 9 ops to measure, about {round(points / 60)} min" in sentence
    twice = replace(run, timing={**run.timing, "visits": 60, "more_visits": 0.5})
    plans = (plan_op(op_slice, CPU) for op_slice in run.slices.values())
    once_only = sum(p.protocol.method in VISITED_ONCE for plan in plans for p in plan)
    minutes = 1.5 * (points - once_only + once_only / 60)
    assert f"about {round(minutes)} min" in next(announcement([twice]))


def test_points_that_need_more_devices_are_counted_apart_and_take_no_time(run: Run) -> None:
    shared = {
        "op": "probe_link",
        "seed": 0,
        "contenders": {"all_gather": ["gloo"]},
        "sweeps": {"sizes": {"grid": {"size_bytes": [4096]}, "world_sizes": [2, 4, 16]}},
        "models": {},
        "sentinel": [],
    }
    one = replace(run, slices={"probe_link": shared}, most_devices=4)
    (sentence,) = announcement([one])
    more = "1 that need more devices than are here"
    assert sentence == f"cpu-test: 2 points of 1 ops to measure, about 1 min, {more}"
    assert list(announcement([replace(one, most_devices=1)])) == []


def test_probes_that_are_measured_beside_the_ops_named_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("roofcal.study.discover.discover", lambda _folder: [CPU])
    study = load_study(ROOT / "config", {"ops": ["gemm", "probe_copy"]})
    runs = current_runs(study)
    assert [set(run.ops) for run in runs] == [{"gemm", "probe_math", "probe_copy", "probe_launch"}]
    said = study_notes(study, runs, is_dry_run=True)
    assert said[0].endswith("because it calibrates them: probe_launch, probe_math")
    whole = load_study(ROOT / "config")
    assert "calibrates" not in study_notes(whole, current_runs(whole), is_dry_run=True)[0]


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
