"""Latency and rate of collectives and peer copies per world size.

The equation is that of the model beside, fitted over sizes by relative least squares, neither
constant below zero. Libraries change their protocol with the size, which a line does not follow, so
the interval of a constant is what transfers need: the half-width of the errors on sizes left out
(roofcal.fitting.conformal), of those with the latency for half of their time and more for the
latency, of the others for the rate.

Constants are `link.<collective>.<world size>.bytes_per_s` and `.latency_s`; those of symmetric
memory have `_symm_mem` behind the collective. A peer copy, which symmetric memory alone has, is
`send`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.optimize import nnls

from roofcal.core.portable_math import exp, log
from roofcal.core.records import Ceiling
from roofcal.core.times import Array
from roofcal.fitting.bootstrap import Index, ceiling, interval
from roofcal.fitting.conformal import half_widths
from roofcal.fitting.probes import Device, Fitted, Probe
from roofcal.ops.probe_link.model import COLLECTIVES, share

_LEAST_SIZES: Final = 3
# As calls follow each other in a captured model; on a CPU, where nothing is captured, by the clock.
_METHODS: Final = ("graph", "wall")
_CONSTANTS: Final = ("bytes_per_s", "latency_s")
_MOSTLY_RATE, _MOSTLY_LATENCY = _CONSTANTS


@dataclass(frozen=True, slots=True, kw_only=True)
class _MeasuredLine:
    """The transfers of one line, of several sizes; name: as in `link.<name>.*`."""

    name: str
    probes: Sequence[Probe]
    link_share: float

    @property
    def moved(self) -> Array:
        """Bytes over a device's link, [probes]."""
        return np.array([self.link_share * _size_bytes(probe) for probe in self.probes])

    @property
    def seconds(self) -> Array:
        """Measured medians, [probes]."""
        return np.array([probe.latency.median for probe in self.probes])

    @property
    def provider(self) -> str:
        """Whose transfers they are."""
        return self.probes[0].point.provider

    def log_errors(self) -> Array:
        """log(predicted / measured) of every transfer by a line through the others, [probes]."""
        moved, seconds = self.moved, self.seconds
        errors = np.empty(len(moved))
        for left_out in range(len(moved)):
            others = np.arange(len(moved)) != left_out
            rate, latency = _fitted_line(moved[others], seconds[others])
            errors[left_out] = log((latency + moved[left_out] / rate) / seconds[left_out])
        return errors


def fit(probes: Sequence[Probe], device: Device, generator: np.random.Generator) -> Fitted:
    """Rate and latency wherever one method has measured three sizes; graph before wall."""
    lines = list(_measured_lines(probes))
    factors = _interval_factors(lines)
    return Fitted(
        constants={
            f"link.{line.name}.{kind}": constant
            for line in lines
            for kind, constant in _rate_and_latency(line, factors[line.name], generator)
        }
    )


def _measured_lines(probes: Sequence[Probe]) -> Iterator[_MeasuredLine]:
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
            yield _MeasuredLine(
                name=f"{name}.{world_size}",
                probes=members,
                link_share=share(collective, world_size),
            )


def _interval_factors(lines: Sequence[_MeasuredLine]) -> dict[str, dict[str, float]]:
    """Line -> constant -> factor of its interval to either side."""
    errors = []
    for line in lines:
        rate, latency = _fitted_line(line.moved, line.seconds)
        groups = np.where(latency >= line.moved / rate, _MOSTLY_LATENCY, _MOSTLY_RATE).tolist()
        errors.append((line.provider, line.name, groups, line.log_errors()))
    widths = half_widths("link", errors)
    factors: dict[str, dict[str, float]] = {}
    for line in lines:
        own = widths[f"link.{line.provider}.{line.name}"]
        logs = np.array([own.get(f"log_p95_{kind}", own["log_p95"]) for kind in _CONSTANTS])
        factors[line.name] = dict(zip(_CONSTANTS, exp(logs).tolist(), strict=True))
    return factors


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
    line: _MeasuredLine, factors: Mapping[str, float], generator: np.random.Generator
) -> Iterator[tuple[str, Ceiling]]:
    """The constants; an interval holds that of resampled sizes, which is wider for exact lines."""
    probes, moved, seconds = line.probes, line.moved, line.seconds

    def resampled_line(index: Index) -> Array:
        return np.array(_fitted_line(moved[index], seconds[index]))

    low, high = interval(len(probes), resampled_line, generator)
    provider, method = probes[0].point.provider, probes[0].point.protocol.method
    sizes = len({_size_bytes(probe) for probe in probes})
    evidence = f"probe_link, provider {provider}, method {method}, {sizes} sizes"
    values, units = _fitted_line(moved, seconds), ("B/s", "s")
    for i, (kind, value, unit) in enumerate(zip(_CONSTANTS, values, units, strict=True)):
        ends = min(low[i], value / factors[kind]), max(high[i], value * factors[kind])
        yield kind, ceiling(value, *ends, unit, evidence)


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
