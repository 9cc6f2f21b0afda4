"""Power of the board while a point runs, by NVML: of the board, not at the wall.

NVML's power is the mean of the last second (since Ampere). docs/method.md, "Energy", says which
readings are a point's own; others mix contenders, and their points have no energy.
"""

from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import fmean
from typing import Final, Literal

from roofcal.core.records import EnergyWindow, Measurement, Method

AVERAGED_S: Final = 1.0  # of one reading of power
SHORTEST_WINDOW_S: Final = 5.0  # of the counter
_BUSY_METHODS: Final = ("graph", "alone", "energy")  # others flush caches or wait between calls
_AT_LIMIT: Final = 0.95  # of the power limit: the mean lies below it while the clock moves

Basis = Literal["counter", "alone", "power limit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardPower:
    """Power of the board while a point runs, in W.

    low, high  the lowest and the highest window or reading; NVML's own error is not in them
    basis      the counter, or power integrated over time while the point runs alone, or while the
               card is at its limit
    idle_w     of the board at rest just before, where the counter was read
    """

    watts: float
    low: float
    high: float
    basis: Basis
    idle_w: float | None = None


def board_power(row: Measurement, method: Method, power_limit_w: float | None) -> BoardPower | None:
    """The power of a point by its measurement; None where no reading is its own.

    method: of its protocol. power_limit_w: of the card.
    """
    if row.status != "ok" or method not in _BUSY_METHODS:
        return None
    return counted_power(row) or integrated_power(row, method, power_limit_w)


def counted_power(row: Measurement) -> BoardPower | None:
    """The power by the energy counter; None without a window that is long enough."""
    windows = [window for window in row.energy_windows if window.seconds >= SHORTEST_WINDOW_S]
    busy = [window for window in windows if not window.is_rest]
    rest = [window for window in windows if window.is_rest]
    if not busy:
        return None
    watts = [window.joules / window.seconds for window in busy]
    return BoardPower(
        watts=_mean_watts(busy),
        low=min(watts),
        high=max(watts),
        basis="counter",
        idle_w=_mean_watts(rest) if rest else None,
    )


def _mean_watts(windows: list[EnergyWindow]) -> float:
    return sum(window.joules for window in windows) / sum(window.seconds for window in windows)


def integrated_power(
    row: Measurement, method: Method, power_limit_w: float | None
) -> BoardPower | None:
    """The mean over time of the readings that are the point's own, by trapezoids; None without."""
    busy_s, settled = _busy_seconds(row), row.settled_readings
    positions = [
        position
        for position in settled
        if method in ("alone", "energy") and busy_s[position] >= AVERAGED_S
    ]
    basis: Basis = "alone"
    if not positions and power_limit_w:
        # every settled reading names the power cap, at a power near the limit
        is_at_limit = all(
            "power_cap" in row.telemetry.throttle_reasons[position]
            and row.telemetry.power_w[position] >= _AT_LIMIT * power_limit_w
            for position in settled
        )
        positions, basis = list(settled) if is_at_limit else [], "power limit"
    if not positions:
        return None
    watts = [row.telemetry.power_w[position] for position in positions]
    steps = [
        (busy_s[b] - busy_s[a], (row.telemetry.power_w[a] + row.telemetry.power_w[b]) / 2)
        for a, b in pairwise(positions)
        if busy_s[b] > busy_s[a]  # else the second begins another visit
    ]
    span = sum(seconds for seconds, _ in steps)
    mean = sum(seconds * power for seconds, power in steps) / span if steps else fmean(watts)
    return BoardPower(watts=mean, low=min(watts), high=max(watts), basis=basis)


def _busy_seconds(row: Measurement) -> list[float]:
    """By reading, how long the point had kept the card busy before it, in its visit."""
    ends_s = list(
        accumulate((s * row.calls_per_sample for s in row.latency_samples_s), initial=0.0)
    )
    firsts = [visit.first_sample for visit in row.visits] or [0]
    return [
        round(ends_s[index] - ends_s[max(first for first in firsts if first <= index)], 6)
        for index in row.telemetry.sample_index
    ]
