"""One line says where the whole study stands while one of its ops is measured."""

from pathlib import Path

import pytest

from roofcal.measure.progress import StudyProgress


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for folder in ("plan", "measurements"):
        (tmp_path / folder).mkdir()
    for op, points in (("gemm", 10), ("cast", 4), ("linear", 6)):
        (tmp_path / "plan" / f"{op}.jsonl").write_text("{}\n" * points)
    (tmp_path / "measurements/cast.jsonl").touch()
    return tmp_path


def test_finished_ops_and_those_to_come_are_counted(run: Path) -> None:
    study = StudyProgress(run, "gemm", visits=2)
    # 8 visits of cast are finished, 12 of linear to come; 5 of 20 took 50 s.
    text = study.text(done=5, total=20, seconds=50.0, timed_s=35.0)
    assert text == "study 13/40, about 4 min left, device busy 70%"


def test_an_op_that_is_measured_again_is_counted_once(run: Path) -> None:
    study = StudyProgress(run, "cast", visits=1)
    assert study.text(4, 4, 4.0, 1.0).startswith("study 4/20, ")


def test_nothing_is_promised_before_the_first_visit(run: Path) -> None:
    study = StudyProgress(run, "gemm", visits=1)
    assert study.text(0, 10, 0.0, 0.0) == "study: starting"
