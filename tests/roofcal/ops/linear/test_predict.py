"""Linears by models of time: the sums of their parts, and which points have no answer."""

from dataclasses import replace

import numpy as np
import pytest

from roofcal.ask.points import predict_point
from roofcal.core.records import PlanPoint
from roofcal.models import calibrated, datasheet
from roofcal.models.errors import PredictError
from roofcal.models.registry import MODELS, predict_points
from roofcal.ops.linear.model import (
    PARTS_SHARE,
    TRANSPOSED_SHARE,
    Linear,
    cast_providers,
    linear_times,
)
from roofcal.ops.norm_linear_sigmoid.model import CONSTANTS, pass_seconds
from roofcal.ops.time_models import Sources, cast_times
from tests.roofcal.made_up_records import exactly, point_of
from tests.roofcal.models.runs import SOURCES, calibration, product
from tests.roofcal.models.stand_in import StandIn, TimesItsCasts, sizes
from tests.roofcal.ops.linear.test_model import BLOCKS, DIM0, SQUARES, STRIPS
from tests.roofcal.ops.linear.test_spec import OWN
from tests.roofcal.ops.transformer_block.test_spec import TINY

NOTHING = Sources()
NORM = "norm_linear_sigmoid"
ALL = MODELS.items()
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


def test_forward_is_one_product_and_backward_adds_the_gradients_of_input_and_weight() -> None:
    assert total(Linear(recipe="bf16", casts="none")) == 5_003_002
    both = Linear(recipe="bf16", passes="forward_backward", casts="none")
    # output 2x3x5; grad_input m=M, n=K, k=N; grad_weight m=N, n=K, k=M, of 8 tokens as it is loaded
    assert total(both) == 5_003_002 + 3_005_002 + 8_005_003


def test_each_tensor_is_cast_in_its_own_shape() -> None:
    model = StandIn(products=PLACES.products, casts=("torch_compile",))
    linear = Linear(
        recipe="fp8_tensorwise", passes="forward_backward", casts="torch_compile", weights="cast"
    )
    products = total(replace(linear, casts="none"))
    assert total(linear, model) == products + 3  # each cast takes a second
    t = "fp8_tensorwise"
    assert model.timed_casts == [(t, 2, 5), (t, 3, 5), (t, 2, 3)]  # x, w, grad_out


def test_lows_and_highs_of_the_parts_are_added_and_one_part_without_leaves_none() -> None:
    model = StandIn(products=PLACES.products, factor=2.0, casts=("torch_compile",))
    linear = Linear(recipe="fp8_tensorwise", casts="torch_compile")
    times = linear_times(model, NOTHING, linear, *sizes(2, 3, 5))
    assert times.total[0] == 5_003_003
    assert times.low == pytest.approx([5_003_003 / 2])
    assert times.high == pytest.approx([2 * 5_003_003])
    times = linear_times(PLACES, NOTHING, linear, *sizes(2, 3, 5))
    assert (times.low, times.high) == (None, None)


def test_the_largest_part_bounds() -> None:
    model = TimesItsCasts(products={"fp8_axiswise": lambda s: s[0] * s[1]})
    linear = Linear(recipe="fp8_axiswise", casts="torch_compile")
    vectors = (np.array([2.0, 2.0]), np.array([3.0, 3.0]), np.array([5.0, 1e4]))
    times = linear_times(model, NOTHING, linear, *vectors)
    assert times.bound_by == ["output", "casts"]
    assert times.total.tolist() == [6 + 2 * 5 * 1e-3, 6 + 2 * 1e4 * 1e-3]


def test_a_model_says_whose_casts_it_knows() -> None:
    axiswise = Linear(recipe="fp8_axiswise", casts="none")
    both = Linear(recipe="fp8_axiswise", passes="forward_backward", casts="torch_compile")
    dim0_alone = TimesItsCasts(products={})
    assert cast_providers(PLACES, NOTHING, axiswise) == ["torch_compile"]
    assert cast_providers(dim0_alone, NOTHING, axiswise) == ["torch_compile"]
    assert cast_providers(dim0_alone, NOTHING, both) == []
    assert cast_providers(StandIn(products={}), NOTHING, axiswise) == []


def linear(provider: str, recipe: str, op: str = "linear") -> PlanPoint:
    return point_of(op, recipe, {"m": 512, "n": 1024, "k": 2048}, provider=provider)


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
    by_model = {name: predict_points(model, [point], SOURCES) for name, model in ALL}
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


def test_transposed_values_cost_bytes_and_no_start() -> None:
    """Of the start of a cast along the rows nothing is in a linear of squares of w."""
    (whole,) = predict_points(calibrated, [linear("triton", BLOCKS)], with_blocks("triton"))
    assert whole.low_s is not None
    assert whole.high_s is not None
    assert whole.low_s < whole.total_s < whole.high_s
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
    alone = sum(times) + TRANSPOSED_SHARE * moving.total[0]
    assert whole.total_s == pytest.approx(PARTS_SHARE * alone)


def test_parts_of_forward_and_backward_err_independently() -> None:
    """Three products that are 20 % off are 12 % off together, and their sum by itself 4.5 %."""
    point = linear("bf16_compile", "bf16")
    (whole,) = predict_points(calibrated, [point], SOURCES)
    sides = ((512, 1024, 2048), (512, 2048, 1024), (1024, 2048, 512))
    parts = [calibrated.product_times(SOURCES, "bf16", *sizes(*s)) for s in sides]
    assert whole.total_s == pytest.approx(PARTS_SHARE * sum(float(p.total[0]) for p in parts))
    assert whole.high_s is not None
    above = [PARTS_SHARE * float((p.high - p.total)[0]) for p in parts if p.high is not None]
    assert len(above) == 3
    squares = sum(half**2 for half in above) + (0.045 * whole.total_s) ** 2
    assert whole.high_s - whole.total_s == pytest.approx(squares**0.5)
    assert whole.high_s - whole.total_s < sum(above)


