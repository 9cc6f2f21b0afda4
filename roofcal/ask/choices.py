"""Which of several predictions is the fastest: how probably, and how good such choices were.

The error of a prediction is taken as normal in log space, with the 95 % interval as 1.96 standard
deviations on each side. Predictions that share a part (the same product, another cast) share its
error; parts of different names err independently. The probabilities are not too high: of 125
published choices between two providers of an H200, 70 % of those stated with 0.5 to 0.6 were right,
76 % of those with 0.6 to 0.8 and 83 % of those above (tests/roofcal/ask/test_choices.py).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

import numpy as np

from roofcal.ask.measured import MeasuredPoint
from roofcal.core.times import Array, Value

_DRAWS: Final = 4096  # probabilities are within 0.01, less than the errors behind them change them
_SEED: Final = 20261122
_Z95: Final = 1.959964


def fastest_probabilities(
    options: Sequence[Sequence[tuple[str, float, float | None]]],
) -> list[float | None]:
    """The probability of each option to be the fastest; None where one states no interval.

    options: the parts that each is the sum of, as name, seconds and the upper end of the interval.
    Parts of one name err alike in all options.
    """
    candidates = []  # name of a part -> (seconds, standard deviation of its log error)
    for parts in options:
        errors: dict[str, tuple[float, float]] = {}
        for name, seconds, high_s in parts:
            if high_s is None:
                return [None] * len(options)
            before, error = errors.get(name, (0.0, 0.0))
            own = seconds * math.log(high_s / seconds) / _Z95
            errors[name] = before + seconds, (before * error + own) / (before + seconds)
        candidates.append(errors)
    names = list(dict.fromkeys(name for candidate in candidates for name in candidate))
    draws = _draws(len(names))

    def total(candidate: Mapping[str, tuple[float, float]], numbers: Mapping[str, Value]) -> Value:
        return sum(
            second * np.exp(error * numbers[name]) for name, (second, error) in candidate.items()
        )

    # Most candidates are slower in every draw; two bounds show that before 4096 draws are made.
    farthest = float(np.abs(draws).max())
    low, high = (dict.fromkeys(names, sign * farthest) for sign in (-1.0, 1.0))
    most = min(total(candidate, high) for candidate in candidates)
    rivals = [place for place, c in enumerate(candidates) if total(c, low) <= most]
    by_name = dict(zip(names, draws, strict=True))
    totals = np.stack([total(candidates[place], by_name) for place in rivals])
    shares = np.zeros(len(candidates))
    shares[rivals] = np.bincount(totals.argmin(axis=0), minlength=len(rivals)) / _DRAWS
    return [*shares.tolist()]


@cache  # 5 ms for an adviser's sixty parts, which 30 questions have in common
def _draws(rows: int) -> Array:
    """Standard normal numbers [rows, draws], the same for all questions."""
    return np.random.default_rng(_SEED).standard_normal((rows, _DRAWS))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceRecord:
    """How good predicted choices of the fastest are, judged on measured points.

    points        shapes that were measured with several choices
    right         of them, those where the choice was the fastest
    mean_regret   how much slower the choice was than the fastest, a fraction, over all points
    worst_regret  the largest such fraction
    """

    points: int
    right: int
    mean_regret: float
    worst_regret: float

    @property
    def is_poor(self) -> bool:
        """Whether fewer than half of the choices were right."""
        return 2 * self.right < self.points

    def chance(self, stated: float) -> float:
        """The probability of a choice to be the fastest: of a poor record, at most its share."""
        return min(stated, self.right / self.points) if self.is_poor else stated

    def words(self, points: str) -> str:
        """How often the predicted choice of a provider or recipe was right."""
        return f"the model's choices were right for {self.right} of {self.points} measured {points}"


def choice_record(
    points: Iterable[MeasuredPoint], among: Literal["providers", "recipes"] = "providers"
) -> ChoiceRecord | None:
    """The record of choices among providers of a recipe, or among all recipes by any provider.

    None where no shape was both measured and predicted with two choices.
    """
    groups: dict[tuple[object, ...], dict[tuple[str, str], MeasuredPoint]] = {}
    for point in points:
        if point.predicted_s is not None:
            recipe = point.recipe if among == "providers" else ""
            key = (recipe, *sorted(point.shape.items()))
            groups.setdefault(key, {})[point.provider, point.recipe] = point
    regrets = []
    for choices in groups.values():
        if len(choices) > 1:
            choice = min(choices.values(), key=lambda point: point.predicted_s or math.inf)
            fastest = min(point.median_s for point in choices.values())
            regrets.append(choice.median_s / fastest - 1)
    if not regrets:
        return None
    return ChoiceRecord(
        points=len(regrets),
        right=sum(regret == 0 for regret in regrets),
        mean_regret=sum(regrets) / len(regrets),
        worst_regret=max(regrets),
    )
