"""Linears by models of time: the sums of their parts, and which points have no answer."""

from dataclasses import replace

import numpy as np
import pytest

from roofcal.ask.points import predict_point
from roofcal.core.records import PlanPoint
from roofcal.models import calibrated, datasheet, torchao
from roofcal.models.errors import PredictError
from roofcal.models.registry import MODELS, predict_points
from roofcal.ops.linear.model import (
    TRANSPOSED_SHARE,
    Linear,
    cast_providers,
    has_casts,
    linear_times,
)
from roofcal.ops.time_models import Sources, cast_times
from tests.roofcal.models.runs import SOURCES, calibration, cast, product
from tests.roofcal.models.stand_in import StandIn, TimesItsCasts, sizes
from tests.roofcal.ops.linear.test_model import BLOCKS, DIM0, SQUARES, STRIPS
from tests.roofcal.ops.linear.test_spec import OWN

NOTHING = Sources()
CALIBRATION = calibration()
# Tells which size is which: m is worth 1 s, n 1000 s, k 1,000,000 s.
PLACES = StandIn(
    products={
        recipe: lambda s: s[0] + 1e3 * s[1] + 1e6 * s[2]
        for recipe in ("bf16", "fp8_tensorwise", "fp8_axiswise")
    },
    casts=("torch_compile",),
)


def total(linear: Linear, model: StandIn = PLACES) -> float:
    return float(linear_times(model, NOTHING, linear, *sizes(2, 3, 5)).total[0])


def test_forward_is_one_product() -> None:
    assert total(Linear(recipe="bf16", casts="none")) == 5_003_002


def test_backward_adds_the_gradients_of_input_and_weight() -> None:
    both = Linear(recipe="bf16", passes="forward_backward", casts="none")
    # output 2x3x5; grad_input m=M, n=K, k=N; grad_weight m=N, n=K, k=M
    assert total(both) == 5_003_002 + 3_005_002 + 2_005_003


def test_each_tensor_is_cast_in_its_own_shape() -> None:
    model = StandIn(products=PLACES.products, casts=("torch_compile",))
    linear = Linear(
        recipe="fp8_tensorwise", passes="forward_backward", casts="torch_compile", weights="cast"
    )
    products = total(Linear(recipe="bf16", passes="forward_backward", casts="none"))
    assert total(linear, model) == products + 3  # each cast takes a second
    t = "fp8_tensorwise"
    assert model.timed_casts == [(t, 2, 5), (t, 3, 5), (t, 2, 3)]  # x, w, grad_out


def test_lows_and_highs_of_the_parts_are_added() -> None:
    model = StandIn(products=PLACES.products, factor=2.0, casts=("torch_compile",))
    linear = Linear(recipe="fp8_tensorwise", casts="torch_compile")
    times = linear_times(model, NOTHING, linear, *sizes(2, 3, 5))
    assert times.low is not None
    assert times.high is not None
    assert times.total[0] == 5_003_003
    assert (times.low[0], times.high[0]) == (5_003_003 / 2, 2 * 5_003_003)


def test_one_part_without_interval_leaves_none() -> None:
    times = linear_times(
        PLACES, NOTHING, Linear(recipe="fp8_tensorwise", casts="torch_compile"), *sizes(2, 3, 5)
    )
    assert (times.low, times.high) == (None, None)


def test_the_largest_part_bounds() -> None:
    model = TimesItsCasts(products={"fp8_axiswise": lambda s: s[0] * s[1]})
    linear = Linear(recipe="fp8_axiswise", casts="torch_compile")
    vectors = (np.array([2.0, 2.0]), np.array([3.0, 3.0]), np.array([5.0, 1e4]))
    times = linear_times(model, NOTHING, linear, *vectors)
    assert times.bound_by == ["output", "casts"]
    assert times.total.tolist() == [6 + 2 * 5 * 1e-3, 6 + 2 * 1e4 * 1e-3]