def test_parts_err_independently_where_they_take_as_long_as_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A share of 1 is a share like others, and no sign of a model that knows no parts alone."""
    point = linear("bf16_compile", "bf16")
    (shorter,) = predict_points(calibrated, [point], SOURCES)
    monkeypatch.setattr("roofcal.ops.linear.model.PARTS_SHARE", 1.0)
    (whole,) = predict_points(calibrated, [point], SOURCES)
    assert whole.total_s == pytest.approx(shorter.total_s / PARTS_SHARE)
    assert whole.high_s is not None
    assert shorter.high_s is not None
    assert whole.high_s / whole.total_s == pytest.approx(shorter.high_s / shorter.total_s)


def test_ragged_tokens_are_filled_up_by_copies_and_multiplied_as_filled() -> None:
    """x [513, 2048] and grad_out [513, 1024] are copied to 528 rows, grad_input back."""
    points = [
        point_of("linear", BLOCKS, {"m": m, "n": 1024, "k": 2048}, provider="triton")
        for m in (513, 528)
    ]
    sources = with_blocks("triton")
    ragged, filled = predict_points(calibrated, points, sources)
    copies = 0.0
    for cols in (2048, 1024, 2048):
        rows_and_cols = sizes(528, cols)
        moving = calibrated.moving_times(sources, "triton", DIM0, *rows_and_cols).total[0]
        copies += moving / 3
        copies += cast_times(calibrated, sources, "triton", DIM0, *rows_and_cols).total[0]
    assert ragged.total_s == pytest.approx(filled.total_s + PARTS_SHARE * copies)


def test_a_person_who_names_no_provider_hears_of_whoever_is_known() -> None:
    points = [linear("", "bf16"), linear("", "fp8_axiswise")]
    products = dict.fromkeys(("bf16", "fp8_axiswise"), lambda s: s[0] + 0 * s[1])
    ours, torchaos = (
        predict_points(StandIn(products=products, casts=(provider,)), points, SOURCES)
        for provider in ("triton", "torch_compile")
    )
    assert [prediction.total_s for prediction in ours] == [2048, 2048 + 3]
    assert [prediction.total_s for prediction in torchaos] == [2048, 2048 + 4]


# fmt: off
REFUSED: list[tuple[PlanPoint, str, str]] = [
    (linear("triton", "axiswise*axiswise+axiswise*blockwise+axiswise*axiswise"), "calibrated",
     "grad_input, operand w: wanted tensorwise or axiswise"),
    (linear("triton", "fp8_axis"), "calibrated",
     "unknown recipe 'fp8_axis' of op linear; did you mean 'fp8_axiswise'"),
    (linear("triton", "mxfp8"), "calibrated", "and casts a linear in mxfp8 by triton has"),
    (linear("triton", "fp8_axiswise"), "calibrated", "knows no products in fp8_axiswise there"),
    (linear("torchao", "fp8_tensorwise"), "calibrated",
     "knows no casts fp8_tensorwise by torch_compile there"),
    (linear("triton", "bf16", NORM), "wave", "passes of norm and sigmoid, which --by cali"),
    (linear("triton", "bf16", NORM), "calibrated",
     r"has no cast\.triton\.fp8_rowwise_dim0\.fixed_s, which"),
    (point_of("transformer_block", "bf16", TINY, provider=""), "calibrated",
     "no probe says how fast attention is; ask for its lin"),
]
# fmt: on


@pytest.mark.parametrize(("point", "model", "reason"), REFUSED)
def test_what_has_no_answer_is_refused_with_the_reason(
    point: PlanPoint, model: str, reason: str
) -> None:
    with pytest.raises(PredictError, match=reason):
        predict_point(point, model, SOURCES)


def test_blocks_are_bounded_by_the_datasheet_and_predicted_by_no_other() -> None:
    block = replace(linear("bf16_compile", "bf16", "transformer_block"), shape=TINY)
    for point in (linear("bf16_compile", "bf16", NORM), block):
        told = {name: len(predict_points(model, [point], SOURCES)) for name, model in ALL}
        assert told == {"datasheet": 1, "torchao": 0, "wave": 0, "calibrated": 0}


def test_without_files_nobody_answers() -> None:
    points = [
        linear("triton", "fp8_axiswise"),
        replace(linear("", "bf16"), shape={"m": 1, "n": 1, "k": 1}),
    ]
    assert all(predict_points(model, points, Sources()) == [] for model in MODELS.values())


# a linear between a norm and a sigmoid is its linear and four passes over memory
RATES = dict(zip(CONSTANTS, (3e-6, 5e7, 8e12, 4e12), strict=True))


def test_a_linear_between_norm_and_sigmoid_is_the_linear_and_its_passes() -> None:
    units = dict(zip(CONSTANTS, ("s", "B", "B/s", "B/s"), strict=True))
    own = {name: exactly(value, units[name]) for name, value in RATES.items()}
    fitted = replace(CALIBRATION, constants={**CALIBRATION.constants, **own})
    points = [linear("bf16_compile", "bf16", op) for op in ("linear", NORM)]
    alone, whole = predict_points(calibrated, points, replace(SOURCES, calibration=fitted))
    passes = float(pass_seconds(RATES, *sizes(512.0, 1024.0, 2048.0))[0])
    assert whole.total_s == pytest.approx(alone.total_s + passes)
    assert whole.low_s is not None
    assert alone.low_s is not None
    assert whole.low_s == pytest.approx(alone.low_s + passes)
