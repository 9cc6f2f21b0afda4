"""Which of several predictions is the fastest: by hand, and calibrated on measured choices."""

import math
from dataclasses import replace

import pytest

from roofcal.ask.measured import fastest_probabilities, measured_points
from roofcal.core.records import PlanPoint, Prediction
from roofcal.models.registry import model_named, predict_points
from tests.roofcal.ask.published_run import PUBLISHED, published_sources

ONE = Prediction(
    point_id="x", model="calibrated", math_s=None, dram_s=None, link_s=None, launch_s=None,
    total_s=1.0, low_s=0.8, high_s=1.25, bound_by="dram",
)  # fmt: skip


def probability_of_first(*predictions: Prediction) -> float | None:
    parts = [[(str(n), p.total_s, p.high_s)] for n, p in enumerate(predictions)]
    return fastest_probabilities(parts)[0]


def test_a_normal_distribution_of_the_log_ratio_by_hand() -> None:
    slower = replace(ONE, total_s=1.1, low_s=0.88, high_s=1.375)
    z = 1.96 * math.log(1.1) / math.hypot(math.log(1.25), math.log(1.25))
    expected = 0.5 * (1 + math.erf(z / math.sqrt(2)))
    assert probability_of_first(ONE, slower) == pytest.approx(expected, abs=0.02)
    assert probability_of_first(ONE, ONE) == pytest.approx(0.5, abs=0.02)
    assert probability_of_first(ONE, replace(ONE, low_s=None, high_s=None)) is None


def test_a_shared_part_errs_alike_in_all_options() -> None:
    casts = ("a", 0.1, 0.102), ("b", 0.2, 0.204)
    alike = fastest_probabilities([[("product", 1.0, 2.66), cast] for cast in casts])
    assert alike[0] is not None and alike[0] > 0.99
    apart = fastest_probabilities([[(f"by {cast[0]}", 1.0, 2.66), cast] for cast in casts])
    assert apart[0] is not None and apart[0] < 0.7


def test_stated_probabilities_promise_no_more_than_measured_choices_hold() -> None:
    """In every band of stated probability, as many choices were right as stated, or some more."""
    groups: dict[tuple[object, ...], dict[str, float]] = {}
    for point in measured_points(PUBLISHED, "gemm").values():
        key = (point.recipe, *point.shape.values())
        groups.setdefault(key, {})[point.provider] = point.median_s
    stated: list[tuple[float, bool]] = []
    for (recipe, *sizes), medians in groups.items():
        if len(medians) < 2:
            continue
        shape = dict(zip("mnk", sizes, strict=True))
        points = [
            PlanPoint(op="gemm", provider=p, recipe=str(recipe), shape=shape, device="nvidia-h200")  # type: ignore[arg-type]
            for p in medians
        ]
        predictions = predict_points(model_named("calibrated"), points, published_sources())
        order = sorted(zip(predictions, medians, strict=True), key=lambda pair: pair[0].total_s)
        probability = probability_of_first(*[prediction for prediction, _ in order])
        assert probability is not None
        stated.append((probability, medians[order[0][1]] == min(medians.values())))
    assert len(stated) >= 25
    for low, high in ((0.5, 0.6), (0.6, 0.8), (0.8, 1.01)):
        band = [(p, right) for p, right in stated if low <= p < high]
        mean, right = (sum(column) / len(band) for column in zip(*band, strict=True))
        chance = 1.96 * math.sqrt(mean * (1 - mean) / len(band))
        assert mean - chance < right < mean + chance + 0.15, (low, high, mean, right)
