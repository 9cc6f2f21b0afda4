"""The probe measurements of a run: the only measurements a calibration may see."""

from collections.abc import Mapping
from dataclasses import dataclass

from roofcal.core.records import Measurement, PlanPoint
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
