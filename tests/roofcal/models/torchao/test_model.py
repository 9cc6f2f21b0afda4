"""torchao's formulas by hand, constants of the seed document."""

from dataclasses import replace

import pytest

from roofcal.models.torchao import model as torchao
from roofcal.ops.time_models import Sources
from tests.roofcal.models.runs import SOURCES, SPEC, cast, product


def test_a_large_product_reaches_78_percent_of_the_peak() -> None:
    (prediction,) = torchao.predict([product(8192, 8192, 8192)], SOURCES)
    assert prediction.total_s == pytest.approx(2 * 8192**3 / 1e15 / 0.78, rel=1e-12)


def test_one_token_in_fp8_reaches_92_percent_of_the_bandwidth() -> None:
    (prediction,) = torchao.predict([product(1, 8192, 8192, "fp8_tensorwise")], SOURCES)
    moved = 8192 + 8192 * 8192 + 2 * 8192  # e4m3 in, bf16 out, scales not counted
    assert prediction.total_s == pytest.approx(moved / 4.8e12 / 0.92, rel=1e-12)


def test_nothing_is_faster_than_two_microseconds() -> None:
    (prediction,) = torchao.predict([product(16, 16, 16)], SOURCES)
    assert (prediction.total_s, prediction.bound_by) == (2e-6, "launch")


def test_amd_has_its_own_fractions() -> None:
    (prediction,) = torchao.predict(
        [product(8192, 8192, 8192)], Sources(spec=replace(SPEC, vendor="amd"))
    )
    assert prediction.total_s == pytest.approx(2 * 8192**3 / 1e15 / 0.47, rel=1e-12)


@pytest.mark.parametrize(
    ("recipe", "width", "idle"),
    [
        ("fp8_tensorwise", 5, 2e-6),  # amax 2 B, a reduction of nothing, cast 3 B
        ("fp8_rowwise_dim0", 3, 0.0),
        ("fp8_rowwise_dim1", 7, 0.0),  # transpose 4 B, cast 3 B
        ("fp8_rowwise_both", 8, 0.0),  # cast and transpose 5 B, cast 3 B
    ],
)
def test_a_cast_is_the_sum_of_its_kernels(recipe: str, width: int, idle: float) -> None:
    (prediction,) = torchao.predict([cast(16384, 16384, recipe)], SOURCES)
    assert prediction.total_s == pytest.approx(width * 16384**2 / 4.8e12 / 0.92 + idle, rel=1e-12)


def test_formats_torchao_does_not_model_have_no_prediction() -> None:
    assert torchao.predict([product(64, 64, 64, "fp32")], SOURCES) == []
