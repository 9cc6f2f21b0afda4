"""Latency and rate of collectives and peer copies per world size.

The equation is that of the model beside, fitted over sizes by relative least squares, neither
constant below zero. Constants are `link.<collective>.<world size>.bytes_per_s` and `.latency_s`;
those of symmetric memory have `_symm_mem` behind the collective. A peer copy, which symmetric
memory alone has, is `send`.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from scipy.optimize import nnls

from roofcal.core.records import Ceiling
from roofcal.core.times import Array
from roofcal.fitting.bootstrap import Index, ceiling, interval
from roofcal.fitting.probes import Device, Fitted, Probe
from roofcal.ops.probe_link.model import COLLECTIVES, share

_LEAST_SIZES: Final = 3
# As calls follow each other in a captured model; on a CPU, where nothing is captured, by the clock.
_METHODS: Final = ("graph", "wall")


def fit(probes: Sequence[Probe], device: Device, generator: np.random.Generator) -> Fitted:
    """Rate and latency wherever one method has measured three sizes; graph before wall."""
    fitted = Fitted()
    groups: dict[tuple[str, str, int], list[Probe]] = {}
    for probe in probes:
        point = probe.point
        groups.setdefault((point.recipe, point.provider, point.world_size), []).append(probe)
    for (recipe, provider, world_size), group in sorted(groups.items(), key=lambda item: item[0]):
        members = _by_first_method(group)
        if members:
            collective = COLLECTIVES[recipe]
            by_symm_mem = provider == "symm_mem" and collective != "send"
            name = f"{collective}_symm_mem" if by_symm_mem else collective
            constants = _rate_and_latency(members, share(collective, world_size), generator)
            for kind, constant in constants:
                fitted.constants[f"link.{name}.{world_size}.{kind}"] = constant
    return fitted


def _by_first_method(probes: Sequence[Probe]) -> list[Probe]:
    """Those of the first method that has measured enough sizes; [] where none has."""
    for method in _METHODS:
        members = [probe for probe in probes if probe.point.protocol.method == method]
        if len({_size_bytes(probe) for probe in members}) >= _LEAST_SIZES:
            return members
    return []


def _size_bytes(probe: Probe) -> int:
    return probe.shape["size_bytes"]


def _rate_and_latency(
    probes: Sequence[Probe], link_share: float, generator: np.random.Generator
) -> Iterator[tuple[str, Ceiling]]:
    moved = np.array([link_share * _size_bytes(p) for p in probes])
    seconds = np.array([p.latency.median for p in probes])

    def resampled_line(index: Index) -> Array:
        return np.array(_fitted_line(moved[index], seconds[index]))

    low, high = interval(len(probes), resampled_line, generator)
    provider, method = probes[0].point.provider, probes[0].point.protocol.method
    sizes = len({_size_bytes(probe) for probe in probes})
    evidence = f"probe_link, provider {provider}, method {method}, {sizes} sizes"
    rate, latency = _fitted_line(moved, seconds)
    yield "bytes_per_s", ceiling(rate, low[0], high[0], "B/s", evidence)
    yield "latency_s", ceiling(latency, low[1], high[1], "s", evidence)


def _fitted_line(moved: Array, seconds: Array) -> tuple[float, float]:
    """(rate, latency) of seconds = latency + moved / rate, residuals relative to seconds.

    Where time does not grow with size (a few small ones drawn by the bootstrap) the rate is the
    highest that was seen.
    """
    scale = moved.max()
    columns = np.stack([1 / seconds, moved / scale / seconds], axis=1)
    (latency, slope), _ = nnls(columns, np.ones_like(seconds))
    highest_rate = float((moved / seconds).max())
    return (float(scale / slope) if slope > 0 else highest_rate), float(latency)
