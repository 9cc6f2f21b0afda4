"""What advice comes to: one recipe, in one sentence that also says how sure it is."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from roofcal.ask.advise import Advice, Adviser, RecipeTime
from roofcal.ask.answers import Record, Style
from roofcal.ask.beyond_probes import FAR
from roofcal.ask.choices import ChoiceRecord, choice_record
from roofcal.ask.linear_options import BASELINE
from roofcal.ops.linear.model import Passes
from roofcal.ops.spec import Shape

_CLEARLY_SLOWER: Final = (
    0.05  # a recipe that is less likely than this to be the fastest is no toss-up
)
# A recipe that takes longer by more is slower, however wide the intervals are.
MOST_APART: Final = 0.10


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The recipe to use for a linear; its time, and what it is compared with, include casts.

    Attributes:
        recipe: the fastest; bf16 where no other is faster.
        speedup_over_bf16: None where bf16 has no time.
        chance: the probability that it is the fastest; None for a model without intervals.
        toss_up_with: recipes that cannot be told apart from it, the fastest first.
        toss_up_within: how much longer the slowest of them takes, a fraction; None without any.
        likelier: the one of them that is likelier to be the fastest although its time is longer,
            because it is less certain or more providers offer it; None without one.
        next_recipe, next_slower: the next in time, and how much longer it takes; None without any.
        output_db, bf16_output_db: signal to noise; None where nobody measured it.
        weak_because: why the evidence is weak, in words; empty where it is not.
    """

    recipe: str
    speedup_over_bf16: float | None
    casts_included: bool = True
    chance: float | None
    toss_up_with: tuple[str, ...]
    toss_up_within: float | None
    likelier: str | None
    next_recipe: str | None
    next_slower: float | None
    output_db: float | None
    bf16_output_db: float | None
    weak_because: tuple[str, ...]

    def sentences(self) -> Iterator[str]:
        """The decision, and why its evidence is weak."""
        what = f"Use {self.recipe}: the fastest, casts included; bf16 has no time here"
        if self.recipe == BASELINE:
            what = f"Keep {BASELINE}: no recipe ranked here is faster, casts included"
        elif self.speedup_over_bf16 is not None:
            what = f"Use {self.recipe}: {self.speedup_over_bf16:.2f}x {BASELINE}, casts included"
        aside = [] if self.chance is None else [f"fastest with P {self.chance:.2f}"]
        if self.next_recipe is None:
            aside = ["no other recipe is ranked"]
        if self.toss_up_within is not None:
            aside.append(toss_up_words(self.toss_up_with, self.toss_up_within))
            aside += [f"{self.likelier} has a higher P"] if self.likelier else []
        elif self.next_slower is not None:
            aside.append(
                f"the next, {self.next_recipe}, takes {100 * self.next_slower:.0f} % longer"
            )
        if self.speedup_over_bf16 is not None and self.speedup_over_bf16 < 1:
            aside.append(f"{BASELINE}, which is not ranked, is faster")
        accuracy = "accuracy not measured"
        if self.output_db is not None:
            accuracy = f"accuracy {self.output_db:.1f} dB"
            if self.recipe != BASELINE and self.bf16_output_db is not None:
                accuracy += f", {BASELINE} {self.bf16_output_db:.1f}"
        certainty = f" ({'; '.join(aside)})" if aside else ""
        yield f"{what}{certainty}; {accuracy}."
        if self.weak_because:
            yield f"Weak evidence: {'; '.join(self.weak_because)}."


class DecidedAdvice(NamedTuple):
    """The advice on a linear, its options with what was measured nearby, and what it comes to."""

    advice: Advice
    decision: Decision
    choices: ChoiceRecord | None


