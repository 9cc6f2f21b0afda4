"""The models of time: they answer many points as one, and a run's plan by every model that can."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roofcal.core.environments import transferred_model
from roofcal.core.jsonl import encode, write_records
from roofcal.core.records import PlanPoint, Protocol
from roofcal.models import datasheet
from roofcal.models.errors import PredictError
from roofcal.models.registry import MODELS, model_named, predict_points, predict_run
from roofcal.ops.time_models import Sources
from tests.roofcal.made_up_records import exactly, point_of
from tests.roofcal.models.links import LINKED, gathered
from tests.roofcal.models.runs import (
    DESCRIBED,
    SOURCES,
    SPEC,
    calibration,
    cast,
    product,
)

SIZES = [(1, 4096, 8192), (300, 512, 640), (4096, 4096, 4096), (33, 1000, 77)]
EVERY_MODEL = pytest.mark.parametrize("name", MODELS)


@EVERY_MODEL
@pytest.mark.parametrize("recipe", ["bf16", "fp8_tensorwise"])
def test_vectors_and_points_agree(name: str, recipe: str) -> None:
    model = MODELS[name]
    assert recipe in model.product_recipes(SOURCES)
    m, n, k = (np.array(axis, dtype=float) for axis in zip(*SIZES, strict=True))
    times = model.product_times(SOURCES, recipe, m, n, k)
    predictions = model.predict([product(*size, recipe) for size in SIZES], SOURCES)
    assert times.total == pytest.approx([p.total_s for p in predictions], rel=1e-12)
    assert times.bound_by == [p.bound_by for p in predictions]
    for vector, ends in (
        (times.low, [p.low_s for p in predictions]),
        (times.high, [p.high_s for p in predictions]),
    ):
        assert (vector is None) == (ends[0] is None)
        assert vector is None or vector == pytest.approx(ends, rel=1e-12)


@EVERY_MODEL
def test_a_recipe_it_does_not_know_is_a_key_error_and_without_sources_nothing_is_known(
    name: str,
) -> None:
    one = np.ones(1)
    for sources, recipe in ((SOURCES, "int8"), (Sources(), "bf16")):
        assert recipe not in MODELS[name].product_recipes(sources)
        assert MODELS[name].predict([product(64, 64, 64, recipe)], sources) == []
        with pytest.raises(KeyError):
            MODELS[name].product_times(sources, recipe, one, one, one)


@pytest.mark.parametrize(
    ("point", "seconds", "bound"),
    [
        (product(4096, 4096, 4096), 2 * 4096**3 / 1e15, "math"),
        (product(1, 4096, 4096), 2 * (4096 + 4096 * 4096 + 4096) / 4.8e12, "dram"),
        (cast(1024, 1024, "fp8_rowwise_dim0"), (3 * 1024**2 + 4 * 1024) / 4.8e12, "dram"),
    ],
)
def test_the_datasheets_roofline_by_hand(point: PlanPoint, seconds: float, bound: str) -> None:
    (prediction,) = datasheet.predict([point], SOURCES)
    assert prediction.total_s == pytest.approx(seconds)
    assert prediction.bound_by == bound


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("torch", "unknown model 'torch'; there are datasheet, torchao"),
        ("calibrated@driver580-torch2.10", r"--environment driver580-torch2\.10$"),
    ],
)
def test_a_name_of_no_model_says_what_to_ask_for(name: str, message: str) -> None:
    with pytest.raises(PredictError, match=message):
        model_named(name)


def test_answers_of_all_ops_stand_in_the_order_of_the_points() -> None:
    shape = {"m": 512, "n": 1024, "k": 2048}
    linear = point_of("linear", "bf16", shape)
    points = [gathered("nccl_then_gemm"), linear, product(64, 64, 64), gathered("torch_fused", 4)]
    answers = predict_points(MODELS["calibrated"], points, LINKED)
    assert [answer.point_id for answer in answers] == [point.point_id for point in points[:3]]
    assert predict_points(MODELS["calibrated"], [], LINKED) == []


def folder(tmp_path: Path, suffix: str = ".jsonl") -> tuple[Path, Path]:
    """A run folder without measurements, and its calibration."""
    run = tmp_path / "made-up" / "e1"
    points = [product(64, 64, 64), product(64, 64, 64, "fp8_axiswise")]
    write_records(run / "plan" / f"gemm{suffix}", points)
    write_records(run / "calibration.jsonl", [calibration()])
    return run, run / "calibration.jsonl"


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_each_model_predicts_what_it_can_of_a_plan(tmp_path: Path, suffix: str) -> None:
    run = folder(tmp_path, suffix)
    models = [prediction.model for prediction in predict_run(*run, "gemm", DESCRIBED)]
    assert models == [*["datasheet"] * 2, *["torchao"] * 2, *["wave"] * 2, "calibrated"]
    models = [prediction.model for prediction in predict_run(*run, "gemm", SPEC)]
    assert models == [*["datasheet"] * 2, *["torchao"] * 2, "calibrated"]
    assert predict_run(*run, "gemm", None)


def test_refused_shapes_and_points_that_are_not_timed_have_no_prediction(tmp_path: Path) -> None:
    run, calibrated = folder(tmp_path)
    taken = product(4096, 4096, 4096, "fp8_tensorwise")
    others = [
        product(4096, 4095, 4096, "fp8_tensorwise"),
        product(4096, 4096, 4100, "fp8_axiswise"),
        replace(product(128, 128, 128), protocol=Protocol(method="accuracy")),
    ]
    write_records(run / "plan" / "gemm.jsonl", [*others, taken])

    predictions = predict_run(run, calibrated, "gemm", DESCRIBED)

    assert {p.model for p in predictions} == {"datasheet", "torchao", "wave", "calibrated"}
    assert {p.point_id for p in predictions} == {taken.point_id}


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
    names = [transferred_model(name) for name in ("e2", "e3")]
    assert [p.model for p in predictions[len(alone) :]] == names
    (home,) = [p for p in alone if p.model == "calibrated"]
    assert {p.point_id for p in predictions[len(alone) :]} == {home.point_id}
    assert predictions[-1].total_s > 2 * home.total_s
    assert predictions[-1].low_s is not None


@pytest.mark.parametrize(
    ("op", "also", "message"),
    [
        ("cast", [], r"plan/cast\.jsonl: no such plan"),
        ("gemm", [("e2", "someone-elses")], "fitted on someone-elses, not on made-up"),
        ("gemm", [("e1", "made-up")], "--also .*e1 predicts this run already"),
        ("gemm", [("e2", "made-up")] * 2, "--also .*e2 predicts this run already"),
    ],
)
def test_what_predicts_no_run_is_refused(
    tmp_path: Path, op: str, also: list[tuple[str, str]], message: str
) -> None:
    run, own = folder(tmp_path)
    with pytest.raises(PredictError, match=message):
        predict_run(run, own, op, SPEC, also=[other(run, *one) for one in also])
