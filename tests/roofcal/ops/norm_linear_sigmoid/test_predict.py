"""A linear between a norm and a sigmoid is its linear and four passes over memory."""

from dataclasses import replace

import numpy as np
import pytest

from roofcal.core.records import PlanPoint
from roofcal.models.registry import MODELS, predict_points
from roofcal.ops.norm_linear_sigmoid.model import CONSTANTS, FILL, PASSES, START, pass_seconds
from roofcal.ops.time_models import Sources
from tests.roofcal.models.runs import SOURCES, exactly

SIZE = np.array([8192.0])
RATES = dict(zip(CONSTANTS, (3e-6, 5e7, 8e12, 4e12), strict=True))


def block(op: str) -> PlanPoint:
    shape = {"m": 8192, "n": 4096, "k": 8192}
    return PlanPoint(op=op, provider="bf16_compile", recipe="bf16", shape=shape, device="made-up")


def sources() -> Sources:
    assert SOURCES.calibration is not None
    units = ("s", "B", "B/s", "B/s")
    own = {
        name: exactly(value, unit) for (name, value), unit in zip(RATES.items(), units, strict=True)
    }
    constants = {**SOURCES.calibration.constants, **own}
    return replace(SOURCES, calibration=replace(SOURCES.calibration, constants=constants))


def test_the_passes_by_hand() -> None:
    cached = 0.75 * 5e7
    expected = sum(
        3e-6 + cached / 8e12 + (moved - cached) / 4e12
        for moved in (8192.0**2 * count for count in (4, 4, 6, 6))
    )
    assert pass_seconds(RATES, SIZE, SIZE, SIZE) == pytest.approx(expected)


def test_passes_within_the_cache_run_at_its_speed() -> None:
    small = np.array([512.0])
    moved = 512 * 512 * 20
    assert pass_seconds(RATES, small, small, small) == pytest.approx(4 * 3e-6 + moved / 8e12)


def test_the_block_is_the_linear_and_its_passes() -> None:
    model = MODELS["calibrated"]
    (linear,) = predict_points(model, [block("linear")], sources())
    (whole,) = predict_points(model, [block("norm_linear_sigmoid")], sources())
    m, n, k = (np.array([float(size)]) for size in (8192, 4096, 8192))
    passes = float(pass_seconds(RATES, m, n, k)[0])
    assert whole.total_s == pytest.approx(linear.total_s + passes)
    assert whole.low_s is not None
    assert linear.low_s is not None
    assert whole.low_s == pytest.approx(linear.low_s + passes)


def test_a_calibration_without_the_start_of_a_pass_has_no_answer() -> None:
    known = sources()
    assert known.calibration is not None
    constants = {k: v for k, v in known.calibration.constants.items() if k != START}
    without = replace(known, calibration=replace(known.calibration, constants=constants))
    assert predict_points(MODELS["calibrated"], [block("norm_linear_sigmoid")], without) == []
    assert predict_points(MODELS["torchao"], [block("norm_linear_sigmoid")], known) == []


def test_every_pass_starts_as_many_programs_do_where_that_is_calibrated() -> None:
    sizes = tuple(np.array([4096.0]) for _ in range(3))
    more = pass_seconds(RATES | {FILL: 1e-6}, *sizes) - pass_seconds(RATES, *sizes)
    assert float(more[0]) == pytest.approx(1e-6 * len(PASSES))
