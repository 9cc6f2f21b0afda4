"""Clock and power of the device while large products run on it: what its limits leave."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from roofcal.core.records import Ceiling
from roofcal.fitting.bootstrap import Array, ceiling, interval
from roofcal.fitting.probes import Probe

_LONG_S = 1e-4
_LEAST = 3
_FIELDS = {"sm_clock_hz": ("sustained_sm_clock_hz", "Hz"), "power_w": ("sustained_power_w", "W")}


def sustained_constants(
    probes: Sequence[Probe], generator: np.random.Generator
) -> Iterator[tuple[str, Ceiling]]:
    """Median SM clock and power over products of 100 us and more; nothing where no sensor spoke."""
    long = [p for p in probes if p.latency.median >= _LONG_S]
    for name, (constant, unit) in _FIELDS.items():
        values = np.array([v for p in long if (v := _settled(p, name)) is not None])
        if len(values) < _LEAST:
            continue

        def of_some(index: NDArray[np.int64], values: NDArray[np.float64] = values) -> Array:
            return np.asarray(np.median(values[index]))

        low, high = interval(len(values), of_some, generator)
        evidence = f"probe_math, {len(values)} products of 100 us and more"
        yield constant, ceiling(float(np.median(values)), float(low), float(high), unit, evidence)


def _settled(probe: Probe, name: str) -> float | None:
    """Median reading since the clock settled, None without one."""
    telemetry = probe.measurement.telemetry
    readings = [
        value
        for index, value in zip(telemetry.sample_index, getattr(telemetry, name), strict=True)
        if index >= probe.measurement.warmup_samples
    ]
    return float(np.median(readings)) if readings else None