def test_many_points_and_one_point_agree() -> None:
    linear = Linear(
        recipe="fp8_tensorwise", passes="forward_backward", casts="torch_compile", weights="cast"
    )
    vectors = [np.array([16.0, 700.0, 8192.0]), np.array([4096.0] * 3), np.array([512.0] * 3)]
    together = linear_times(torchao, SOURCES, linear, *vectors).total
    alone = [
        linear_times(torchao, SOURCES, linear, *sizes(*p)).total[0]
        for p in zip(*vectors, strict=True)
    ]
    assert together.tolist() == alone


def test_products_alone_by_the_calibrated_model_have_its_interval() -> None:
    linear = Linear(recipe="fp8_tensorwise", casts="none")
    times = linear_times(calibrated, SOURCES, linear, *sizes(300, 4096, 8192))
    same = calibrated.product_times(SOURCES, "fp8_tensorwise", *sizes(300, 4096, 8192))
    assert times.low is not None
    assert same.low is not None
    assert (times.total[0], times.low[0]) == (same.total[0], same.low[0])


def test_casts_of_a_model_without_vectors_are_its_predictions() -> None:
    times = cast_times(torchao, SOURCES, "torch_compile", "fp8_rowwise_both", *sizes(512, 4096))
    (point,) = torchao.predict([cast(512, 4096, "fp8_rowwise_both")], SOURCES)
    assert times.total.tolist() == [point.total_s]


def test_a_model_says_whose_casts_it_knows() -> None:
    axiswise = Linear(recipe="fp8_axiswise", casts="none")
    both = Linear(recipe="fp8_axiswise", passes="forward_backward", casts="torch_compile")
    dim0_alone = TimesItsCasts(products={})
    assert cast_providers(PLACES, NOTHING, axiswise) == ["torch_compile"]
    assert cast_providers(dim0_alone, NOTHING, axiswise) == ["torch_compile"]
    assert cast_providers(dim0_alone, NOTHING, both) == []
    assert cast_providers(StandIn(products={}), NOTHING, axiswise) == []


def test_unknown_products_and_casts_are_key_errors() -> None:
    with pytest.raises(KeyError):
        linear_times(PLACES, NOTHING, Linear(recipe="int8", casts="none"), *sizes(2, 3, 5))
    with pytest.raises(KeyError):
        cast_times(PLACES, NOTHING, "torch_eager", "fp8_tensorwise", *sizes(2, 3))
    assert not has_casts("int8")


def linear(provider: str, recipe: str, op: str = "linear") -> PlanPoint:
    shape = {"m": 512, "n": 1024, "k": 2048}
    return PlanPoint(op=op, provider=provider, recipe=recipe, shape=shape, device="made-up")


@pytest.mark.parametrize(
    ("provider", "recipe"),
    [
        *(("triton", "mxfp8"), ("torchao", BLOCKS), ("torchao", OWN)),
        *(("torch_cpu", "fp8_axiswise"), ("torch_cpu", "bf16"), ("bf16_compile", "fp8_axiswise")),
    ],
)
def test_what_nobody_measured_is_answered_by_no_model(provider: str, recipe: str) -> None:
    others = [model for model in MODELS.values() if model is not datasheet]
    answers = [predict_points(model, [linear(provider, recipe)], SOURCES) for model in others]
    assert answers == [[]] * 3


def test_a_linear_is_the_sum_of_its_parts_with_their_intervals() -> None:
    products = dict.fromkeys(("bf16", "fp8_axiswise"), lambda s: s[0] + 0 * s[1])
    model = StandIn(products=products, casts=("triton",), factor=2.0)
    points = [linear("bf16_compile", "bf16"), linear("triton_products", "fp8_axiswise")]
    bf16, fp8 = predict_points(model, points, SOURCES)
    assert bf16.total_s == 512 + 512 + 1024  # rows of A: M, M, N
    assert bf16.bound_by == "grad_weight"
    assert fp8.total_s == bf16.total_s + 3  # casts of one second each
    assert (fp8.low_s, fp8.high_s) == (fp8.total_s / 2, fp8.total_s * 2)


