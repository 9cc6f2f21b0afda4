"""Memory bandwidth from streams: what a long stream reaches, and what stays in the cache reaches.

    t = start + bytes / bandwidth, fitted by relative least squares over sizes

so that the cost of starting does not lower the bandwidth of large buffers. The fastest provider
counts: a ceiling is what the device can do, not what one kernel does.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from roofcal.core.records import Ceiling
from roofcal.fitting.bootstrap import ceiling, interval
from roofcal.fitting.probes import Probe
from roofcal.ops import BY_NAME

_LEAST_SIZES = 3
_LARGE_BYTES = 64 << 20
_CACHES = 4
_CACHE_SHARE = 0.5


def bandwidth_constants(
    probes: Sequence[Probe], cache_bytes: float | None, generator: np.random.Generator
) -> Iterator[tuple[str, Ceiling]]:
    """Bandwidth of read, write and copy, from memory and from the cache.

    dram_<kind>_bytes_per_s from large cold buffers, cache_<kind>_bytes_per_s from hot ones within
    half the cache; each only where a provider has measured three sizes.
    """
    for kind in ("read", "write", "copy"):
        some = [p for p in probes if p.point.recipe == kind]
        cold = [p for p in some if p.point.protocol.cache == "cold"]
        hot = [p for p in some if p.point.protocol.cache == "hot"]
        cached = [p for p in hot if cache_bytes and _touched(p) <= _CACHE_SHARE * cache_bytes]
        for name, members in (("dram", _large(cold, cache_bytes)), ("cache", cached)):
            found = _fastest(members, generator)
            if found is not None:
                yield f"{name}_{kind}_bytes_per_s", found


def _large(cold: Sequence[Probe], cache_bytes: float | None) -> list[Probe]:
    """Buffers of 64 MiB and four times the cache and more, but the three largest sizes at least.

    A cold buffer comes from memory whatever its size: its copies rotate through more than the
    cache. Size is asked for because a long stream hides its start better; a CPU with 480 MiB of
    cache has no probe that long.
    """
    sizes = sorted({_size(probe) for probe in cold})
    wanted = max(_LARGE_BYTES, _CACHES * (cache_bytes or 0))
    least = min([wanted, *sizes[-_LEAST_SIZES:]])
    return [probe for probe in cold if _size(probe) >= least]


def _size(probe: Probe) -> int:
    return probe.shape["size_bytes"]


def _touched(probe: Probe) -> float:
    """Bytes of cache the stream occupies: source and destination."""
    return _size(probe) * (2 if probe.point.recipe == "copy" else 1)


def _fastest(probes: Sequence[Probe], generator: np.random.Generator) -> Ceiling | None:
    by_provider: dict[str, list[Probe]] = {}
    for probe in probes:
        by_provider.setdefault(probe.point.provider, []).append(probe)
    fits = [
        _fit(name, members, generator)
        for name, members in by_provider.items()
        if len(members) >= _LEAST_SIZES
    ]
    return max(fits, key=lambda fit: fit.value, default=None)


def _fit(provider: str, probes: Sequence[Probe], generator: np.random.Generator) -> Ceiling:
    work = BY_NAME["probe_copy"].work
    moved = np.array([work(p.point.recipe, p.shape).dram_bytes for p in probes])
    seconds = np.array([p.latency.median for p in probes])

    def slope(index: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.array(_bandwidth(moved[index], seconds[index]))

    low, high = interval(len(probes), slope, generator)
    value = _bandwidth(moved, seconds)
    evidence = f"probe_copy, provider {provider}, {len(probes)} sizes"
    return ceiling(value, float(low), float(high), "B/s", evidence)


def _bandwidth(moved: NDArray[np.float64], seconds: NDArray[np.float64]) -> float:
    """1 / slope of seconds over bytes, residuals relative to seconds; the start is not negative."""
    weights = 1 / seconds
    columns = np.stack([weights, moved * weights], axis=1)
    start, slope = np.linalg.lstsq(columns, np.ones_like(seconds), rcond=None)[0]
    if start < 0 or slope <= 0:
        ratio = moved * weights
        slope = float(ratio.sum() / (ratio**2).sum())
    return float(1 / slope)
