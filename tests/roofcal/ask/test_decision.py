"""What advice comes to, on made-up options: toss-ups, bf16, weak evidence."""

from typing import Any

import pytest

from roofcal.ask.advice import decide
from roofcal.ask.advise import RecipeTime
from roofcal.ask.measured import ChoiceRecord

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
