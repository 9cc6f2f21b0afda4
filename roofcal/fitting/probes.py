"""What a fit reads: probe measurements, and what is known of the device that was measured."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from roofcal.core.priors import Prior
from roofcal.core.records import Ceiling, Environment, Measurement, PlanPoint
from roofcal.core.statistics import Summary


class CalibrationError(ValueError):
    """Probes that are missing or too few; the message names them and the way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A probe point that was measured, and the median of its settled samples in seconds."""

    point: PlanPoint
    measurement: Measurement
    latency: Summary

    @property
    def shape(self) -> Mapping[str, int]:
        """Its sizes."""
        return self.point.shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What a fit may use besides the probes of its own op.

    cache_bytes  size of the last-level cache, None where neither machine nor datasheet states it
    constants    constants that were fitted before: ops are fitted in the order of roofcal.ops.OPS
    priors       (provider, recipe) -> what other cards say of the op's constants
    """

    environment: Environment
    cache_bytes: float | None = None
    constants: Mapping[str, Ceiling] = field(default_factory=dict)
    priors: Mapping[tuple[str, str], Prior] = field(default_factory=dict)

    @property
    def compute_units(self) -> int:
        """Multiprocessors of a GPU, cores of a CPU."""
        return self.environment.compute_units

    @property
    def is_cpu(self) -> bool:
        """Whether it is a processor, whose libraries cut no tiles for multiprocessors."""
        return self.environment.vendor == "cpu"

    @property
    def stream_bytes_per_s(self) -> float | None:
        """Bandwidth at which streams read memory; None where none was measured."""
        stream = self.constants.get("dram_read_bytes_per_s")
        return stream.value if stream else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The result of fitting the probes of one op.

    constants  name in the calibration -> value with interval
    errors     "<op>.<provider>.<recipe>" -> errors on probes that were left out of the fit
    """

    constants: dict[str, Ceiling] = field(default_factory=dict)
    errors: dict[str, dict[str, float]] = field(default_factory=dict)


class FitPart(Protocol):
    """The module `fit.py` of an op.

    One whose families are chosen by cross-validation also has `PROBLEM`, a kind of
    roofcal.fitting.cross_validation.Problem; with it the op has learning curves.
    """

    def fit(
        self, probes: Sequence[Probe], device: Device, generator: np.random.Generator, /
    ) -> Fitted:
        """The constants that the probes of the op tell of; no probes, no constants."""
        ...


def by_provider_and_recipe(probes: Sequence[Probe]) -> Iterator[tuple[str, str, list[Probe]]]:
    """(provider, recipe, its probes) in the order of their names."""
    for provider, recipe in sorted({(p.point.provider, p.point.recipe) for p in probes}):
        members = [p for p in probes if (p.point.provider, p.point.recipe) == (provider, recipe)]
        yield provider, recipe, members
