"""A run's plan gets a prediction of every model that can."""

from pathlib import Path

import pytest

from roofcal.predict.errors import PredictError
from roofcal.predict.run import predict_run
from roofcal.records import write_records
from tests.roofcal.predict.runs import SPEC, WAVE, calibration, product


def folder(tmp_path: Path, suffix: str = ".jsonl") -> tuple[Path, Path]:
    run = tmp_path / "made-up" / "e1"
    points = [product(64, 64, 64), product(64, 64, 64, "fp8_axiswise")]
    write_records(run / "plan" / f"gemm{suffix}", points)
    write_records(run / "calibration.jsonl", [calibration()])
    return run, run / "calibration.jsonl"


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_each_model_predicts_what_it_can(tmp_path: Path, suffix: str) -> None:
    found = predict_run(*folder(tmp_path, suffix), "gemm", SPEC)
    models = [prediction.model for prediction in found]
    assert sorted(models) == ["calibrated", "datasheet", "datasheet", "torchao", "torchao"]


def test_a_described_device_is_predicted_by_waves_too(tmp_path: Path) -> None:
    found = predict_run(*folder(tmp_path), "gemm", None, WAVE)
    assert [p.model for p in found] == ["wave", "wave", "calibrated"]


def test_measurements_are_not_needed(tmp_path: Path) -> None:
    run, calibrated = folder(tmp_path)
    assert not (run / "measurements").exists()
    assert predict_run(run, calibrated, "gemm", None)


def test_a_calibration_of_another_device_is_refused(tmp_path: Path) -> None:
    run, _ = folder(tmp_path)
    other = tmp_path / "other.jsonl"
    write_records(other, [calibration("someone-elses")])
    with pytest.raises(PredictError, match="fitted on someone-elses, not on made-up"):
        predict_run(run, other, "gemm", SPEC)


def test_an_op_without_a_plan_is_named(tmp_path: Path) -> None:
    run, calibrated = folder(tmp_path)
    with pytest.raises(PredictError, match=r"plan/cast\.jsonl: no such plan"):
        predict_run(run, calibrated, "cast", SPEC)


def test_an_empty_calibration_is_named(tmp_path: Path) -> None:
    run, calibrated = folder(tmp_path)
    calibrated.write_text("")
    with pytest.raises(PredictError, match=r"calibration\.jsonl: holds no calibration"):
        predict_run(run, calibrated, "gemm", SPEC)
