"""The calibrated model: one shape and many agree, intervals, casts, missing constants."""

import numpy as np
import pytest

from roofcal.models import calibrated
from tests.roofcal.calibrate.probe_runs import TRUTH, cast_seconds, seconds
from tests.roofcal.models.runs import SOURCES, cast, product


def test_many_points_and_one_point_agree() -> None:
    points = [product(m, 4096, k) for m in (1, 64, 5000) for k in (64, 4100, 9000)]
    together = calibrated.predict(points, SOURCES)
    alone = [calibrated.predict([point], SOURCES)[0] for point in points]
    assert together == alone


def test_it_is_the_equation_with_the_calibrations_constants() -> None:
    (prediction,) = calibrated.predict([product(300, 4096, 8192)], SOURCES)
    sizes = (np.array([x]) for x in (300.0, 4096.0, 8192.0))
    assert prediction.total_s == float(seconds("bf16", "any_tile_split_k", TRUTH, *sizes)[0])


def test_the_interval_is_the_error_on_probes_left_out() -> None:
    (prediction,) = calibrated.predict([product(300, 4096, 8192)], SOURCES)
    assert prediction.low_s == pytest.approx(prediction.total_s * np.exp(-0.1))
    assert prediction.high_s == pytest.approx(prediction.total_s * np.exp(0.1))


def test_chunks_do_not_show() -> None:
    count = 2 * 4096 + 3
    m = np.arange(1.0, count + 1, dtype=np.float64)
    n = np.full(count, 512.0, dtype=np.float64)
    whole = calibrated.product_times(SOURCES, "bf16", m, n, n).total
    part = calibrated.product_times(SOURCES, "bf16", m[4090:4100], n[:10], n[:10]).total
    assert len(whole) == count
    assert (whole[4090:4100] == part).all()


def test_no_points_are_no_predictions() -> None:
    nothing = np.array([])
    answer = calibrated.product_times(SOURCES, "bf16", nothing, nothing, nothing)
    assert len(answer.total) == 0
    assert calibrated.predict([], SOURCES) == []


def test_a_cast_is_its_providers_equation() -> None:
    (prediction,) = calibrated.predict([cast(4096, 4096, "fp8_rowwise_dim0")], SOURCES)
    sizes = np.array([4096.0]), np.array([4096.0])
    truth = float(cast_seconds("fp8_rowwise_dim0", "plain", *sizes)[0])
    assert prediction.total_s == pytest.approx(truth)
    assert prediction.bound_by == "dram"
    assert prediction.low_s == pytest.approx(truth * np.exp(-0.2))
    assert prediction.high_s == pytest.approx(truth * np.exp(0.2))


def test_many_casts_and_one_agree() -> None:
    rows, cols = np.array([16.0, 4096.0]), np.array([8192.0, 1000.0])
    times = calibrated.cast_times(SOURCES, "torch_eager", "fp8_rowwise_dim0", rows, cols)
    points = [
        cast(int(r), int(c), "fp8_rowwise_dim0", "torch_eager")
        for r, c in zip(rows, cols, strict=True)
    ]
    assert times.total.tolist() == [p.total_s for p in calibrated.predict(points, SOURCES)]


def test_a_cast_without_a_provider_is_that_of_the_fastest() -> None:
    (any_,) = calibrated.predict([cast(64, 64, "fp8_rowwise_dim0", "")], SOURCES)
    (fastest,) = calibrated.predict([cast(64, 64, "fp8_rowwise_dim0")], SOURCES)
    assert any_.total_s == fastest.total_s


def test_a_cast_that_was_not_calibrated_has_no_prediction() -> None:
    assert calibrated.predict([cast(64, 64, "fp8_tensorwise")], SOURCES) == []
    assert calibrated.predict([cast(64, 64, "fp8_rowwise_dim0", "triton")], SOURCES) == []
    one = np.ones(1)
    with pytest.raises(KeyError, match="triton"):
        calibrated.cast_times(SOURCES, "triton", "fp8_rowwise_dim0", one, one)


def test_recipes_that_were_not_calibrated_are_left_out() -> None:
    assert calibrated.predict([product(64, 64, 64, "fp8_axiswise")], SOURCES) == []
    assert list(calibrated.product_recipes(SOURCES)) == ["bf16", "fp8_tensorwise"]
