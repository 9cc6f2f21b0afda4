"""Half-widths of 95 % intervals of predictions, from errors on probes left out of the fit.

Split conformal prediction with local scales (Lei et al., JASA 113, 2018, section 5.2). A group of
probes (recipe and group of shapes) has the scale s, its mean |log error|. The quantile q is that of
|log error| / s over the probes of its shapes in all recipes of a provider, or over all of the
provider where they are fewer than `_LEAST_RATIOS`; q * s is the half-width of the group. A scale of
fewer than `_ENOUGH` probes borrows: the mean of its shapes in all recipes stands for those that it
lacks, and that of all shapes for those that they lack.
The ratio of a probe is to the scale without this probe, since a scale that contains the error it
divides makes large ratios too small.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from roofcal.core.times import Array
from roofcal.fitting.probes import CalibrationError, Probe

_NAME: Final = "log_p95"  # of a half-width, see roofcal.ops.predictions
WANTED: Final = 0.95
# Of 10 to 100 the one with the best interval scores of probes left out, on an H200: products 0.461
# (0.472 with 10 borrowed always), narrow weights 0.584 (0.599), casts 0.621 (0.611).
_ENOUGH: Final = 50.0
# Of 40 to 100 and never: with quantiles of their own, interval scores are 0.450 instead of 0.461.
_LEAST_RATIOS: Final = 60
_LEAST: Final = 1e-6  # of a scale: exact fits have no error, and a ratio needs a divisor
_LEAST_SHARE: Final = (
    0.1  # of the mean error: one large error among exact ones keeps a finite ratio
)

# provider, recipe, probes, log(predicted / measured) of each by a fit without it
Errors = tuple[str, str, Sequence[Probe], Array]


def half_widths(
    op: str, errors: Iterable[Errors], group_of: Callable[[str, Mapping[str, int]], str]
) -> dict[str, dict[str, float]]:
    """Half-widths as logarithms by name of the group, by "<op>.<provider>.<recipe>".

    group_of: (recipe, shape) -> group of shapes. A recipe without errors has those of its provider.

    Raises CalibrationError for a provider without any error.
    """
    by_provider: dict[str, list[tuple[str, str, float]]] = {}
    recipes_by_provider: dict[str, list[str]] = {}
    for provider, recipe, probes, logs in errors:
        rows = by_provider.setdefault(provider, [])
        recipes_by_provider.setdefault(provider, []).append(recipe)
        rows += [
            (recipe, group_of(recipe, probe.shape), abs(float(value)))
            for probe, value in zip(probes, logs, strict=True)
            if not math.isnan(value)
        ]
    widths: dict[str, dict[str, float]] = {}
    for provider, rows in by_provider.items():
        if not rows:
            raise CalibrationError(
                f"no probe of {op} by {provider} could be left out of a fit, so its predictions "
                "have no interval; measure more probes of it"
            )
        scales = _Scales(rows)
        quantiles = _quantiles(rows, scales)
        groups = ("", *dict.fromkeys(group for _, group, _ in rows if group))
        for recipe in recipes_by_provider[provider]:
            widths[f"{op}.{provider}.{recipe}"] = {
                f"{_NAME}_{group}" if group else _NAME: quantiles.get(group, quantiles[""])
                * scales.of(recipe, group)
                for group in groups
            }
    return widths


class _Scales:
    """Mean errors by (recipe, group) of rows of (recipe, group, error); "" is all of them."""

    def __init__(self, rows: Sequence[tuple[str, str, float]]) -> None:
        self._sums: dict[tuple[str, str], tuple[float, int]] = {}
        for recipe, group, error in rows:
            for key in dict.fromkeys([(recipe, group), (recipe, ""), ("", group), ("", "")]):
                total, count = self._sums.get(key, (0.0, 0))
                self._sums[key] = total + error, count + 1

    def of(self, recipe: str, group: str, left_out: float | None = None) -> float:
        """The scale of a group; left_out: an error of this group to take it without."""
        overall, number = self._sums["", ""]
        least = max(_LEAST, _LEAST_SHARE * overall / number)
        scale = least if left_out is None else max(left_out, least)
        for key in dict.fromkeys([("", ""), ("", group), (recipe, group)]):
            total, count = self._sums.get(key, (0.0, 0))
            if left_out is not None:
                total, count = total - left_out, count - 1
            borrowed = max(0.0, _ENOUGH - count) if key != ("", "") else 0.0
            if count + borrowed:
                scale = max((total + borrowed * scale) / (count + borrowed), least)
        return scale


def _quantiles(rows: Sequence[tuple[str, str, float]], scales: _Scales) -> dict[str, float]:
    """The quantile of each group of shapes that has enough ratios, and of all under ""."""
    ratios: dict[str, list[float]] = {"": []}
    for recipe, group, error in rows:
        ratio = error / scales.of(recipe, group, error)
        ratios[""].append(ratio)
        if group:
            ratios.setdefault(group, []).append(ratio)
    return {
        group: _conformal_quantile(np.array(values))
        for group, values in ratios.items()
        if not group or len(values) >= _LEAST_RATIOS
    }


def _conformal_quantile(ratios: Array) -> float:
    """The ratio of rank ceil((n + 1) * WANTED), the largest where there are too few."""
    rank = min(len(ratios), math.ceil((len(ratios) + 1) * WANTED))
    return float(np.sort(ratios)[rank - 1])
