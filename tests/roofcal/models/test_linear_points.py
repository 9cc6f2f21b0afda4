"""Points of op linear by hand: which products, which casts by whom, and what has no answer."""

from dataclasses import replace

import pytest

from roofcal.ask.points import predict_point
from roofcal.core.records import PlanPoint
from roofcal.models import datasheet
from roofcal.models.errors import PredictError
from roofcal.models.linear_points import parts_of, predict
from roofcal.models.registry import MODELS
from roofcal.models.sources import Sources
from roofcal.ops import BY_NAME
from tests.roofcal.models.runs import SOURCES, calibration, cast, product
from tests.roofcal.models.stand_in import StandIn
from tests.roofcal.ops.linear.test_spec import OWN

DIM0, DIM1, BOTH = "fp8_rowwise_dim0", "fp8_rowwise_dim1", "fp8_rowwise_both"
STRIPS = ("fp8_blockwise_1x128", "fp8_blockwise_1x128_dim1")
BLOCKS = SQUARES = "fp8_blockwise_128x128"
CALIBRATION = calibration()


def linear(provider: str, recipe: str, op: str = "linear") -> PlanPoint:
    shape = {"m": 512, "n": 1024, "k": 2048}
    return PlanPoint(op=op, provider=provider, recipe=recipe, shape=shape, device="made-up")


@pytest.mark.parametrize(
    ("recipe", "casts"),
    [
        ("fp8_axiswise", [("x", BOTH), ("w", BOTH), ("grad_out", BOTH)]),
        (
            "fp8_tensorwise",
            [(tensor, r) for tensor in ("x", "w", "grad_out") for r in ("fp8_tensorwise", DIM0)],
        ),
        (
            "fp8_axiswise_bf16_grad_weight",
            [("x", DIM0), ("w", DIM0), ("w", DIM0), ("grad_out", DIM0)],
        ),
        (OWN, [("x", BOTH), ("w", DIM0), ("w", DIM0), ("grad_out", BOTH)]),
        (
            "high_precision*high_precision+tensorwise*tensorwise+axiswise*axiswise",
            [("x", DIM1), ("w", "fp8_tensorwise"), ("grad_out", "fp8_tensorwise"),
             ("grad_out", DIM1)],
        ),
        (
            BLOCKS,
            [*(("x", strips) for strips in STRIPS),
             ("w", SQUARES), ("w", STRIPS[1]),
             *(("grad_out", strips) for strips in STRIPS)],
        ),
        (
            "blockwise*blockwise+tensorwise*tensorwise+axiswise*tensorwise",
            [("x", STRIPS[0]), ("x", "fp8_tensorwise"), ("w", SQUARES), ("w", "fp8_tensorwise"),
             ("grad_out", "fp8_tensorwise"), ("grad_out", DIM1)],
        ),
        (
            "axiswise*axiswise+blockwise*blockwise+high_precision*high_precision",
            [("x", DIM0), ("w", DIM0), ("w", SQUARES), ("w", STRIPS[1]), ("grad_out", STRIPS[0])],
        ),
    ],
)  # fmt: skip
def test_our_kernels_cast_what_the_recipe_asks_for(
    recipe: str, casts: list[tuple[str, str]]
) -> None:
    assert parts_of("triton", recipe)[1] == ("triton", casts)
    assert {name for _, name in casts} <= set(BY_NAME["cast"].recipes)


def test_products_are_those_of_their_operands() -> None:
    products, _ = parts_of("triton_products", OWN)
    assert products == {
        "output": "fp8_axiswise",
        "grad_input": "fp8_axiswise",
        "grad_weight": "fp8_axiswise_slow_accum",
    }
    assert set(parts_of("bf16_compile", "bf16")[0].values()) == {"bf16"}
    assert parts_of("bf16_compile", "bf16")[1] == ("none", [])


def test_torchao_casts_as_its_table_says() -> None:
    products, (provider, casts) = parts_of("torchao", "fp8_axiswise")
    assert provider == "torch_compile"
    assert [name for _, name in casts] == [BOTH, DIM0, DIM1, BOTH]
    assert set(products.values()) == {"fp8_axiswise"}


@pytest.mark.parametrize(
    ("provider", "recipe"),
    [
        *(("triton", "mxfp8"), ("torchao", BLOCKS), ("torchao", OWN)),
        *(("torch_cpu", "fp8_axiswise"), ("bf16_compile", "fp8_axiswise")),
    ],
)
def test_what_nobody_measured_has_no_parts(provider: str, recipe: str) -> None:
    with pytest.raises(KeyError):
        parts_of(provider, recipe)
    others = [model for model in MODELS.values() if model is not datasheet]
    assert [predict(model, [linear(provider, recipe)], SOURCES) for model in others] == [[]] * 3


def test_a_linear_is_the_sum_of_its_parts_with_their_intervals() -> None:
    products = dict.fromkeys(("bf16", "fp8_axiswise"), lambda s: s[0] + 0 * s[1])
    model = StandIn(products=products, casts=("triton",), factor=2.0)
    points = [linear("bf16_compile", "bf16"), linear("triton_products", "fp8_axiswise")]
    bf16, fp8 = predict(model, points, SOURCES)
    assert bf16.total_s == 512 + 512 + 1024  # rows of A: M, M, N
    assert bf16.bound_by == "grad_weight"
    assert fp8.total_s == bf16.total_s + 3  # casts of one second each
    assert (fp8.low_s, fp8.high_s) == (fp8.total_s / 2, fp8.total_s * 2)


