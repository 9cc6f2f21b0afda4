"""The probe measurements of a run: the only measurements a calibration may see."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from roofcal.model.statistics import Summary, summarise
from roofcal.ops import BY_NAME
from roofcal.records import Environment, Measurement, PlanPoint, read_records


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


def read_environment(run: Path) -> Environment:
    """The environment of a run folder.

    Raises RecordsError for a bad file, CalibrationError for an empty one.
    """
    found = read_records(run / "environment.jsonl", Environment)
    if not found:
        raise CalibrationError(
            f"{run}/environment.jsonl: holds no Environment record; run "
            "`python -m roofcal doctor --write-environment results` on the device's machine"
        )
    return found[0]


def read_probes(run: Path, op: str) -> list[Probe]:
    """Points of a probe op that were measured, [] where the run has none of that op.

    Raises CalibrationError for an op that is no probe: a fit that has seen the points it is judged
    on says nothing. Raises RecordsError for a bad file.
    """
    if BY_NAME[op].role != "probe":
        raise CalibrationError(f"{op} is no probe op; a calibration is fitted on probes alone")
    plan, measured = _file(run, "plan", op), _file(run, "measurements", op)
    if plan is None or measured is None:
        return []
    points = {point.point_id: point for point in read_records(plan, PlanPoint)}
    return [
        Probe(point=points[m.point_id], measurement=m, latency=summarise(m.settled_samples_s))
        for m in read_records(measured, Measurement)
        if m.status == "ok" and m.point_id in points
    ]


def _file(run: Path, kind: str, op: str) -> Path | None:
    for suffix in (".jsonl", ".jsonl.gz"):
        path = run / kind / f"{op}{suffix}"
        if path.is_file():
            return path
    return None
