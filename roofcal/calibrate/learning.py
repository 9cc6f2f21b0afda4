"""The learning curve: how wrong predictions are by the number of probes they were fitted on.

Only probes are read, never a point of the study. docs/method.md says how the probes are drawn.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from roofcal.calibrate.calibration import cross_validated_ops
from roofcal.core.devices import DeviceSpec
from roofcal.fitting.cross_validation import Problem, held_out_log_errors
from roofcal.fitting.parallel import parallel_map
from roofcal.fitting.probes import by_provider_and_recipe

COLUMNS: Final = (
    *("op", "recipe", "provider", "probes", "repetition", "held_out"),
    *("mape", "median", "p95"),
)
REPETITIONS: Final = 5
HELD_OUT: Final = 10  # at least so many probes test a fit
_STEPS: Final = 6


def learning_csv(
    run: Path, spec: DeviceSpec | None = None, *, repetitions: int = REPETITIONS, seed: int = 0
) -> str:
    """The learning curves of a run folder as CSV with the header COLUMNS; errors are fractions.

    A recipe is left out if it has fewer than ten probes more than its fit needs. spec: the device's
    datasheet, for the size of its cache. Equal records and seed give equal text. Raises
    CalibrationError without an environment, RecordsError for bad files.
    """
    subjects = [
        (f"{op.folder},{recipe},{provider}", kind.of(members, device))
        for op, kind, device, probes in cross_validated_ops(run, spec)
        for provider, recipe, members in by_provider_and_recipe(probes)
    ]

    def curve(subject: tuple[str, Problem]) -> list[str]:
        labels, problem = subject
        return [f"{labels},{row}" for row in _curve_rows(problem, repetitions, seed)]

    curves = parallel_map(curve, subjects)
    return "\n".join([",".join(COLUMNS), *(row for rows in curves for row in rows)]) + "\n"


def sizes(least: int, count: int) -> list[int]:
    """Numbers of probes to fit on: from `least` to all of `count` but ten, geometric; [] if none.

    (12, 120) -> [12, 19, 29, 45, 71, 110]
    """
    most = count - HELD_OUT
    if most < least:
        return []
    return sorted({round(float(size)) for size in np.geomspace(least, most, _STEPS)})


def _curve_rows(problem: Problem, repetitions: int, seed: int) -> Iterator[str]:
    """One row per repetition and number of probes, without the labels of op and recipe."""
    count = len(problem.probes)
    draws = [
        (repetition, size, np.random.default_rng([seed, repetition]).permutation(count)[:size])
        for repetition in range(repetitions)
        for size in sizes(problem.least_probes, count)
    ]
    if not draws:
        return
    subsets = np.zeros((len(draws), count))
    for subset, (_, _, drawn) in zip(subsets, draws, strict=True):
        subset[drawn] = 1.0
    log_errors = held_out_log_errors(problem, subsets)
    for (repetition, size, _), subset, logs in zip(draws, subsets, log_errors, strict=True):
        error = np.abs(np.expm1(logs[subset == 0]))
        figures = (error.mean(), np.median(error), np.percentile(error, 95))
        numbers = (size, repetition, len(error), *(f"{figure:.4g}" for figure in figures))
        yield ",".join(map(str, numbers))
