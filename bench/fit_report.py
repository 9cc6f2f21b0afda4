"""Print how wrong the calibrated model is on probes left out of its fit: a run folder per argument.

python -m bench.fit_report results/nvidia-h200/<environment> reports/published/nvidia-h200/<...>

What to look at before a term is added to a model or dropped. Compare runs: a term that pays on the
probes of one visit to a card may not on the next.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from roofcal.calibrate import cross_validated_ops
from roofcal.core.devices import DeviceSpec, load_devices
from roofcal.core.names import short_kernel_name
from roofcal.core.times import Array
from roofcal.core.units import format_seconds
from roofcal.fitting.cross_validation import choose_families, judging_families, problems_of
from roofcal.fitting.probes import Probe
from roofcal.ops.spec import OpSpec

_WORST: Final = 5


def fit_report(run: Path, spec: DeviceSpec | None = None) -> str:
    """Errors by op, provider, recipe and regime, worst shapes of each, of a run folder's probes.

    spec: the device's datasheet, for the size of its cache. Raises CalibrationError and
    RecordsError as `calibrate` does.
    """
    lines = [f"{run}: predicted / measured - 1 of probes left out of the fit, in %"]
    for op, kind, device, probes in cross_validated_ops(run, spec):
        for problem in problems_of(kind, probes, device):
            (place,), errors = choose_families(problem, np.ones((1, len(problem.probes))))
            judges, family = judging_families(problem, errors), problem.families[place]
            log_errors = errors[judges, 0, np.arange(len(judges))]
            for recipe in dict.fromkeys(probe.point.recipe for probe in problem.probes):
                own = [i for i, p in enumerate(problem.probes) if p.point.recipe == recipe]
                lines += ["", f"{op.folder} {recipe} by {problem.provider}: {family}"]
                lines += _error_lines(op, [problem.probes[i] for i in own], log_errors[own])
    return "\n".join(lines) + "\n"


def _error_lines(op: OpSpec, probes: Sequence[Probe], log_errors: Array) -> Iterator[str]:
    regimes = np.array([op.regime(probe.shape) for probe in probes])
    yield "  regime      count    mape  median     p95    bias"
    for regime in ["all", *sorted(set(regimes.tolist()))]:
        signed = 100 * np.expm1(log_errors[(regimes == regime) | (regime == "all")])
        error = np.abs(signed)
        figures = (error.mean(), np.median(error), np.percentile(error, 95), np.median(signed))
        yield f"  {regime:10s}{len(signed):7d}" + "".join(f"{figure:8.1f}" for figure in figures)
    yield f"  worst {_WORST}:"
    for i in np.argsort(-np.abs(log_errors))[:_WORST]:
        yield f"    {_shape_line(probes[i], float(log_errors[i]))}"


def _shape_line(probe: Probe, log_error: float) -> str:
    sizes = " x ".join(str(size) for size in probe.shape.values())
    names = probe.measurement.kernel_names
    kernels = [short_kernel_name(name) for name in names if name != "memset"]
    measured, factor = probe.latency.median, float(np.exp(log_error))
    return (
        f"{sizes}: measured {format_seconds(measured)}, predicted "
        f"{format_seconds(measured * factor)} ({100 * (factor - 1):+.0f} %) {' '.join(kernels)}"
    ).rstrip()


def main(folders: list[str]) -> None:
    """Write the report of each run folder to the standard output."""
    specs = load_devices(Path("config/devices"))
    for folder in map(Path, folders):
        sys.stdout.write(fit_report(folder, specs.get(folder.resolve().parent.name)))


if __name__ == "__main__":
    main(sys.argv[1:])
