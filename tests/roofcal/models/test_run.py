"""A run's plan gets a prediction of every model that can."""

from dataclasses import replace
from pathlib import Path

import pytest

from roofcal.core.environments import transferred_model
from roofcal.core.jsonl import encode, write_records
from roofcal.core.records import Protocol
from roofcal.models.errors import PredictError
from roofcal.models.registry import predict_run
from tests.roofcal.models.runs import DESCRIBED, SPEC, calibration, cast, exactly, product


def folder(tmp_path: Path, suffix: str = ".jsonl") -> tuple[Path, Path]:
    run = tmp_path / "made-up" / "e1"
    points = [product(64, 64, 64), product(64, 64, 64, "fp8_axiswise")]
    write_records(run / "plan" / f"gemm{suffix}", points)
    write_records(run / "calibration.jsonl", [calibration()])
    return run, run / "calibration.jsonl"


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_each_model_predicts_what_it_can(tmp_path: Path, suffix: str) -> None:
    predictions = predict_run(*folder(tmp_path, suffix), "gemm", SPEC)
    models = [prediction.model for prediction in predictions]
    assert sorted(models) == ["calibrated", "datasheet", "datasheet", "torchao", "torchao"]


def test_a_described_device_is_predicted_by_waves_too(tmp_path: Path) -> None:
    predictions = predict_run(*folder(tmp_path), "gemm", DESCRIBED)
    models = [p.model for p in predictions]
    assert models == [*["datasheet"] * 2, *["torchao"] * 2, *["wave"] * 2, "calibrated"]


def test_a_shape_that_its_provider_refuses_has_no_prediction_of_any_model(tmp_path: Path) -> None:
    run, calibrated = folder(tmp_path)
    taken = product(4096, 4096, 4096, "fp8_tensorwise")
    refused = [
        product(4096, 4095, 4096, "fp8_tensorwise"),
        product(4096, 4096, 4100, "fp8_axiswise"),
    ]
    write_records(run / "plan" / "gemm.jsonl", [*refused, taken])

    predictions = predict_run(run, calibrated, "gemm", DESCRIBED)

    assert {p.model for p in predictions} == {"datasheet", "torchao", "wave", "calibrated"}
    assert {p.point_id for p in predictions} == {taken.point_id}


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


def other(run: Path, environment: str, device: str = "made-up") -> Path:
    """A calibration of another environment, whose launches take ten times as long."""
    fitted = calibration(device, environment)
    name = "gemm.cublaslt.bf16.launch_s"
    slow = exactly(10 * fitted.constants[name].value, "s")
    path = run.parent.parent / device / environment / "calibration.jsonl"
    write_records(path, [replace(fitted, constants={**fitted.constants, name: slow})])
    return path


def test_the_calibration_of_another_environment_is_a_model_of_its_own(tmp_path: Path) -> None:
    run, own = folder(tmp_path)
    alone = predict_run(run, own, "gemm", SPEC)

    predictions = predict_run(run, own, "gemm", SPEC, also=[other(run, "e2"), other(run, "e3")])

    assert [encode(p) for p in predictions[: len(alone)]] == [encode(p) for p in alone]
    assert [p.model for p in predictions[len(alone) :]] == [
        transferred_model("e2"),
        transferred_model("e3"),
    ]
    (home,) = [p for p in alone if p.model == "calibrated"]
    assert {p.point_id for p in predictions[len(alone) :]} == {home.point_id}
    assert predictions[-1].total_s > 2 * home.total_s
    assert predictions[-1].low_s is not None


def test_casts_are_predicted_with_other_calibrations_too(tmp_path: Path) -> None:
    run, own = folder(tmp_path)
    write_records(run / "plan/cast.jsonl", [cast(4096, 4096, "fp8_rowwise_dim0")])
    predictions = predict_run(run, own, "cast", None, also=[other(run, "e2")])
    assert [p.model for p in predictions] == ["calibrated", transferred_model("e2")]


def test_another_device_predicts_nothing_here(tmp_path: Path) -> None:
    run, own = folder(tmp_path)
    stranger = other(run, "e2", "someone-elses")
    with pytest.raises(PredictError, match="fitted on someone-elses, not on made-up"):
        predict_run(run, own, "gemm", SPEC, also=[stranger])


@pytest.mark.parametrize("environments", [["e1"], ["e2", "e2"]])
def test_an_environment_predicts_a_run_once(tmp_path: Path, environments: list[str]) -> None:
    run, own = folder(tmp_path)
    again = [other(run, "e2") if name == "e2" else own for name in environments]
    with pytest.raises(
        PredictError, match=rf"--also .*{environments[0]} predicts this run already"
    ):
        predict_run(run, own, "gemm", SPEC, also=again)


def test_points_that_are_not_timed_get_no_prediction(tmp_path: Path) -> None:
    run, calibrated = folder(tmp_path)
    alone = predict_run(run, calibrated, "gemm", SPEC)
    untimed = replace(product(128, 128, 128), protocol=Protocol(method="accuracy"))
    points = [untimed, product(64, 64, 64), product(64, 64, 64, "fp8_axiswise")]
    write_records(run / "plan" / "gemm.jsonl", points)
    assert predict_run(run, calibrated, "gemm", SPEC) == alone
