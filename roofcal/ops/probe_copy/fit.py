"""Memory bandwidth from streams: what a long stream reaches, and what stays in the cache reaches.

    t = start + bytes / bandwidth, fitted by relative least squares over sizes

so that the cost of starting does not lower the bandwidth of large buffers. The fastest provider
counts: a ceiling is what the device can do, not what one kernel does.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from roofcal.core.records import Ceiling
from roofcal.core.times import Array
from roofcal.fitting.intervals import Index, ceiling, exact, interval
from roofcal.fitting.probes import Device, Fitted, Probe
from roofcal.ops.probe_copy.spec import OP

_LEAST_SIZES: Final = 3
_LARGE_BYTES: Final = 64 << 20
_CACHES: Final = 4
_CACHE_SHARE: Final = 0.5


def fit(probes: Sequence[Probe], device: Device, generator: np.random.Generator) -> Fitted:
    """Bandwidth of read, write and copy, from memory and from the cache, and the cache's size.

    dram_<kind>_bytes_per_s from large cold buffers, cache_<kind>_bytes_per_s from hot ones within
    half the cache; each only where a provider has measured three sizes.
    """
    fitted = Fitted()
    cache_bytes = device.cache_bytes
    for kind in OP.recipes:
        streams = [probe for probe in probes if probe.point.recipe == kind]
        cold = [probe for probe in streams if probe.point.protocol.cache == "cold"]
        hot = [probe for probe in streams if probe.point.protocol.cache == "hot"]
        buffers = 2 if kind == "copy" else 1  # that occupy the cache: source and destination
        most_bytes = _CACHE_SHARE * (cache_bytes or 0) / buffers
        cached = [probe for probe in hot if probe.shape["size_bytes"] <= most_bytes]
        for name, members in (("dram", _large_buffers(cold, cache_bytes)), ("cache", cached)):
            fastest = _fastest_provider(members, generator)
            if fastest is not None:
                fitted.constants[f"{name}_{kind}_bytes_per_s"] = fastest
    if cache_bytes:
        fitted.constants["cache_bytes"] = exact(cache_bytes, "B", "environment or datasheet")
    return fitted


def _large_buffers(cold: Sequence[Probe], cache_bytes: float | None) -> list[Probe]:
    """Buffers of 64 MiB and four times the cache and more, but the three largest sizes at least.

    A cold buffer comes from memory whatever its size: its copies rotate through more than the
    cache. A long stream hides its start better; a CPU with 480 MiB of cache has no probe that long.
    """
    sizes = sorted({probe.shape["size_bytes"] for probe in cold})
    long_bytes = max(_LARGE_BYTES, _CACHES * (cache_bytes or 0))
    least_bytes = min([long_bytes, *sizes[-_LEAST_SIZES:]])
    return [probe for probe in cold if probe.shape["size_bytes"] >= least_bytes]


def _fastest_provider(probes: Sequence[Probe], generator: np.random.Generator) -> Ceiling | None:
    by_provider: dict[str, list[Probe]] = {}
    for probe in probes:
        by_provider.setdefault(probe.point.provider, []).append(probe)
    bandwidths = []
    for provider, members in by_provider.items():
        if len(members) < _LEAST_SIZES:
            continue
        moved = np.array([OP.work(p.point.recipe, p.shape).dram_bytes for p in members])
        seconds = np.array([p.latency.median for p in members])

        def resampled(index: Index, moved: Array = moved, seconds: Array = seconds) -> Array:
            return np.array(_fitted_bandwidth(moved[index], seconds[index]))

        low, high = interval(len(members), resampled, generator)
        evidence = f"probe_copy, provider {provider}, {len(members)} sizes"
        value = _fitted_bandwidth(moved, seconds)
        bandwidths.append(ceiling(value, float(low), float(high), "B/s", evidence))
    return max(bandwidths, key=lambda bandwidth: bandwidth.value, default=None)


def _fitted_bandwidth(moved: Array, seconds: Array) -> float:
    """1 / slope of seconds over bytes, residuals relative to seconds; the start is not negative."""
    weights = 1 / seconds
    columns = np.stack([weights, moved * weights], axis=1)
    start, slope = np.linalg.lstsq(columns, np.ones_like(seconds), rcond=None)[0]
    if start < 0 or slope <= 0:
        ratio = moved * weights
        slope = float(ratio.sum() / (ratio**2).sum())
    return float(1 / slope)
