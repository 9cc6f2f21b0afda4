"""One line says where the whole study stands while one of its ops is measured."""

from pathlib import Path

import pytest

from roofcal.core.jsonl import write_records
from roofcal.core.records import PlanPoint
from roofcal.measure import progress
from roofcal.measure.progress import StudyProgress
from tests.roofcal.measure.runs import point


def points(op: str, count: int, world_size: int = 1) -> list[PlanPoint]:
    return [point("bf16", op=op, repeat=i, world_size=world_size) for i in range(count)]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for folder in ("plan", "measurements"):
        (tmp_path / folder).mkdir()
    for op, count in (("gemm", 10), ("cast", 4), ("linear", 6)):
        write_records(tmp_path / f"plan/{op}.jsonl", points(op, count))
    (tmp_path / "measurements/cast.jsonl").touch()
    return tmp_path


@pytest.fixture(autouse=True)
def known_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A visit takes 10 s on devices that are there; sessions start at once."""
    monkeypatch.setattr(
        progress,
        "plan_seconds",
        lambda plan, _, here, visits: sum(10.0 * visits for p in plan if p.world_size <= here),
    )
    monkeypatch.setattr(progress, "SESSION_S", {"cuda": 0.0})


def study_of(run: Path, op: str, count: int, visits: int, here: int = 1) -> StudyProgress:
    return StudyProgress(run, points(op, count), visits, "cuda", here)


def test_finished_ops_and_those_to_come_are_counted(run: Path) -> None:
    # 8 visits of cast are finished, 12 of linear to come; 5 of 20 took as long as is known.
    text = study_of(run, "gemm", 10, 2).text(done=5, total=20, seconds=50.0, timed_s=35.0)
    assert text == "study 13/40, about 4 min left, device busy 70%"  # 27 visits, as rounded
    again = study_of(run, "cast", 4, 1)  # an op that is measured again is counted once
    assert again.text(0, 4, 0.0, 0.0) == "study: starting"
    assert again.text(4, 4, 4.0, 1.0).startswith("study 4/20, ")
    # A slow op slows what is left by its share of what is known: one op at 20 times its known pace
    # promised 306 minutes of a study of 30.
    study = study_of(run, "gemm", 10, 2)
    assert "about 9 min left" in study.text(done=1, total=20, seconds=100.0, timed_s=1.0)
    # Plans that are written meanwhile are counted.
    write_records(run / "plan/probe_copy.jsonl", points("probe_copy", 5))
    assert study.text(2, 20, 100.0, 1.0).startswith("study 10/50, ")


def test_points_that_need_more_devices_cost_no_time(run: Path) -> None:
    write_records(run / "plan/probe_link.jsonl", points("probe_link", 600, world_size=2))
    one, two = (
        study_of(run, "gemm", 10, 2, here).text(done=5, total=20, seconds=50.0, timed_s=35.0)
        for here in (1, 2)
    )
    assert one == "study 13/1240, about 4 min left, device busy 70%"
    assert "about 204 min left" in two
