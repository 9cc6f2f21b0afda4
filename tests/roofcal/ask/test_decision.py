"""What advice comes to on made-up options; which prediction is the fastest, and how probably."""

import math
from dataclasses import replace
from typing import Any

import pytest

from roofcal.ask.advice import decide
from roofcal.ask.advise import RecipeTime
from roofcal.ask.measured import ChoiceRecord, fastest_probabilities, measured_points
from roofcal.core.records import PlanPoint, Prediction
from roofcal.models.registry import model_named, predict_points
from tests.roofcal.ask.published_run import PUBLISHED, published_sources

GOOD, POOR = (
    ChoiceRecord(points=25, right=right, mean_regret=0.01, worst_regret=0.1) for right in (20, 5)
)


def option(recipe: str, seconds: float, chance: float | None, **changes: Any) -> RecipeTime:
    """An option with an interval of 5 % on both sides; bf16 takes 2 seconds."""
    of_recipe: dict[str, Any] = {
        "recipe": recipe, "products_by": "cublaslt", "casts_by": "triton", "seconds": seconds,
        "low_s": None if chance is None else 0.95 * seconds,
        "high_s": None if chance is None else 1.05 * seconds,
        "source": "predicted", "measured": (), "predicted_s": seconds, "predicted_low_s": None,
        "predicted_high_s": None, "bound_by": "output", "recipe_probability": chance,
        "speedup_over_bf16": 2 / seconds, "extrapolated_doublings": 0.0, "unprobed": (),
        "output_db": 28.46,
    }  # fmt: skip
    return RecipeTime(**(of_recipe | changes))


BF16 = option("bf16", 2.0, 0.0, output_db=55.5)
CLEAR = [option("a", 1.0, 0.97), option("b", 1.2, 0.03), BF16]
CLOSE = [option("a", 1.0, 0.57), option("b", 1.019, 0.29), option("c", 1.04, 0.14), BF16]
ACCURACY = "accuracy 28.5 dB, bf16 55.5."


@pytest.mark.parametrize(
    ("ranked", "says"),
    [
        (CLEAR, "Use a: 2.00x bf16, casts included (fastest with P 0.97; the next, b, takes "
         f"20 % longer); {ACCURACY}"),
        (CLOSE, f"Use a: 2.00x bf16, casts included (fastest with P 0.57; a toss-up with b, "
         f"2 % slower); {ACCURACY}"),
        ([*CLOSE[:2], option("c", 1.0124, 0.2)], "Use a: 2.00x bf16, casts included (fastest with "
         "P 0.57; a toss-up with b and c, at most 2 % slower); accuracy 28.5 dB, bf16 55.5."),
        ([CLOSE[0], option("b", 1.049, 0.06), BF16],  # within the interval
         f"Use a: 2.00x bf16, casts included (fastest with P 0.57; a toss-up with b, "
         f"5 % slower); {ACCURACY}"),
        ([option("a", 1.0, 0.8, high_s=1.4), option("b", 1.2, 0.2), BF16],  # within it, but far
         "Use a: 2.00x bf16, casts included (fastest with P 0.80; the next, b, takes 20 % longer); "
         f"{ACCURACY}"),
        ([option("a", 1.0, 0.3), option("b", 1.1, 0.4), option("c", 1.2, 0.3), BF16],
         "Use a: 2.00x bf16, casts included (fastest with P 0.30; the next, b, takes "
         f"10 % longer; b has a higher P); {ACCURACY}"),
        ([option("a", 1.0, 0.5, high_s=1.001), option("b", 1.004, 0.5)],  # in the interval of b
         "Use a: 2.00x bf16, casts included (fastest with P 0.50; a toss-up with b, 1 % slower); "
         "accuracy 28.5 dB, bf16 55.5."),
        ([option("a", 1.9, 0.6), option("bf16", 2.0, 0.4, output_db=55.5)],
         f"Use a: 1.05x bf16, casts included (fastest with P 0.60; a toss-up with bf16, "
         f"5 % slower); {ACCURACY}"),
        ([option("bf16", 2.0, 0.99, output_db=55.5), option("a", 3.0, 0.01)],
         "Keep bf16: no recipe ranked here is faster, casts included (fastest with P 0.99; the "
         "next, a, takes 50 % longer); accuracy 55.5 dB."),
        ([option("a", 1.0, 1.0, speedup_over_bf16=None, output_db=None)],
         "Use a: the fastest, casts included; bf16 has no time here (no other recipe is ranked); "
         "accuracy not measured."),
        ([option("a", 4.0, 0.9), option("b", 5.0, 0.1)],
         "Use a: 0.50x bf16, casts included (fastest with P 0.90; the next, b, takes 25 % longer; "
         f"bf16, which is not ranked, is faster); {ACCURACY}"),
        ([option("a", 2.0, None), option("bf16", 2.0, None), option("b", 3.0, None)],
         "Keep bf16: no recipe ranked here is faster, casts included (a is equal by this model); "
         "accuracy 28.5 dB."),
    ],
)  # fmt: skip
def test_the_first_sentence_names_the_recipe_and_what_cannot_be_told_apart(
    ranked: list[RecipeTime], says: str
) -> None:
    assert next(decide(ranked, 55.5, GOOD, "products").sentences()) == says


@pytest.mark.parametrize(
    ("changes", "choices", "says"),
    [
        ({}, GOOD, []),
        ({}, None, []),
        ({"extrapolated_doublings": 1.5}, GOOD, ["extrapolated by 1.5 doublings"]),
        ({"extrapolated_doublings": 9.0, "unprobed": ("x",)}, GOOD,
         ["extrapolated by 9.0 doublings, a guess", "no probe is of this kind"]),
        ({}, POOR, ["the model's choices were right for 5 of 25 measured linears"]),
        ({"recipe_probability": None}, POOR, ["this model states no interval"]),
    ],
)  # fmt: skip
def test_weak_evidence_is_called_weak(
    changes: dict[str, Any], choices: ChoiceRecord | None, says: list[str]
) -> None:
    decision = decide([option("a", 1.0, 0.9, **changes), BF16], 55.5, choices, "linears")
    assert list(decision.weak_because) == says
    _, *second = decision.sentences()
    assert second == [f"Weak evidence: {'; '.join(says)}."] * bool(says)


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