def test_every_model_that_knows_the_products_answers() -> None:
    point = linear("bf16_compile", "bf16")
    by_model = {name: predict_points(model, [point], SOURCES) for name, model in MODELS.items()}
    assert [len(prediction) for prediction in by_model.values()] == [1] * len(MODELS)
    sides = ((512, 1024, 2048), (512, 2048, 1024), (1024, 2048, 512))
    for name, (prediction,) in by_model.items():
        assert prediction.model == name
        alone = sum(predict_point(product(*s), name, SOURCES).seconds for s in sides)
        assert prediction.total_s <= alone * 1.0001  # the datasheet reads every matrix once
    (calibrated,) = by_model["calibrated"]
    assert calibrated.low_s is not None
    assert calibrated.high_s is not None
    assert calibrated.low_s < calibrated.total_s < calibrated.high_s


def test_a_linear_in_blocks_is_answered_by_models_that_know_its_casts() -> None:
    point = linear("triton", BLOCKS)
    by_model = {name: predict_points(model, [point], SOURCES) for name, model in MODELS.items()}
    counts = {name: len(predictions) for name, predictions in by_model.items()}
    assert counts == {"datasheet": 1, "torchao": 1, "wave": 1, "calibrated": 0}
    sides = ((512, 1024, 2048), (512, 2048, 1024), (1024, 2048, 512))
    for name in ("torchao", "wave"):
        parts = [product(*s, BLOCKS) for s in sides]
        parts += [cast(512, 2048, strips) for strips in STRIPS]
        parts += [cast(1024, 2048, SQUARES)]
        parts += [cast(512, 1024, strips) for strips in STRIPS]
        alone = sum(predict_point(part, name, SOURCES).seconds for part in parts)
        # the transposed values of w, by half of a cast along its rows
        alone += predict_point(cast(1024, 2048, DIM0), name, SOURCES).seconds / 2
        assert by_model[name][0].total_s == pytest.approx(alone)


def with_blocks(by: str) -> Sources:
    """A calibration with products in blocks by a provider, equal to bf16's, and with casts."""
    constants, errors = dict(CALIBRATION.constants), dict(CALIBRATION.probe_errors)
    pairs = [("gemm.cublaslt.bf16", f"gemm.{by}.{BLOCKS}")]
    casts = (*STRIPS, SQUARES, DIM0)
    pairs += [(f"cast.torch_compile.{DIM0}", f"cast.triton.{name}") for name in casts]
    for source, name in pairs:
        constants |= {
            name + key.removeprefix(source): value
            for key, value in CALIBRATION.constants.items()
            if key.startswith(f"{source}.")
        }
        errors[name] = errors[source]
    return Sources(calibration=replace(CALIBRATION, constants=constants, probe_errors=errors))


def test_a_calibration_with_the_casts_answers_in_blocks() -> None:
    sources = with_blocks("triton")
    (prediction,) = predict_points(MODELS["calibrated"], [linear("triton", BLOCKS)], sources)
    (bf16,) = predict_points(MODELS["calibrated"], [linear("bf16_compile", "bf16")], sources)
    assert prediction.low_s is not None
    assert prediction.high_s is not None
    assert prediction.low_s < prediction.total_s < prediction.high_s
    assert prediction.total_s > bf16.total_s  # the same products, and casts


def test_transposed_values_cost_bytes_and_no_start() -> None:
    """Of the start of a cast along the rows nothing is in a linear of squares of w."""
    (whole,) = predict_points(calibrated, [linear("triton", BLOCKS)], with_blocks("triton"))
    rows, cols = sizes(1024, 2048)
    sources = with_blocks("triton")
    alone = cast_times(calibrated, sources, "triton", DIM0, rows, cols)
    moving = calibrated.moving_times(sources, "triton", DIM0, rows, cols)
    assert 0 < moving.total[0] < alone.total[0]
    assert moving.low is not None
    assert alone.low is not None
    assert moving.low / moving.total == pytest.approx(alone.low / alone.total)
    times = [
        calibrated.product_times(sources, BLOCKS, *sizes(*s)).total[0]
        for s in ((512, 1024, 2048), (512, 2048, 1024), (1024, 2048, 512))
    ]
    shapes = {"x": (512, 2048), "w": (1024, 2048), "grad_out": (512, 1024)}
    casts = [(t, s) for t in ("x", "grad_out") for s in STRIPS] + [("w", SQUARES)]
    times += [
        cast_times(calibrated, sources, "triton", recipe, *sizes(*shapes[tensor])).total[0]
        for tensor, recipe in casts
    ]
    assert whole.total_s == pytest.approx(sum(times) + TRANSPOSED_SHARE * moving.total[0])


