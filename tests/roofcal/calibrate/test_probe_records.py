"""Only probes are read, and only those that were measured."""

from pathlib import Path

import pytest

from roofcal.calibrate.probe_records import read_environment, read_probes
from roofcal.fitting.probes import CalibrationError
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT, write_run


def test_a_probe_has_the_median_of_its_settled_samples(tmp_path: Path) -> None:
    probes = read_probes(write_run(tmp_path), "probe_launch")
    assert [round(p.latency.median * 1e7) for p in probes] == [7, 12, 130]


def test_a_study_op_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match="gemm is no probe op"):
        read_probes(tmp_path, "gemm")


def test_an_op_without_files_has_no_probes(tmp_path: Path) -> None:
    assert read_probes(tmp_path, "probe_copy") == []


def test_the_environment_is_the_run_folders(tmp_path: Path) -> None:
    assert read_environment(write_run(tmp_path)) == ENVIRONMENT


def test_a_run_without_an_environment_says_how_to_take_it(tmp_path: Path) -> None:
    (tmp_path / "environment.jsonl").write_text("")
    with pytest.raises(CalibrationError, match=r"doctor --write-environment results"):
        read_environment(tmp_path)
