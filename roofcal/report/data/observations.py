"""What was observed at a point, without its samples: columns of the tidy frame of an op."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Final

import pandas as pd

from roofcal.core.records import Measurement, Method
from roofcal.core.statistics import sqnr_db
from roofcal.core.visits.states import VisitState, states_of_visits
from roofcal.fitting.intervals import HOLDS, point_intervals, visit_times
from roofcal.report.data.board_power import board_power, counted_power, integrated_power

NOT_REACHED: Final = "not_reached"
UNREACHED: Final = {
    "status": NOT_REACHED,
    "reason": "planned, and not measured yet: the session ended before",
    "samples": 0,
}
PEAK_BYTES: Final = "peak_bytes"  # of points that know it
RANK_SPREAD: Final = "rank_spread"  # slowest / fastest rank - 1; ops on several devices have it
INTERVAL_HOLDS: Final = "interval_holds"  # how far an interval of measured times can be trusted
VISITS: Final = "visits"  # how many visits of a point have a time
STATES: Final = "states_s"  # of points with several: see `states_text`
VISIT_TIMES: Final = "visit_times"  # no column: what the intervals of an op are made of
_SQNR: Final = "_sqnr_db"


def sqnr_column(output: str) -> str:
    """The column of an output's signal to quantisation noise."""
    return f"{output}{_SQNR}"


def times_by_hold(frames: Mapping[str, pd.DataFrame]) -> Counter[str]:
    """How many times of all ops have intervals that hold what: see roofcal.fitting.intervals."""
    return Counter(hold for frame in frames.values() for hold in frame[INTERVAL_HOLDS].dropna())


def states_text(states: Iterable[VisitState]) -> str:
    """Times in s, each with the number of its visits in brackets: '0.000109 (2); 0.0001213 (1)'."""
    return "; ".join(f"{state.seconds:.4g} ({state.visits})" for state in states)


def read_states(text: str) -> list[VisitState]:
    """The states that `states_text` wrote, their times to its four digits."""
    parts = [part.removesuffix(")").split(" (") for part in text.split("; ")]
    return [VisitState(seconds=float(seconds), visits=int(count)) for seconds, count in parts]


def observation(measurement: Measurement) -> dict[str, Any]:
    """The columns of a measurement; those that it says nothing of are left out.

    In the place of its median and interval it has the time of each visit, because intervals of
    several visits are made for all points of an op at once (`time_columns_of`).
    """
    observed: dict[str, Any] = {
        "status": measurement.status,
        "reason": measurement.reason,
        "numeric_error": measurement.relative_error,
        "quantisation_error": measurement.quantisation_error,
        "kernel_names": "; ".join(dict.fromkeys(measurement.kernel_names)) or None,
        "samples": len(measurement.settled_samples_s),
        "rotating_bytes": measurement.rotating_bytes,
        "session_id": measurement.session_id,
        "started_s": measurement.started_s,
    }
    errors = measurement.output_errors or {}
    observed |= {sqnr_column(name): sqnr_db(error) for name, error in errors.items()}
    if measurement.peak_bytes is not None:
        observed[PEAK_BYTES] = measurement.peak_bytes
    if measurement.rank_medians_s:
        fastest, slowest = min(measurement.rank_medians_s), max(measurement.rank_medians_s)
        observed[RANK_SPREAD] = slowest / fastest - 1
    observed[VISIT_TIMES] = visit_times(measurement)
    if measurement.status == "ok" and measurement.warmup_samples:
        # the first turn: samples taken before the card could warm to this work
        second_turn = next(
            (s for s in measurement.slice_starts if s > 0), len(measurement.latency_samples_s)
        )
        burst = measurement.latency_samples_s[: min(second_turn, measurement.warmup_samples)]
        observed["burst_median_s"] = median(burst)
    return observed | _settled_readings(measurement)


def power_columns(
    measurement: Measurement, method: Method, power_limit_w: float | None
) -> dict[str, Any]:
    """The columns of the power of the board; none where no reading is the point's own.

    method: of its protocol. power_limit_w: of the card.
    """
    power = board_power(measurement, method, power_limit_w)
    if power is None:
        return {}
    columns = {
        "board_w": power.watts,
        "board_low_w": power.low,
        "board_high_w": power.high,
        "energy_by": power.basis,
        "idle_w": power.idle_w,
    }
    integrated = integrated_power(measurement, method, power_limit_w)
    if counted_power(measurement) and integrated:
        columns["integrated_w"] = integrated.watts
    return columns


def time_columns_of(
    points: Sequence[Mapping[str, Any]],
    cards: Mapping[str, str],
    kinds: Sequence[str],
    repeated_s: Sequence[Sequence[float]],
) -> dict[str, list[Any]]:
    """Columns of the times of an op, by name: median, interval, number of visits and states.

    cards: session -> card; kinds: of each point, its regime; repeated_s: medians of the sentinel
    that is the same point, which are among its states.
    """
    times = [observed.get(VISIT_TIMES, ()) for observed in points]
    intervals = point_intervals(times, cards, kinds, repeated_s)
    columns: dict[str, list[Any]] = {
        f"{name}_s": [None if i is None else getattr(i, name) for i in intervals]
        for name in ("median", "ci95_low", "ci95_high")
    }
    columns[INTERVAL_HOLDS] = [None if i is None else HOLDS[i.basis] for i in intervals]
    columns[VISITS] = [len(of_point) for of_point in times]
    medians = [[visit.median for visit in of_point] for of_point in times]
    states = [
        states_of_visits([*own, *again] if own else ())
        for own, again in zip(medians, repeated_s, strict=True)
    ]
    columns[STATES] = [states_text(of_point) if len(of_point) > 1 else None for of_point in states]
    return columns


def _settled_readings(measurement: Measurement) -> dict[str, Any]:
    """Medians of the readings since the clock settled; of all readings if all are earlier."""
    telemetry = measurement.telemetry
    positions = measurement.settled_readings or range(len(telemetry.sample_index))
    readings: dict[str, Any] = {}
    for name in ("sm_clock_hz", "power_w", "temperature_c"):
        values = [getattr(telemetry, name)[position] for position in positions]
        readings[name] = median(values) if values else None
    reasons = {reason for position in positions for reason in telemetry.throttle_reasons[position]}
    return readings | {"throttle_reasons": ";".join(sorted(reasons)) or None}
