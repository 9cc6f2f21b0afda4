"""Numbers as people read them."""

import math

import pytest

from roofcal.core.units import significant
from roofcal.report.kit import numbers

SPACE = "\N{NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.00123456, 2, "0.0012"),
        (-5.5, 2, "\N{MINUS SIGN}5.5"),
        (math.nan, 3, "\N{EN DASH}"),
        (math.inf, 3, "\N{EN DASH}"),
        (999.6, 3, "1,000"),
        (9.9996, 4, "10.00"),
    ],
)
def test_significant_digits(value: float, digits: int, text: str) -> None:
    assert significant(value, digits) == text


SCALED = {  # unit -> value -> text
    "B/s": {4.19e12: "4.19 TB/s", 1.98e9: "1.98 GB/s"},
    "flop/s": {1.4e15: "1,400 TFLOP/s"},
    "flop/s per compute unit": {1.2e13: "12.0 TFLOP/s per compute unit"},
    "s": {
        3.2e-6: "3.20 \N{MICRO SIGN}s",
        9e-7: "900 ns",
        3e-13: "300 fs",
        2.9e-23: "29.0 ys",
        0.0: "0 s",
    },
    "s/B": {6.3e-10: "630 ps/B"},
    "Hz": {1.41e9: "1,410 MHz"},
    "W": {690.0: "690 W", 0.5: "0.500 W"},
    "1": {2.5: "2.50"},
}


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(value, unit, text) for unit, texts in SCALED.items() for value, text in texts.items()],
)
def test_units_get_the_prefix_that_people_use(value: float, unit: str, text: str) -> None:
    assert numbers.scaled(value, unit).replace(SPACE, " ") == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.26, "1.3 s"), (42.4, "42 s"), (95, "1 min 35 s"), (7325, "2 h 2 min"), (59.7, "1 min 0 s")],
)
def test_durations(seconds: float, text: str) -> None:
    assert numbers.duration(seconds).replace(SPACE, " ") == text
