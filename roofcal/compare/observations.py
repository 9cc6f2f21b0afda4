"""A run as compare reads it: the status of every point, and its time and clock by turn.

The unit is the visit, or the turn of a point that was visited once: docs/method.md says why.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import numpy as np

from roofcal.core.jsonl import read_single_record
from roofcal.core.paths import RunFolder
from roofcal.core.records import Environment, PlanPoint
from roofcal.core.times import Array
from roofcal.core.visits.intervals import PointInterval
from roofcal.ops import OPS
from roofcal.ops.regimes import gemm_regime
from roofcal.points.columns import Column, declared
from roofcal.points.reader import NOT_REACHED, Points, SeenPoint, read_points, with_intervals

_TRIMMED: Final = 0.1  # of the samples of a turn, at either end
# Of a CPU: other processes take it away from more than a tenth of the samples of some turns. Two of
# 280 points of one CPU, with equal medians under two releases of torch, were called 19 % slower and
# 16 % faster by their trimmed means.
_TRIMMED_OF_CPU: Final = 0.25
# At the power limit, products that take longer agree better with themselves: visits of an H200
# scatter by 0.5 instead of 1.0 %, and another session moved them by 0.2 instead of 2 %. Of 92
# products that were measured again, 3 moved where both were in one group. None moves apart, with
# any limit from 0.5 to 10 ms.
_LONG_S: Final = 3e-3
NOT_MEASURED: Final = "not measured"  # the status of a planned point without a row
_LIMITED: Final = 0.97  # below this share of the run's highest clock something limits the clock


class CompareError(ValueError):
    """A folder that cannot be compared; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One point of one run. Logarithms are natural ones of seconds and of Hz.

    key           equal for the same point on any device, in any environment
    log_turns_s   per settled turn, its trimmed mean (of a CPU, that of the middle half of its
                  samples); of a point that was visited several times, the
                  mean over the turns of each visit; empty where the point has no time
    turn_variance variance of the mean of one visit as the scatter of its turns shows it, with its
                  degrees of freedom; 0 and 0 of a point whose units are turns
    log_clock_hz  the mean reading of the SM clock in settled turns; None without a reading
    clock_error   standard error of that, a fraction
    time          median in s and its interval, the numbers of the tidy tables; None without a time
    """

    key: str
    point: PlanPoint
    status: str
    log_turns_s: tuple[float, ...] = ()
    turn_variance: float = 0.0
    turn_degrees: int = 0
    log_clock_hz: float | None = None
    clock_error: float = 0.0
    time: PointInterval | None = None
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
    """A run: its environment and its observations by key, of every point that it plans.

    A planned point without a row has status NOT_MEASURED, unless the run has no samples at all.
    """

    folder: Path
    environment: Environment
    points: dict[str, Observation]
    cards: tuple[str, ...] = ()

    @property
    def measured(self) -> list[Observation]:
        """The observations that have a row, whatever it says."""
        return [o for o in self.points.values() if o.status != NOT_MEASURED]

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

    A publication that is without its samples, as a wheel carries it, has no points. Raises
    CompareError for a folder that is no run, RecordsError for a bad file.
    """
    environment = read_single_record(run.environment_file, Environment)
    points: dict[str, Observation] = {}
    cards: set[str] = set()
    for op in OPS if run.measured_ops() else ():
        of_op = read_points(run, op.name, COLUMNS)
        cards |= {card for session in of_op.sessions for card in session.cards}
        # measured ones first, because lists of what differs are in the order of points
        observed = sorted(observations(of_op), key=lambda o: o.status == NOT_MEASURED)
        points |= {observation.key: observation for observation in observed}
    observed_run = ObservedRun(
        folder=run.folder, environment=environment, points=points, cards=tuple(sorted(cards))
    )
    if not observed_run.measured and not run.calibration_file.is_file():
        raise CompareError(f"{run.folder}: holds no measurement of any op; finish the study first")
    return observed_run


def in_both(a: ObservedRun, b: ObservedRun) -> Iterator[tuple[Observation, Observation]]:
    """The observations of each point that both runs plan."""
    return ((x, b.points[key]) for key, x in a.points.items() if key in b.points)


def observations(points: Points) -> list[Observation]:
    """What COLUMNS say of the points of one op; of a point without a time its status alone."""
    table = with_intervals(points.table, points.sessions, of_sentinels=False)
    observed = []
    for row in table.to_dict("records"):
        point: PlanPoint = row["point"]
        timed = {"time": row["interval"], "kernel_names": row["kernels"]}
        observed.append(
            Observation(
                # What point_id names, but the device: a hash of each would take 0.1 s of a run.
                key=f"{point.group_key},{point.recipe},{point.provider}",
                point=point,
                status=NOT_MEASURED if row["status"] == NOT_REACHED else row["status"],
                **(timed | row["scatter"] | row["clock"] if row["interval"] else {}),
            )
        )
    return observed


def _clock(point: SeenPoint) -> dict[str, Any]:
    """The mean of the readings of the clock in settled turns, and its standard error."""
    readings = (point.row.telemetry.sm_clock_hz[i] for i in point.row.settled_readings)
    clocks = [clock for clock in readings if clock > 0]
    if not clocks:
        return {}
    clock, count = fmean(clocks), len(clocks)
    squares = sum((reading - clock) ** 2 for reading in clocks)
    error = math.sqrt(squares / (count - 1) / count) / clock if count > 1 else 0.0
    return {"log_clock_hz": math.log(clock), "clock_error": error}


def _scatter(point: SeenPoint) -> dict[str, Any]:
    """The time by visit, or by turn where one visit is all that there is; see Observation."""
    if not point.visit_times:
        return {}
    cut = _TRIMMED_OF_CPU if point.point.device.startswith("cpu-") else _TRIMMED
    visits = [
        [_trimmed_log(turn, cut) for turn in turns] for turns in point.settled_turns_s if turns
    ]
    if len(visits) == 1:
        return {"log_turns_s": tuple(visits[0])}
    means = [fmean(visit) for visit in visits]
    degrees = sum(len(visit) - 1 for visit in visits)
    squares = sum((t - mean) ** 2 for v, mean in zip(visits, means, strict=True) for t in v)
    turns = sum(map(len, visits)) / len(visits)
    return {
        "log_turns_s": tuple(means),
        "turn_variance": squares / degrees / turns if degrees else 0.0,
        "turn_degrees": degrees,
    }


def _trimmed_log(samples: Sequence[float], cut: float) -> float:
    """Mean of the logarithms without that share of the samples at either end."""
    left_out = int(len(samples) * cut)
    kept: Array = np.log(sorted(samples)[left_out : len(samples) - left_out])
    return float(np.add.reduce(kept) / len(kept))  # mean() takes 5 us more, for 20,000 turns


COLUMNS: Final = (
    *declared("status"),
    Column("kernels", "object", lambda p: p.row.kernel_names),
    Column("scatter", "object", _scatter),
    Column("clock", "object", _clock),
)


def drift_regime(run: ObservedRun, observation: Observation) -> str:
    """Points of one such regime drift together: that of the shape, and if the clock was limited.

    At a limited clock, points that take long are apart from the others.
    """
    shape = observation.point.shape
    if {"m", "n", "k"} <= set(shape):
        name = gemm_regime(shape["m"], shape["n"], shape["k"])
    else:
        name = observation.point.protocol.cache
    if not run.is_limited(observation):
        return name
    is_long = observation.time is not None and observation.time.median >= _LONG_S
    return f"{name}, clock limited, long" if is_long else f"{name}, clock limited"
