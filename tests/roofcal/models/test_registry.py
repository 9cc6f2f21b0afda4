"""The models of time: all answer many points as they answer one."""

import numpy as np
import pytest

from roofcal.core.records import PlanPoint
from roofcal.models.errors import PredictError
from roofcal.models.registry import MODELS, model_named, predict_points
from roofcal.ops.time_models import Sources
from tests.roofcal.models.links import LINKED, gathered
from tests.roofcal.models.runs import SOURCES, product

SIZES = [(1, 4096, 8192), (300, 512, 640), (4096, 4096, 4096), (33, 1000, 77)]


@pytest.mark.parametrize("name", MODELS)
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


@pytest.mark.parametrize("name", MODELS)
def test_a_recipe_it_does_not_know_is_a_key_error(name: str) -> None:
    one = np.ones(1)
    for sources, recipe in ((SOURCES, "int8"), (Sources(), "bf16")):
        assert recipe not in MODELS[name].product_recipes(sources)
        with pytest.raises(KeyError):
            MODELS[name].product_times(sources, recipe, one, one, one)


@pytest.mark.parametrize("name", MODELS)
def test_without_its_sources_a_model_predicts_nothing(name: str) -> None:
    assert MODELS[name].predict([product(64, 64, 64)], Sources()) == []


def test_an_unknown_model_lists_those_there_are() -> None:
    with pytest.raises(PredictError, match="unknown model 'torch'; there are datasheet, torchao"):
        model_named("torch")


def test_a_name_from_the_error_table_says_how_to_ask_for_it() -> None:
    with pytest.raises(PredictError, match=r"--environment driver580-torch2\.10$"):
        model_named("calibrated@driver580-torch2.10")


def test_answers_of_all_ops_stand_in_the_order_of_the_points() -> None:
    shape = {"m": 512, "n": 1024, "k": 2048}
    linear = PlanPoint(op="linear", provider="x", recipe="bf16", shape=shape, device="made-up")
    points = [gathered("nccl_then_gemm"), linear, product(64, 64, 64), gathered("torch_fused", 4)]
    answers = predict_points(MODELS["calibrated"], points, LINKED)
    assert [answer.point_id for answer in answers] == [point.point_id for point in points[:3]]
    assert predict_points(MODELS["calibrated"], [], LINKED) == []