def test_every_model_that_knows_the_products_answers() -> None:
    point = linear("bf16_compile", "bf16")
    found = {name: predict(model, [point], SOURCES) for name, model in MODELS.items()}
    assert [len(made) for made in found.values()] == [1] * len(MODELS)
    sides = ((512, 1024, 2048), (512, 2048, 1024), (1024, 2048, 512))
    for name, (made,) in found.items():
        assert made.model == name
        alone = sum(predict_point(product(*s), name, SOURCES).total_s for s in sides)
        assert made.total_s <= alone * 1.0001  # the datasheet reads every matrix once
    (calibrated,) = found["calibrated"]
    assert calibrated.low_s is not None
    assert calibrated.high_s is not None
    assert calibrated.low_s < calibrated.total_s < calibrated.high_s


def test_a_linear_in_blocks_is_answered_by_models_that_know_its_casts() -> None:
    point = linear("triton", BLOCKS)
    found = {name: predict(model, [point], SOURCES) for name, model in MODELS.items()}
    counts = {name: len(made) for name, made in found.items()}
    assert counts == {"datasheet": 1, "torchao": 1, "wave": 1, "calibrated": 0}
    sides = ((512, 1024, 2048), (512, 2048, 1024), (1024, 2048, 512))
    for name in ("torchao", "wave"):
        parts = [product(*s, BLOCKS) for s in sides]
        parts += [cast(512, 2048, strips) for strips in STRIPS]
        parts += [cast(1024, 2048, recipe) for recipe in (SQUARES, STRIPS[1])]
        parts += [cast(512, 1024, strips) for strips in STRIPS]
        alone = sum(predict_point(part, name, SOURCES).total_s for part in parts)
        assert found[name][0].total_s == pytest.approx(alone)


def with_blocks(by: str) -> Sources:
    """A calibration with products in blocks by a provider, equal to bf16's, and with casts."""
    constants, errors = dict(CALIBRATION.constants), dict(CALIBRATION.probe_errors)
    pairs = [("gemm.cublaslt.bf16", f"gemm.{by}.{BLOCKS}")]
    pairs += [(f"cast.torch_compile.{DIM0}", f"cast.triton.{name}") for name in (*STRIPS, SQUARES)]
    for known, name in pairs:
        constants |= {
            name + key.removeprefix(known): value
            for key, value in CALIBRATION.constants.items()
            if key.startswith(f"{known}.")
        }
        errors[name] = errors[known]
    return Sources(calibration=replace(CALIBRATION, constants=constants, probe_errors=errors))


def test_a_calibration_with_the_casts_answers_in_blocks() -> None:
    sources = with_blocks("triton")
    (made,) = predict(MODELS["calibrated"], [linear("triton", BLOCKS)], sources)
    (bf16,) = predict(MODELS["calibrated"], [linear("bf16_compile", "bf16")], sources)
    assert made.low_s is not None
    assert made.high_s is not None
    assert made.low_s < made.total_s < made.high_s
    assert made.total_s > bf16.total_s  # the same products, and casts


def test_products_in_blocks_are_ours_and_no_librarys() -> None:
    assert predict(MODELS["calibrated"], [linear("triton", BLOCKS)], with_blocks("cublaslt")) == []


def test_a_person_who_names_no_provider_hears_of_whoever_is_known() -> None:
    points = [linear("", "bf16"), linear("", "fp8_axiswise")]
    products = dict.fromkeys(("bf16", "fp8_axiswise"), lambda s: s[0] + 0 * s[1])
    ours, torchaos = (
        predict(StandIn(products=products, casts=(by,)), points, SOURCES)
        for by in ("triton", "torch_compile")
    )
    assert [made.total_s for made in ours] == [2048, 2048 + 3]
    assert [made.total_s for made in torchaos] == [2048, 2048 + 4]


def test_a_line_that_makes_no_sense_is_refused_with_the_reason() -> None:
    line = "axiswise*axiswise+axiswise*blockwise+axiswise*axiswise"
    with pytest.raises(PredictError, match="grad_input, operand w: wanted tensorwise or axiswise"):
        predict_point(linear("triton", line), "calibrated", SOURCES)
    with pytest.raises(
        PredictError, match="unknown recipe 'fp8_axis'; did you mean 'fp8_axiswise'"
    ):
        predict_point(linear("triton", "fp8_axis"), "calibrated", SOURCES)
    with pytest.raises(PredictError, match="it lacks a product or a cast of it there"):
        predict_point(linear("triton", "mxfp8"), "calibrated", SOURCES)


def test_other_ops_are_answered_as_before_and_in_order() -> None:
    points = [product(16, 32, 64), linear("bf16_compile", "bf16"), cast(64, 64, DIM0)]
    found = predict(MODELS["calibrated"], points, SOURCES)
    assert [made.point_id for made in found] == [point.point_id for point in points]
    assert found[0] == MODELS["calibrated"].predict(points[:1], SOURCES)[0]


def test_the_block_is_bounded_by_its_datasheet_and_predicted_by_no_other() -> None:
    point = linear("bf16_compile", "bf16", "norm_linear_sigmoid")
    counts = {name: len(predict(model, [point], SOURCES)) for name, model in MODELS.items()}
    assert counts == {"datasheet": 1, "torchao": 0, "wave": 0, "calibrated": 0}


def test_without_files_nobody_answers() -> None:
    points = [
        linear("triton", "fp8_axiswise"),
        replace(linear("", "bf16"), shape={"m": 1, "n": 1, "k": 1}),
    ]
    assert all(predict(model, points, Sources()) == [] for model in MODELS.values())
