"""How wrong the model of products is on probes left out of its fit, as text.

What to look at before a term is added to the model or dropped: `python -m bench.fit_report RUN`.
Compare runs: a term that pays on the probes of one visit to a card may not on the next.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofcal.calibrate.calibration import cache_bytes, families_of
from roofcal.calibrate.probe_records import read_environment, read_probes
from roofcal.core.devices import DeviceSpec
from roofcal.core.units import format_seconds
from roofcal.fitting.probes import Probe
from roofcal.ops import BY_NAME
from roofcal.ops.cast.fit import by_pair
from roofcal.ops.gemm.fit import left_out
from roofcal.ops.probe_copy.fit import bandwidth_constants

Array = NDArray[np.float64]
_WORST: Final = 5
_NAME: Final = 60  # characters of a kernel's name: the rest are template arguments


def fit_report(run: Path, spec: DeviceSpec | None = None) -> str:
    """Errors by provider, recipe and regime, worst shapes of each, of a run folder's probes.

    spec: the device's datasheet, for the size of its cache. Raises CalibrationError and
    RecordsError as `calibrate` does.
    """
    environment = read_environment(run)
    cache, source = cache_bytes(environment, spec), np.random.default_rng(0)
    streams = dict(bandwidth_constants(read_probes(run, "probe_copy"), cache, source))
    stream = streams.get("dram_read_bytes_per_s")
    lines = [f"{run}: predicted / measured - 1 of products left out of the fit, in %"]
    for provider, recipe, probes in by_pair(read_probes(run, "probe_math")):
        units, memory = environment.compute_units, stream.value if stream else None
        family, residuals = left_out(recipe, probes, units, memory, families_of(environment))
        lines += ["", f"{recipe} by {provider}: {family}", *_recipe(probes, residuals)]
    return "\n".join(lines) + "\n"


def _recipe(probes: Sequence[Probe], residuals: Array) -> Iterator[str]:
    regimes = np.array([BY_NAME[p.point.op].regime(p.shape) for p in probes])
    yield "  regime      count    mape  median     p95    bias"
    for regime in ["all", *sorted(set(regimes.tolist()))]:
        signed = 100 * np.expm1(residuals[(regimes == regime) | (regime == "all")])
        error = np.abs(signed)
        figures = (error.mean(), np.median(error), np.percentile(error, 95), np.median(signed))
        yield f"  {regime:10s}{len(signed):7d}" + "".join(f"{figure:8.1f}" for figure in figures)
    yield f"  worst {_WORST}:"
    for i in np.argsort(-np.abs(residuals))[:_WORST]:
        yield f"    {_shape(probes[i], float(residuals[i]))}"


def _shape(probe: Probe, residual: float) -> str:
    sizes = " x ".join(str(size) for size in probe.shape.values())
    kernels = [name[:_NAME] for name in probe.measurement.kernel_names if name != "memset"]
    measured, factor = probe.latency.median, float(np.exp(residual))
    return (
        f"{sizes}: measured {format_seconds(measured)}, predicted "
        f"{format_seconds(measured * factor)} ({100 * (factor - 1):+.0f} %) {' '.join(kernels)}"
    ).rstrip()