def decided_advice(adviser: Adviser, shape: Shape) -> DecidedAdvice:
    """The decision on one linear by its m, n and k; PredictError where nothing can be ranked."""
    (advice,) = adviser.advise([shape])
    options = tuple(adviser.with_evidence(option, shape) for option in advice.options)
    advice = replace(advice, options=options)
    is_forward = adviser.passes == "forward"
    choices = choice_record(adviser.products if is_forward else adviser.linears, among="recipes")
    decision = decide(
        list(advice.best_by_recipe.values()),
        adviser.output_db(BASELINE, shape),
        choices,
        judged_on(adviser.passes),
    )
    return DecidedAdvice(advice, decision, choices)


def judged_on(passes: Passes) -> str:
    """What the record of choices is of: linears are measured forward and backward alone."""
    return "products" if passes == "forward" else "linears"


def longest_of_toss_up(seconds: float, high_s: float | None) -> float:
    """The longest time in s of a recipe that a faster one's interval does not tell from it.

    high_s: the high end of that interval; without one only equal times cannot be told apart.
    """
    return seconds if high_s is None else min(high_s, seconds * (1 + MOST_APART))


def style_of(row: Record, best: str) -> Style:
    """How the row of a recipe is shown: the best recipe, and times that are extrapolated."""
    if row["recipe"] == best:
        return "best"
    return "dim" if row["extrapolated"] else ""


def toss_up_words(names: Sequence[str], within: float) -> str:
    """Which recipes cannot be told apart; within: how much longer they take, a fraction."""
    *others, last = names
    listed = f"{', '.join(others)} and {last}" if others else last
    if not within:
        return f"{listed} {'are' if others else 'is'} equal by this model"
    most = f"{'at most ' if others else ''}{max(1, round(100 * within))} % slower"
    return f"a toss-up with {listed}, {most}"


def decide(
    ranked: Sequence[RecipeTime],
    bf16_output_db: float | None,
    choices: ChoiceRecord | None,
    judged_on: str,
) -> Decision:
    """The decision among the fastest options of all recipes, the fastest first, at least one.

    Two recipes are a toss-up where the slower is at least half as likely to be the fastest, or,
    next to it, has its time within the interval of the faster and at most MOST_APART longer.
    Of recipes of equal time bf16 is used.

    bf16_output_db: the accuracy of bf16. choices: how good predicted choices were on measured
    points, which `judged_on` names.
    """
    equals = [one for one in ranked if math.isclose(one.seconds, ranked[0].seconds)]
    best = next((one for one in equals if one.recipe == BASELINE), ranked[0])
    others = [one for one in ranked if one is not best]

    def is_toss_up(place: int, other: RecipeTime) -> bool:
        chance = other.recipe_probability
        if other in equals or chance is None or best.recipe_probability is None:
            return other in equals
        is_inside = place == 0 and other.seconds <= longest_of_toss_up(best.seconds, best.high_s)
        is_likely = chance >= best.recipe_probability / 2
        return chance >= _CLEARLY_SLOWER and (is_likely or is_inside)

    toss_ups = [one for place, one in enumerate(others) if is_toss_up(place, one)]
    weak = []
    if doublings := best.extrapolated_doublings:
        guess = ", a guess" if doublings > FAR else ""
        weak.append(f"extrapolated by {doublings:.1f} doublings{guess}")
    if best.unprobed:
        weak.append("no probe is of this kind")
    if best.recipe_probability is None:
        weak.append("this model states no interval")
    elif choices and choices.is_poor:
        weak.append(choices.words(judged_on))
    likeliest = max((best, *toss_ups), key=lambda one: one.recipe_probability or 0.0)
    slower = [0.0 if one in equals else one.seconds / best.seconds - 1 for one in toss_ups]
    return Decision(
        recipe=best.recipe,
        speedup_over_bf16=best.speedup_over_bf16,
        chance=best.recipe_probability,
        toss_up_with=tuple(one.recipe for one in toss_ups),
        toss_up_within=max(slower, default=None),
        likelier=None if likeliest is best else likeliest.recipe,
        next_recipe=others[0].recipe if others else None,
        next_slower=others[0].seconds / best.seconds - 1 if others else None,
        output_db=best.output_db,
        bf16_output_db=bf16_output_db,
        weak_because=tuple(weak),
    )
