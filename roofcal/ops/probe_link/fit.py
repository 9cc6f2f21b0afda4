"""Latency and rate of collectives and peer copies per world size.

The equation is that of the model beside, fitted over sizes by relative least squares, neither
constant below zero. Libraries change their protocol with the size, which a line does not follow, so
the interval of a constant is what transfers need: the half-width of the errors on sizes left out
(roofcal.fitting.intervals), of those with the latency for half of their time and more for the
latency, of the others for the rate.

Constants are `link.<collective>.<world size>.bytes_per_s` and `.latency_s`; those of symmetric
memory have `_symm_mem` behind the collective. A peer copy, which symmetric memory alone has, is
`send`.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from scipy.optimize import nnls

from roofcal.core.portable_math import exp, log
from roofcal.core.times import Array
from roofcal.fitting.intervals import Errors, Index, ceiling, half_widths, interval
from roofcal.fitting.probes import Device, Fitted, Probe
from roofcal.ops.probe_link.model import COLLECTIVES, METHODS, share

_LEAST_SIZES: Final = 3
_UNITS: Final = {"bytes_per_s": "B/s", "latency_s": "s"}
_MOSTLY_RATE, _MOSTLY_LATENCY = _UNITS


class _MeasuredLine(NamedTuple):
    """The transfers of one line, of several sizes: bytes over a device's link, and seconds.

    name: as in `link.<name>.*`
    """

    name: str
    provider: str
    moved: Array
    seconds: Array
    evidence: str


def fit(probes: Sequence[Probe], device: Device, generator: np.random.Generator) -> Fitted:
    """Rate and latency wherever one method has measured three sizes; graph before wall.

    An interval holds that of resampled sizes, which is wider for exact lines.
    """
    fitted, lines = Fitted(), list(_measured_lines(probes))
    widths = half_widths("link", map(_left_out_errors, lines))
    for line in lines:
        moved, seconds = line.moved, line.seconds

        def resampled_line(index: Index, moved: Array = moved, seconds: Array = seconds) -> Array:
            return np.array(_fitted_line(moved[index], seconds[index]))

        low, high = interval(len(moved), resampled_line, generator)
        own, values = widths[f"link.{line.provider}.{line.name}"], _fitted_line(moved, seconds)
        factors = exp(np.array([own.get(f"log_p95_{kind}", own["log_p95"]) for kind in _UNITS]))
        for i, (kind, unit) in enumerate(_UNITS.items()):
            ends = min(low[i], values[i] / factors[i]), max(high[i], values[i] * factors[i])
            constant = ceiling(values[i], *ends, unit, line.evidence)
            fitted.constants[f"link.{line.name}.{kind}"] = constant
    return fitted


def _measured_lines(probes: Sequence[Probe]) -> Iterator[_MeasuredLine]:
    """By the first method that has measured enough sizes of a collective."""
    groups: dict[tuple[str, str, int], list[Probe]] = {}
    for probe in probes:
        point = probe.point
        groups.setdefault((point.recipe, point.provider, point.world_size), []).append(probe)
    for (recipe, provider, world_size), group in sorted(groups.items(), key=lambda item: item[0]):
        collective = COLLECTIVES[recipe]
        by_symm_mem = "_symm_mem" if provider == "symm_mem" and collective != "send" else ""
        for method in METHODS:
            members = [probe for probe in group if probe.point.protocol.method == method]
            sizes = [probe.shape["size_bytes"] for probe in members]
            if len(set(sizes)) >= _LEAST_SIZES:
                yield _MeasuredLine(
                    name=f"{collective}{by_symm_mem}.{world_size}",
                    provider=provider,
                    moved=share(collective, world_size) * np.array(sizes),
                    seconds=np.array([probe.latency.median for probe in members]),
                    evidence=f"probe_link, provider {provider}, method {method}, "
                    f"{len(set(sizes))} sizes",
                )
                break


def _left_out_errors(line: _MeasuredLine) -> Errors:
    """log(predicted / measured) of every transfer by a line through the others.

    Its group is the constant that most of its time comes from.
    """
    moved, seconds = line.moved, line.seconds
    errors = np.empty(len(moved))
    for left_out in range(len(moved)):
        others = np.arange(len(moved)) != left_out
        rate, latency = _fitted_line(moved[others], seconds[others])
        errors[left_out] = log((latency + moved[left_out] / rate) / seconds[left_out])
    rate, latency = _fitted_line(moved, seconds)
    groups = np.where(latency >= moved / rate, _MOSTLY_LATENCY, _MOSTLY_RATE).tolist()
    return line.provider, line.name, groups, errors


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
