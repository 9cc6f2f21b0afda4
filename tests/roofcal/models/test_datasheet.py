"""The datasheet's roofline by hand."""

import pytest

from roofcal.models import datasheet
from roofcal.ops.time_models import Sources
from tests.roofcal.models.runs import SOURCES, cast, product


def test_a_large_product_is_bound_by_math() -> None:
    (prediction,) = datasheet.predict([product(4096, 4096, 4096)], SOURCES)
    assert prediction.total_s == pytest.approx(2 * 4096**3 / 1e15)
    assert prediction.bound_by == "math"


def test_one_token_is_bound_by_memory() -> None:
    (prediction,) = datasheet.predict([product(1, 4096, 4096)], SOURCES)
    assert prediction.total_s == pytest.approx(2 * (4096 + 4096 * 4096 + 4096) / 4.8e12)
    assert prediction.bound_by == "dram"


def test_a_cast_moves_its_bytes() -> None:
    (prediction,) = datasheet.predict([cast(1024, 1024, "fp8_rowwise_dim0")], SOURCES)
    assert prediction.total_s == pytest.approx((3 * 1024**2 + 4 * 1024) / 4.8e12)


def test_a_rate_the_datasheet_lacks_has_no_prediction() -> None:
    assert datasheet.predict([product(64, 64, 64, "int8")], SOURCES) == []


def test_no_datasheet_no_predictions() -> None:
    assert datasheet.predict([product(64, 64, 64)], Sources()) == []
