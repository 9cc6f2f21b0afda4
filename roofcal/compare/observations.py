"""A run as compare reads it: the status of every point, and its time and clock by turn.

The unit is the visit, or the turn of a point that was visited once: docs/method.md says why.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Final

import numpy as np
import pandas as pd

from roofcal.core.jsonl import read_single_record
from roofcal.core.paths import RunFolder
from roofcal.core.records import Environment
from roofcal.core.times import Array
from roofcal.core.visits.intervals import cards_by_session
from roofcal.ops import OPS
from roofcal.ops.regimes import gemm_regime
from roofcal.points.columns import (
    INTERVAL,
    OUR_PROVIDERS,
    POINT,
    VISIT_TIMES,
    Column,
    SeenPoint,
    declared,
)
from roofcal.points.reader import NOT_REACHED, Points, read_points, with_intervals

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
LIMITED: Final = "clock limited"  # a part of the names of drift regimes
_LIMITED: Final = 0.97  # below this share of the run's highest clock something limits the clock


class CompareError(ValueError):
    """A folder that cannot be compared; the message says why."""


@dataclass(frozen=True, kw_only=True)
class ObservedRun:
    """A run: its environment and a table of every point that it plans.

    The index of the table identifies a point independently of device and environment. Logarithms
    are natural ones of seconds and of Hz. Columns, of which a point without a time has the first
    two:

    point          the PlanPoint
    status         NOT_MEASURED of a point without a row, unless the run has no samples at all
    interval       median in s and its interval, the numbers of the tidy tables; None without a time
    units          per settled turn, its trimmed mean (of a CPU, that of the middle half of its
                   samples); of a point that was visited several times, the mean over the turns of
                   each visit; () without a time
    turn_variance  variance of the mean of one visit as the scatter of its turns shows it, with its
    turn_degrees   degrees of freedom; 0 and 0 of a point whose units are turns
    clock          the mean reading of the SM clock in settled turns; not a number without a reading
    clock_error    standard error of that, a fraction
    kernels        names, as often as they were launched
    cards          cards of the sessions of its visits, "" for a session that does not know its own
    codes          hashes of the code that measured it, kernels included, of those sessions
    """

    folder: Path
    environment: Environment
    points: pd.DataFrame
    cards: tuple[str, ...] = ()

    @property
    def measured(self) -> pd.DataFrame:
        """The points that have a row, whatever it says."""
        return self.points[self.points["status"] != NOT_MEASURED]


def observe(run: RunFolder) -> ObservedRun:
    """Read a run folder, measured here or published.

    A publication that is without its samples, as a wheel carries it, has no points. Raises
    CompareError for a folder that is no run, RecordsError for a bad file.
    """
    environment = read_single_record(run.environment_file, Environment)
    ops = [op.name for op in OPS] if run.measured_ops() else []
    parts = [read_points(run, op, COLUMNS) for op in ops]
    cards = {card for part in parts for session in part.sessions for card in session.cards}
    # measured ones first, because lists of what differs are in the order of points
    tables = [
        observations(part).sort_values("status", key=lambda s: s == NOT_MEASURED, kind="stable")
        for part in parts
        if len(part.table)
    ]
    points = (
        pd.concat(tables) if tables else pd.DataFrame(columns=[*_READ, *_UNITS, "cards", "codes"])
    )
    observed = ObservedRun(
        folder=run.folder, environment=environment, points=points, cards=tuple(sorted(cards))
    )
    if observed.measured.empty and not run.calibration_file.is_file():
        raise CompareError(f"{run.folder}: holds no measurement of any op; finish the study first")
    return observed


def observations(points: Points) -> pd.DataFrame:
    """The points of one op, see ObservedRun."""
    table = with_intervals(points.table, points.sessions, of_sentinels=False)
    units = pd.DataFrame(map(_units, table["turns"]), index=table.index, columns=_UNITS)
    # What point_id names, but the device: a hash of each would take 0.1 s of a run.
    keys = [f"{point.group_key},{point.recipe},{point.provider}" for point in table[POINT]]
    status = table["status"].replace(NOT_REACHED, NOT_MEASURED)
    cards = cards_by_session(points.sessions)
    codes = {session.session_id: session.code_hash for session in points.sessions}
    of_sessions = {
        name: table[VISIT_TIMES].map(
            lambda times, of=of: frozenset(of.get(t.session_id, "") for t in times)
        )
        for name, of in (("cards", cards), ("codes", codes))
    }
    return table.assign(status=status)[_READ].join(units).assign(**of_sessions).set_axis(keys)


def in_both(a: ObservedRun, b: ObservedRun) -> pd.DataFrame:
    """The points that both runs plan: columns of ObservedRun, and `regime`, with _a and _b.

    other_card  whether it was measured on other cards of one environment
    other_code  whether it is of a kernel of ours, and the code that measured it is another one: not
                only the card may have made a difference
    """
    keys = [key for key in a.points.index if key in b.points.index]
    parts = (
        run.points.assign(regime=drift_regimes(run.points)).loc[keys].add_suffix(end)
        for run, end in ((a, "_a"), (b, "_b"))
    )
    pairs = pd.concat(parts, axis="columns")
    cards = zip(pairs["cards_a"], pairs["cards_b"], strict=True)
    others = [a.environment == b.environment and x != y and "" not in x | y for x, y in cards]
    codes = zip(pairs["point_a"], pairs["codes_a"], pairs["codes_b"], strict=True)
    changed = [point.provider.startswith(OUR_PROVIDERS) and x != y for point, x, y in codes]
    return pairs.assign(
        other_card=np.array(others, dtype=bool), other_code=np.array(changed, dtype=bool)
    )


def drift_regimes(points: pd.DataFrame) -> list[str]:
    """The drift regime of each point; points of one such regime drift together.

    It is the regime of the shape, with whether the clock was limited and, if so, whether the point
    takes long.
    """
    if points.empty:
        return []
    names = []
    limit = _LIMITED * points["clock"].max()
    for point, interval, clock in points[["point", "interval", "clock"]].itertuples(index=False):
        shape = point.shape
        name = point.protocol.cache
        if {"m", "n", "k"} <= set(shape):
            name = gemm_regime(shape["m"], shape["n"], shape["k"])
        if clock < limit:
            name += f", {LIMITED}"
            name += ", long" if interval is not None and interval.median >= _LONG_S else ""
        names.append(name)
    return names


def _clocks(point: SeenPoint) -> list[float]:
    """The readings of the clock in settled turns."""
    if not point.visit_times:
        return []
    readings = (point.row.telemetry.sm_clock_hz[i] for i in point.settled_readings)
    return [clock for clock in readings if clock > 0]


def _clock_error(point: SeenPoint) -> float:
    """The standard error of the mean of the readings."""
    clocks = _clocks(point)
    if len(clocks) < 2:
        return 0.0
    return float(np.std(clocks, ddof=1)) / math.sqrt(len(clocks)) / fmean(clocks)


def _turns(point: SeenPoint) -> list[list[float]]:
    """By visit and turn, the trimmed mean of the logarithms."""
    if not point.visit_times:
        return []
    cut = _TRIMMED_OF_CPU if point.point.device.startswith("cpu-") else _TRIMMED

    def trimmed_log(samples: Sequence[float]) -> float:
        left_out = int(len(samples) * cut)
        kept: Array = np.log(sorted(samples)[left_out : len(samples) - left_out])
        return float(np.add.reduce(kept) / len(kept))  # mean() takes 5 us more, for 20,000 turns

    return [[trimmed_log(turn) for turn in visit] for visit in point.settled_turns_s if visit]


def _units(visits: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], float, int]:
    """Units, turn_variance and turn_degrees of ObservedRun."""
    if len(visits) < 2:
        return tuple(visits[0]) if visits else (), 0.0, 0
    means = [fmean(visit) for visit in visits]
    degrees = sum(len(visit) - 1 for visit in visits)
    squares = sum((t - mean) ** 2 for v, mean in zip(visits, means, strict=True) for t in v)
    turns = sum(map(len, visits)) / len(visits)
    return tuple(means), squares / degrees / turns if degrees else 0.0, degrees


_READ: Final = [POINT, "status", INTERVAL, "clock", "clock_error", "kernels"]
_UNITS: Final = ["units", "turn_variance", "turn_degrees"]
COLUMNS: Final = (
    *declared("status"),
    Column("turns", "object", _turns),
    Column("clock", "number", lambda p: fmean(c) if (c := _clocks(p)) else None),
    Column("clock_error", "number", _clock_error),
    Column("kernels", "object", lambda p: p.row.kernel_names if p.visit_times else ()),
)
