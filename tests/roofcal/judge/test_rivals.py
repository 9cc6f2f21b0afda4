"""Rivals find the constants that probes were made up with, and answer only what they model."""

from collections.abc import Sequence

import numpy as np
import pytest

from roofcal.core.records import PlanPoint
from roofcal.core.times import Array
from roofcal.judge.rivals import fitted_torchao, fitted_waves, rivals_of, waves
from roofcal.models import torchao
from roofcal.models.registry import predict_points
from roofcal.ops import BY_NAME
from roofcal.ops.predictions import sizes_of
from roofcal.ops.time_models import Sources
from tests.roofcal.judge.records import h100, published_run
from tests.roofcal.made_up_records import point_of

UNITS = 132.0
CONSTANTS = np.array([3e-6, 5e12, 1.5e11, 8e12, 9e-10, 5e-6, 2.8e12, 7e14, 3.0, 7.0])


def products(recipe: str, seed: int, count: int = 120) -> list[PlanPoint]:
    """Products of different sizes, a third of them with rows off 16 bytes."""
    generator = np.random.default_rng(seed)
    shapes = []
    for i in range(count):
        m, n, k = (int(2 ** generator.uniform(*ends)) for ends in ((0, 14), (7, 14), (7, 14)))
        grain = (16, 16, 16, 16, 4, 1)[i % 6]
        shapes.append({"m": m, "n": -(-n // grain) * grain, "k": -(-k // grain) * grain})
    return [point_of("gemm", recipe, shape, provider="cublaslt") for shape in shapes]


def seconds_of(points: Sequence[PlanPoint]) -> Array:
    return waves(CONSTANTS, "bf16", sizes_of(points, BY_NAME["gemm"].axes), UNITS)


def test_products_that_no_fit_saw_are_predicted() -> None:
    points, others = products("bf16", 1), products("bf16", 2)
    predictor = fitted_waves((points, seconds_of(points)), UNITS)
    assert predictor is not None
    errors = predictor(others) / seconds_of(others) - 1
    assert np.abs(errors).mean() < 0.03


@pytest.mark.parametrize(
    ("op", "provider", "recipe"),
    [
        ("gemm", "cublaslt", "fp8_tensorwise"),
        ("mixed_gemm", "triton", "int4_groupwise_g128"),
        ("cast", "triton", "fp8_rowwise_both"),
    ],
)
def test_fractions_of_torchao_are_found(op: str, provider: str, recipe: str) -> None:
    axes = BY_NAME[op].axes
    shapes = [{axis: 128 << (i * (j + 2) % 7) for j, axis in enumerate(axes)} for i in range(40)]
    points = [point_of(op, recipe, shape, provider=provider) for shape in shapes]
    usual = torchao.from_datasheet(h100())
    made = usual._replace(math_fraction=0.41, dram_fraction=0.63)
    answer = torchao.times_of_points(made, points)
    assert answer is not None
    predictor = fitted_torchao((points, answer.times.total), usual)
    assert predictor is not None
    np.testing.assert_allclose(predictor(points), answer.times.total, rtol=1e-4)


def test_rivals_answer_the_pairs_that_they_model_and_have_probes_of() -> None:
    run = published_run()
    sources = Sources(calibration=run.calibration, spec=h100())
    product = point_of("gemm", "bf16", {"m": 64, "n": 5120, "k": 2560}, provider="cublaslt")
    cast = point_of("cast", "fp8_rowwise_dim0", {"rows": 64, "cols": 5120}, provider="triton")
    unknown = point_of("gemm", "fp32", {"m": 64, "n": 5120, "k": 2560}, provider="cublaslt")
    fractions, ten = rivals_of(run, h100())
    assert [rival.MODEL for rival in rivals_of(run, None)] == ["ten_constants"]
    for rival, answered in ((fractions, [product, cast]), (ten, [product])):
        told = predict_points(rival, [product, cast, unknown], sources)
        assert [p.point_id for p in told] == [point.point_id for point in answered]
        assert {p.model for p in told} == {rival.MODEL}
        assert "bf16" in rival.product_recipes(sources)
    times = ten.product_times(sources, "bf16", *sizes_of([product], "mnk"))
    (own,) = ten.predict([product], sources)
    assert times.total[0] == own.total_s
    with pytest.raises(KeyError):
        ten.product_times(sources, "fp32", *[np.array([64.0])] * 3)
