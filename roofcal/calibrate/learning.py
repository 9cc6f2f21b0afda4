"""The learning curve: how wrong predictions are by the number of probes they were fitted on.

Of the probes of a recipe, n are drawn at random, the model is fitted on them alone, and its error
is taken on those that were not drawn. n goes from the least that a fit takes to all but ten, in six
geometric steps; each repetition shuffles the probes anew and takes its first n, so that within one
the smaller draws are part of the larger. Only probes are read, never a point of the study. What the
streams tell of the memory is known at every n.

The family is chosen on the n probes too, for a family chosen on all has seen those that judge. As
`calibrate` does it, by six folds of whole searches, that took 2 s a fit, minutes in all; here two
folds (casts: three) of four steps choose, and the fit that is judged takes twenty. On three
shufflings of a published NVIDIA H200's products, the mean MAPE over recipes and n was 8.5 % so,
8.7 % by six whole folds and 8.2 % with the family of all probes; the curves of its five recipes of
products and eight of casts take 20 s of one core. Narrow weights have one family and are fitted as
`calibrate` fits them, 20 ms a fit.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from roofcal.calibrate.calibration import cross_validated_ops
from roofcal.core.devices import DeviceSpec
from roofcal.fitting.cross_validation import Method, judge
from roofcal.fitting.probes import Device, Probe, by_provider_and_recipe

COLUMNS: Final = (
    *("op", "recipe", "provider", "probes", "repetition", "held_out"),
    *("mape", "median", "p95"),
)
REPETITIONS: Final = 5
HELD_OUT: Final = 10  # at least so many probes judge
_STEPS: Final = 6


def learning_csv(
    run: Path, spec: DeviceSpec | None = None, *, repetitions: int = REPETITIONS, seed: int = 0
) -> str:
    """The learning curves of a run folder as CSV with the header COLUMNS; errors are fractions.

    A recipe with less than its fit takes and ten more is left out. spec: the device's datasheet,
    for the size of its cache. Equal records and seed give equal text. Raises CalibrationError
    without an environment, RecordsError for bad files.
    """
    lines = [",".join(COLUMNS)]
    for op, method, device, probes in cross_validated_ops(run, spec):
        for provider, recipe, members in by_provider_and_recipe(probes):
            labels = f"{op.folder},{recipe},{provider}"
            rows = _rows(members, device, method, repetitions, seed)
            lines += [f"{labels},{row}" for row in rows]
    return "\n".join(lines) + "\n"


def sizes(least: int, count: int) -> list[int]:
    """Numbers of probes to fit on: from `least` to all of `count` but ten, geometric; [] if none.

    (12, 120) -> [12, 19, 29, 45, 71, 110]
    """
    most = count - HELD_OUT
    if most < least:
        return []
    return sorted({round(float(size)) for size in np.geomspace(least, most, _STEPS)})


def _rows(
    probes: Sequence[Probe], device: Device, method: Method[Any], repetitions: int, seed: int
) -> Iterator[str]:
    """One row per repetition and number of probes, without the labels of op and recipe."""
    count = len(probes)
    for repetition in range(repetitions):
        order = np.random.default_rng([seed, repetition]).permutation(count)
        shuffled = [probes[i] for i in order]
        for size in sizes(method.least_probes, count):
            drawn, unseen = (
                method.problem(probes=members, device=device)
                for members in (shuffled[:size], shuffled[size:])
            )
            error = np.abs(np.expm1(judge(drawn, unseen, method)))
            figures = (error.mean(), np.median(error), np.percentile(error, 95))
            numbers = (size, repetition, len(error), *(f"{figure:.4g}" for figure in figures))
            yield ",".join(map(str, numbers))
