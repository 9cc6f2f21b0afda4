"""Which readings of power are a point's own, and what the energy counter says of it."""

from dataclasses import replace
from typing import Any

import pytest

from roofcal.core.jsonl import decode, encode
from roofcal.core.records import EnergyWindow, Measurement, Visit
from roofcal.points.power import board_power
from tests.roofcal.made_up_records import readings
from tests.roofcal.made_up_records import row as made_up_row


def row(watts: list[float], *reasons: str, every_s: float = 0.5, **changes: Any) -> Measurement:
    """A point of 100 samples of 10 ms per reading period, a reading before each period."""
    per_reading = round(every_s / 0.01)
    count = len(watts)
    fields: dict[str, Any] = {
        "latency_samples_s": (1e-3,) * per_reading * count,
        "calls_per_sample": 10,
        "telemetry": readings(
            tuple(per_reading * place for place in range(count)),
            power_w=tuple(watts),
            throttle_reasons=(reasons,) * count,
        ),
    }
    return made_up_row(**fields | changes)


def test_a_reading_counts_once_the_point_has_run_alone_for_a_second() -> None:
    power = board_power(row([100.0, 300.0, 500.0, 600.0, 500.0]), "alone", 700.0)
    assert power is not None
    assert (power.basis, power.low, power.high) == ("alone", 500.0, 600.0)
    assert power.watts == pytest.approx(550.0)  # trapezoids; the mean would be 533


def test_a_second_visit_begins_anew() -> None:
    visits = (
        Visit(first_sample=0, warmup_samples=0, session_id="s"),
        Visit(first_sample=150, warmup_samples=0, session_id="s"),
    )
    power = board_power(row([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], visits=visits), "alone", None)
    assert power is not None
    assert (power.low, power.high) == (3.0, 6.0)


@pytest.mark.parametrize(
    ("watts", "reasons", "method", "has_power"),
    [
        ([690.0, 700.0], ("power_cap",), "graph", True),
        ([690.0, 600.0], ("power_cap",), "graph", False),
        ([690.0, 700.0], (), "graph", False),
        ([690.0, 700.0], ("power_cap",), "events_flush", False),
        ([500.0] * 5, (), "graph", False),  # readings beside other contenders are nobody's own
    ],
)
def test_at_the_power_limit_all_contenders_draw_it(
    watts: list[float], reasons: tuple[str, ...], method: Any, has_power: bool
) -> None:
    assert board_power(row(watts, *reasons, status="failed"), method, 700.0) is None
    power = board_power(row(watts, *reasons), method, 700.0)
    assert (power is not None) == has_power
    if power is not None:
        assert power.basis == "power limit"


def test_the_counter_counts_before_readings_and_rest_is_apart() -> None:
    windows = (
        EnergyWindow(joules=600.0, seconds=6.0, is_rest=True),
        EnergyWindow(joules=3000.0, seconds=5.0),
        EnergyWindow(joules=3300.0, seconds=5.0),
        EnergyWindow(joules=1.0, seconds=0.1),  # too short to count
    )
    counted = row([500.0] * 4, energy_windows=windows)
    power = board_power(counted, "energy", 700.0)
    assert power is not None
    assert (power.watts, power.low, power.high, power.idle_w) == (630.0, 600.0, 660.0, 100.0)
    assert power.basis == "counter"
    assert decode(encode(counted)) == counted
    assert "energy_windows" not in encode(replace(counted, energy_windows=()))
