"""95 % intervals: of constants and of predictions.

Of constants by resampling probes with replacement (Efron & Tibshirani, 1993, chapter 13).

Of predictions from errors on probes left out of the fit:
split conformal prediction with local scales (Lei et al., JASA 113, 2018, section 5.2), the errors
being those of the jackknife (Barber et al., Annals of Statistics 49, 2021). A group of probes has
the scale s, its mean |log error|. The quantile q is that of |log error| / s over all probes of the
provider, or of the op where the provider has fewer than `_OWN_QUANTILE`; q * s is the half-width of
the group. A probe's ratio uses the scale of the other probes: a scale that contained its own error
would make large ratios too small.

Groups are named "<kind>.<regime>", as "whole.mid", or by a word that is both. They localise the
interval: a new point is as hard to predict as the probes like it (the locality of Guan, Biometrika
110, 2023, with weights of 0 and 1; smooth weights are no better, see docs/method.md). A group of
fewer than `_ENOUGH` probes of a recipe borrows the missing ones: from the same group in all recipes
of the provider, then from the same kind, then from all probes of the provider. A borrowed probe has
the mean error of those that it comes from.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofcal.core.records import CODE, Ceiling
from roofcal.core.times import Array
from roofcal.fitting.probes import CalibrationError

RESAMPLES = 200
Index = NDArray[np.int64]


def draw_resamples(count: int, generator: np.random.Generator) -> Index:
    """Indices of range(count) drawn with replacement, [RESAMPLES, count]."""
    return generator.integers(0, count, size=(RESAMPLES, count))


def interval_ends(values: Array) -> tuple[Array, Array]:
    """(low, high): 2.5 and 97.5 percentiles over the first axis, that of the resamples."""
    low, high = np.percentile(values, [2.5, 97.5], axis=0)
    return low, high


def interval(
    count: int, statistic: Callable[[Index], Array], generator: np.random.Generator
) -> tuple[Array, Array]:
    """(low, high) of `statistic`, a function of the indices of a resample of `count` probes."""
    return interval_ends(np.array([statistic(draw) for draw in draw_resamples(count, generator)]))


def ceiling(value: float, low: float, high: float, unit: str, evidence: str) -> Ceiling:
    """A constant with its interval, widened where needed so that it contains the value."""
    return Ceiling(
        value=float(value),
        ci95_low=float(min(low, value)),
        ci95_high=float(max(high, value)),
        unit=unit,
        evidence=evidence,
    )


def exact(value: float, unit: str, evidence: str) -> Ceiling:
    """A constant without an error: a count or a choice."""
    return ceiling(value, value, value, unit, evidence)


def encode_family(families: Iterable[str], family: str) -> Ceiling:
    """The constant that holds a family; raises ValueError for one that is not declared."""
    return exact(list(families).index(family), CODE, f"cross-validation: {family}")


_NAME: Final = "log_p95"  # of a half-width, see roofcal.ops.predictions
WANTED: Final = 0.95
# With 10, 12, 15 and 20, the interval scores of an H100's layers that no study lists are 0.32 each
# (products), 0.45, 0.47, 0.47 and 0.48 (casts), 0.56, 0.56, 0.56 and 0.55 (narrow weights), those
# of an H200's study 0.37, 0.37, 0.37 and 0.38, 0.78, 0.80, 0.81 and 0.82, 0.65, 0.59, 0.58 and
# 0.57.
_ENOUGH: Final = 12.0
# Of 60 ratios, that of rank 58 is the quantile. Our specialised int4 kernel has lighter tails than
# the others: 93 % of layers are inside of 12 % to either side by its own, 97 % of 15 % by all.
_OWN_QUANTILE: Final = 60
_LEAST: Final = 1e-6  # of a scale: exact fits have no error, and a ratio needs a divisor
_LEAST_SHARE: Final = (
    0.1  # of the mean error: one large error among exact ones keeps a finite ratio
)

# provider, recipe, group of each probe, its log(predicted / measured) by a fit without it
Errors = tuple[str, str, Sequence[str], Array]
_Row = tuple[str, str, float]  # recipe, group, |log error|


def half_widths(
    op: str, errors: Iterable[Errors], groups: Iterable[str] = ()
) -> dict[str, dict[str, float]]:
    """Half-widths as logarithms by name of the group, by "<op>.<provider>.<recipe>".

    A recipe without errors has those of its provider.

    Args:
        op: the op's name.
        errors: of every provider and recipe; NaN for a probe that no fit predicts.
        groups: further groups. A provider gets a half-width for each of them whose regime it has
            probes of, of any kind.

    Raises:
        CalibrationError: for a provider without any error.
    """
    by_provider: dict[str, list[_Row]] = {}
    recipes_by_provider: dict[str, list[str]] = {}
    for provider, recipe, groups_of_probes, logs in errors:
        rows = by_provider.setdefault(provider, [])
        recipes_by_provider.setdefault(provider, []).append(recipe)
        rows += [
            (recipe, group, abs(float(value)))
            for group, value in zip(groups_of_probes, logs, strict=True)
            if not math.isnan(value)
        ]
    for provider, rows in by_provider.items():
        if not rows:
            raise CalibrationError(
                f"no probe of {op} by {provider} could be left out of a fit, so its predictions "
                "have no interval; measure more probes of it"
            )
    scales = {provider: _Scales(rows) for provider, rows in by_provider.items()}
    ratios = {
        provider: [
            error / scales[provider].of(recipe, group, error) for recipe, group, error in rows
        ]
        for provider, rows in by_provider.items()
    }
    of_op = _quantile([ratio for own in ratios.values() for ratio in own])
    widths: dict[str, dict[str, float]] = {}
    for provider, rows in by_provider.items():
        probed = dict.fromkeys(group for _, group, _ in rows)
        regimes = {_regime(group) for group in probed}
        names = dict.fromkeys([*probed, *(g for g in groups if _regime(g) in regimes)])
        own_ratios = ratios[provider]
        quantile = _quantile(own_ratios) if len(own_ratios) >= _OWN_QUANTILE else of_op
        for recipe in recipes_by_provider[provider]:
            own = {"": _NAME} | {group: f"{_NAME}_{group}" for group in names if group}
            widths[f"{op}.{provider}.{recipe}"] = {
                name: quantile * scales[provider].of(recipe, group) for group, name in own.items()
            }
    return widths


def _quantile(ratios: Sequence[float]) -> float:
    """The ratio of rank ceil((n + 1) * WANTED), the largest where there are too few."""
    rank = min(len(ratios), math.ceil((len(ratios) + 1) * WANTED))
    return sorted(ratios)[rank - 1] if ratios else math.nan


def _regime(group: str) -> str:
    return group.rpartition(".")[2]


class _Scales:
    """Mean errors of a provider by (recipe, group) of its rows; "" is all of them."""

    def __init__(self, rows: Sequence[_Row]) -> None:
        self._sums: dict[tuple[str, str], tuple[float, int]] = {}
        for recipe, group, error in rows:
            for key in dict.fromkeys([*self._keys(recipe, group), (recipe, "")]):
                total, count = self._sums.get(key, (0.0, 0))
                self._sums[key] = total + error, count + 1

    @staticmethod
    def _keys(recipe: str, group: str) -> list[tuple[str, str]]:
        """The groups that a group borrows from, the widest first, then the group itself."""
        return list(
            dict.fromkeys([("", ""), ("", group.partition(".")[0]), ("", group), (recipe, group)])
        )

    def of(self, recipe: str, group: str, left_out: float | None = None) -> float:
        """The scale of a group; left_out: an error of this group to compute it without."""
        overall, number = self._sums["", ""]
        least = max(_LEAST, _LEAST_SHARE * overall / number)
        scale = least if left_out is None else max(left_out, least)
        for key in self._keys(recipe, group):
            total, count = self._sums.get(key, (0.0, 0))
            if left_out is not None:
                total, count = total - left_out, count - 1
            borrowed = max(0.0, _ENOUGH - count) if key != ("", "") else 0.0
            if count + borrowed:
                scale = max((total + borrowed * scale) / (count + borrowed), least)
        return scale
