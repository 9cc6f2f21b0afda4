"""Which calibration answers: one measured here, else a published one; else what there is."""

from pathlib import Path

import pytest

from roofcal.predict.errors import PredictError
from roofcal.predict.find import find_calibration
from roofcal.records import write_records
from tests.roofcal.predict.runs import calibration


def put(root: Path, device: str, environment: str) -> Path:
    folder = root / device / environment
    write_records(folder / "calibration.jsonl", [calibration(device, environment)])
    return folder


def find(tmp_path: Path, device: str, environment: str | None = None) -> Path:
    return find_calibration(device, environment, tmp_path / "published", tmp_path / "results")[0]


def test_a_published_one_is_found(tmp_path: Path) -> None:
    folder = put(tmp_path / "published", "made-up", "e1")
    assert find(tmp_path, "made-up") == folder


def test_one_measured_here_goes_first(tmp_path: Path) -> None:
    put(tmp_path / "published", "made-up", "e2")
    folder = put(tmp_path / "results", "made-up", "e1")
    assert find(tmp_path, "made-up") == folder


def test_an_environment_can_be_asked_for(tmp_path: Path) -> None:
    folder = put(tmp_path / "published", "made-up", "e1")
    put(tmp_path / "published", "made-up", "e2")
    assert find(tmp_path, "made-up", "e1") == folder


def test_a_misspelt_device_is_suggested(tmp_path: Path) -> None:
    put(tmp_path / "published", "nvidia-h200", "e1")
    with pytest.raises(PredictError, match="did you mean 'nvidia-h200'"):
        find(tmp_path, "nvidia-h20")


def test_an_unknown_environment_lists_those_there_are(tmp_path: Path) -> None:
    put(tmp_path / "published", "made-up", "e1")
    with pytest.raises(PredictError, match="no environment 'e9'; there are: e1"):
        find(tmp_path, "made-up", "e9")


def test_without_any_calibration_it_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(PredictError, match="run `make study` first"):
        find(tmp_path, "made-up")
