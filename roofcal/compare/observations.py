"""A run as compare reads it: the status of every point, and its time and clock by turn.

Samples within a turn are not independent: they share the clock that the card had in those 20 ms
(on an H200 at its power limit turns of one point lie 2 % apart, the samples of one turn 0.3 %). So
the turn is the unit. The time of a turn is the trimmed mean of the logarithms of its samples, the
time of a point is the mean over its settled turns, and its variance comes from the differences
between turns. It is a mean because at the power limit samples have several modes, between which a
median jumps; it is trimmed because of hiccups.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from roofcal.core.jsonl import read_records, read_single_record
from roofcal.core.paths import RunFolder
from roofcal.core.records import Environment, Measurement, PlanPoint, Session
from roofcal.core.regimes import gemm_regime
from roofcal.ops import OPS

_TRIMMED: Final = 0.1  # of the samples of a turn, at either end
_LIMITED: Final = 0.97  # below this share of the run's highest clock something limits the clock


class CompareError(ValueError):
    """A folder that cannot be compared; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One point of one run. Logarithms are natural ones of seconds and of Hz.

    key           equal for the same point on any device, in any environment
    log_turns_s   per settled turn, its trimmed mean; empty where the point has no time
    log_clock_hz  the mean reading of the SM clock in settled turns; None without a reading
    clock_error   standard error of that, a fraction
    median_s      of all settled samples, as the report shows it
    """

    key: str
    point: PlanPoint
    status: str
    log_turns_s: tuple[float, ...] = ()
    log_clock_hz: float | None = None
    clock_error: float = 0.0
    median_s: float | None = None
    kernel_names: tuple[str, ...] = ()

    @property
    def mean(self) -> float:
        """The mean over the turns."""
        return float(np.mean(self.log_turns_s))

    @property
    def squares(self) -> float:
        """Sum of squared differences of the turns from their mean."""
        return float(((np.asarray(self.log_turns_s) - self.mean) ** 2).sum())


@dataclass(frozen=True, kw_only=True)
class ObservedRun:
    """A run: its environment and its observations by key, in the order of its plans."""

    folder: Path
    environment: Environment
    points: dict[str, Observation]
    cards: tuple[str, ...] = ()

    @cached_property
    def highest_log_clock(self) -> float | None:
        """The highest clock of any point; None where no clock was read."""
        clocks = (observation.log_clock_hz for observation in self.points.values())
        return max((clock for clock in clocks if clock), default=None)

    def is_limited(self, observation: Observation) -> bool:
        """Whether the card ran clearly below its highest clock."""
        highest, own = self.highest_log_clock, observation.log_clock_hz
        return highest is not None and own is not None and own < highest + np.log(_LIMITED)


def observe(run: RunFolder) -> ObservedRun:
    """Read a run folder, measured here or published.

    Raises CompareError for a folder that is no run, RecordsError for a bad file.
    """
    environment = read_single_record(run.environment_file, Environment)
    points: dict[str, Observation] = {}
    cards: set[str] = set()
    for op in OPS:
        plan, measured = run.plan_file(op.name), run.measurements_file(op.name)
        if plan.is_file() and measured.is_file():
            rows = read_records(measured, Session, Measurement)
            cards |= {card for r in rows if isinstance(r, Session) for card in r.cards}
            observations = _observations(read_records(plan, PlanPoint), rows)
            points |= {observation.key: observation for observation in observations}
    if not points:
        raise CompareError(f"{run.folder}: holds no measurement of any op; finish the study first")
    return ObservedRun(
        folder=run.folder, environment=environment, points=points, cards=tuple(sorted(cards))
    )


def _observations(
    plan: Sequence[PlanPoint], rows: Sequence[Session | Measurement]
) -> Iterator[Observation]:
    measured = {row.point_id: row for row in rows if isinstance(row, Measurement)}
    for point in plan:
        row = measured.get(point.point_id)
        if row is not None:
            yield observation(point, row)


def observation(point: PlanPoint, row: Measurement) -> Observation:
    """The time and the clock of a point by its measurement."""
    key = replace(point, device="").point_id  # point_id names the device, not the environment
    settled = row.settled_samples_s
    if row.status != "ok" or not settled:
        return Observation(key=key, point=point, status=row.status)
    clocks = _clocks(row)
    return Observation(
        key=key,
        point=point,
        status=row.status,
        log_turns_s=tuple(_trimmed_log(turn) for turn in settled_turns(row)),
        log_clock_hz=float(np.log(np.mean(clocks))) if clocks else None,
        clock_error=_relative_error(clocks),
        median_s=float(np.median(settled)),
        kernel_names=row.kernel_names,
    )


def _trimmed_log(samples: Sequence[float]) -> float:
    """Mean of the logarithms without the lowest and the highest tenth."""
    ordered = np.sort(np.log(samples))
    cut = int(len(ordered) * _TRIMMED)
    return float(ordered[cut : len(ordered) - cut].mean())


def settled_turns(row: Measurement) -> list[tuple[float, ...]]:
    """The settled samples by turn; as one turn where the record does not say where one starts."""
    starts = [start for start in row.slice_starts if start >= row.warmup_samples]
    if not starts or starts[0] != row.warmup_samples:
        starts = [row.warmup_samples, *starts]
    ends = pairwise([*starts, len(row.latency_samples_s)])
    return [row.latency_samples_s[a:b] for a, b in ends if b > a]


def _clocks(row: Measurement) -> list[float]:
    telemetry = row.telemetry
    pairs = zip(telemetry.sample_index, telemetry.sm_clock_hz, strict=False)
    return [clock for index, clock in pairs if index >= row.warmup_samples and clock > 0]


def _relative_error(clocks: Sequence[float]) -> float:
    if len(clocks) < 2:
        return 0.0
    return float(np.std(clocks, ddof=1) / np.sqrt(len(clocks)) / np.mean(clocks))


def drift_regime(run: ObservedRun, observation: Observation) -> str:
    """Points of one such regime drift together: that of the shape, and if the clock was limited."""
    shape = observation.point.shape
    if {"m", "n", "k"} <= set(shape):
        name = gemm_regime(shape["m"], shape["n"], shape["k"])
    else:
        name = observation.point.protocol.cache
    return f"{name}, clock limited" if run.is_limited(observation) else name