def test_products_in_blocks_are_ours_and_no_librarys() -> None:
    sources = with_blocks("cublaslt")
    assert predict_points(MODELS["calibrated"], [linear("triton", BLOCKS)], sources) == []


def test_a_person_who_names_no_provider_hears_of_whoever_is_known() -> None:
    points = [linear("", "bf16"), linear("", "fp8_axiswise")]
    products = dict.fromkeys(("bf16", "fp8_axiswise"), lambda s: s[0] + 0 * s[1])
    ours, torchaos = (
        predict_points(StandIn(products=products, casts=(provider,)), points, SOURCES)
        for provider in ("triton", "torch_compile")
    )
    assert [prediction.total_s for prediction in ours] == [2048, 2048 + 3]
    assert [prediction.total_s for prediction in torchaos] == [2048, 2048 + 4]


def test_a_line_that_makes_no_sense_is_refused_with_the_reason() -> None:
    line = "axiswise*axiswise+axiswise*blockwise+axiswise*axiswise"
    with pytest.raises(PredictError, match="grad_input, operand w: wanted tensorwise or axiswise"):
        predict_point(linear("triton", line), "calibrated", SOURCES)
    with pytest.raises(
        PredictError, match="unknown recipe 'fp8_axis' of op linear; did you mean 'fp8_axiswise'"
    ):
        predict_point(linear("triton", "fp8_axis"), "calibrated", SOURCES)
    with pytest.raises(PredictError, match="products and casts a linear in mxfp8 by triton has"):
        predict_point(linear("triton", "mxfp8"), "calibrated", SOURCES)
    with pytest.raises(PredictError, match="it knows no products in fp8_axiswise there"):
        predict_point(linear("triton", "fp8_axiswise"), "calibrated", SOURCES)
    with pytest.raises(PredictError, match="knows no casts fp8_tensorwise by torch_compile there"):
        predict_point(linear("torchao", "fp8_tensorwise"), "calibrated", SOURCES)


def test_a_norm_and_a_sigmoid_are_answered_by_models_that_know_their_passes() -> None:
    point = linear("triton", "bf16", "norm_linear_sigmoid")
    with pytest.raises(PredictError, match=r"passes of norm and sigmoid, which --model calibrated"):
        predict_point(point, "wave", SOURCES)
    with pytest.raises(
        PredictError, match=r"has no cast\.triton\.fp8_rowwise_dim0\.fixed_s, which"
    ):
        predict_point(point, "calibrated", SOURCES)


def test_other_ops_are_answered_as_before_and_in_order() -> None:
    points = [product(16, 32, 64), linear("bf16_compile", "bf16"), cast(64, 64, DIM0)]
    predictions = predict_points(MODELS["calibrated"], points, SOURCES)
    assert [prediction.point_id for prediction in predictions] == [
        point.point_id for point in points
    ]
    assert predictions[0] == MODELS["calibrated"].predict(points[:1], SOURCES)[0]


def test_the_block_is_bounded_by_its_datasheet_and_predicted_by_no_other() -> None:
    point = linear("bf16_compile", "bf16", "norm_linear_sigmoid")
    counts = {name: len(predict_points(model, [point], SOURCES)) for name, model in MODELS.items()}
    assert counts == {"datasheet": 1, "torchao": 0, "wave": 0, "calibrated": 0}


def test_without_files_nobody_answers() -> None:
    points = [
        linear("triton", "fp8_axiswise"),
        replace(linear("", "bf16"), shape={"m": 1, "n": 1, "k": 1}),
    ]
    assert all(predict_points(model, points, Sources()) == [] for model in MODELS.values())
