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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofcal.calibrate.calibration import cache_bytes, families_of
from roofcal.calibrate.probe_records import read_environment, read_probes
from roofcal.core.devices import DeviceSpec
from roofcal.fitting.probes import Probe
from roofcal.ops.cast import fit as casts
from roofcal.ops.gemm import fit as products
from roofcal.ops.mixed_gemm import fit as mixed
from roofcal.ops.probe_copy.fit import bandwidth_constants

COLUMNS: Final = (
    *("op", "recipe", "provider", "probes", "repetition", "held_out"),
    *("mape", "median", "p95"),
)
REPETITIONS: Final = 5
HELD_OUT: Final = 10  # at least so many probes judge
_STEPS: Final = 6

# (fitted on, judged on) -> log(predicted / measured) of those judged on
Judge = Callable[[Sequence[Probe], Sequence[Probe]], NDArray[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """A provider's recipe of an op, its probes, the least that its fit takes, how to judge it."""

    op: str
    recipe: str
    provider: str
    probes: Sequence[Probe]
    least: int
    judge: Judge


def learning_csv(
    run: Path, spec: DeviceSpec | None = None, *, repetitions: int = REPETITIONS, seed: int = 0
) -> str:
    """The learning curves of a run folder as CSV with the header COLUMNS; errors are fractions.

    A recipe with less than its fit takes and ten more is left out. spec: the device's datasheet,
    for the size of its cache. Equal records and seed give equal text. Raises CalibrationError
    without an environment, RecordsError for bad files.
    """
    lines = [",".join(COLUMNS)]
    for subject in _subjects(run, spec):
        lines += _rows(subject, repetitions, seed)
    return "\n".join(lines) + "\n"


def sizes(least: int, count: int) -> list[int]:
    """Numbers of probes to fit on: from `least` to all of `count` but ten, geometric; [] if none.

    (12, 120) -> [12, 19, 29, 45, 71, 110]
    """
    most = count - HELD_OUT
    if most < least:
        return []
    return sorted({round(float(size)) for size in np.geomspace(least, most, _STEPS)})


def _rows(subject: _Subject, repetitions: int, seed: int) -> Iterator[str]:
    labels = [subject.op, subject.recipe, subject.provider]
    count = len(subject.probes)
    for repetition in range(repetitions):
        order = np.random.default_rng([seed, repetition]).permutation(count)
        shuffled = [subject.probes[i] for i in order]
        for size in sizes(subject.least, count):
            error = np.abs(np.expm1(subject.judge(shuffled[:size], shuffled[size:])))
            figures = (error.mean(), np.median(error), np.percentile(error, 95))
            numbers = [str(size), str(repetition), str(len(error))]
            yield ",".join([*labels, *numbers, *(f"{figure:.4g}" for figure in figures)])


def _subjects(run: Path, spec: DeviceSpec | None) -> Iterator[_Subject]:
    environment = read_environment(run)
    cache, source = cache_bytes(environment, spec), np.random.default_rng(0)
    streams = dict(bandwidth_constants(read_probes(run, "probe_copy"), cache, source))
    stream = streams.get("dram_read_bytes_per_s")
    memory, families = stream.value if stream else None, families_of(environment)
    for provider, recipe, probes in casts.by_pair(read_probes(run, "probe_math")):

        def of_products(
            chosen: Sequence[Probe], others: Sequence[Probe], recipe: str = recipe
        ) -> NDArray[np.float64]:
            units = environment.compute_units
            return products.judged(recipe, chosen, others, units, memory, families)

        yield _Subject(
            op="gemm",
            recipe=recipe,
            provider=provider,
            probes=probes,
            least=products.LEAST_POINTS,
            judge=of_products,
        )
    for provider, recipe, probes in casts.by_pair(read_probes(run, "probe_cast")):
        yield _Subject(
            op="cast",
            recipe=recipe,
            provider=provider,
            probes=probes,
            least=casts.LEAST_POINTS,
            judge=lambda chosen, others: casts.judged(chosen, others, cache or 0.0),
        )
    machine = mixed.Machine.of(environment, memory)
    for provider, recipe, probes in casts.by_pair(read_probes(run, "probe_mixed_gemm")):
        yield _Subject(
            op="mixed_gemm",
            recipe=recipe,
            provider=provider,
            probes=probes,
            least=mixed.LEAST_POINTS,
            judge=lambda chosen, others: mixed.judged(chosen, others, machine),
        )
