"""Numbers as people read them."""

import math

import pytest

from roofcal.report.kit import numbers

SPACE = "\N{NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (1.23456, 3, "1.23"),
        (12345.6, 3, "12,346"),
        (0.00123456, 2, "0.0012"),
        (-5.5, 2, "\N{MINUS SIGN}5.5"),
        (0, 3, "0"),
        (math.nan, 3, "\N{EN DASH}"),
        (math.inf, 3, "\N{EN DASH}"),
        (999.6, 3, "1,000"),
    ],
)
def test_significant_digits(value: float, digits: int, text: str) -> None:
    assert numbers.significant(value, digits) == text


SCALED = {  # unit -> value -> text
    "B/s": {4.19e12: "4.19 TB/s", 1.98e9: "1.98 GB/s"},
    "flop/s": {1.4e15: "1,400 TFLOP/s"},
    "flop/s per compute unit": {1.2e13: "12.0 TFLOP/s per compute unit"},
    "s": {3.2e-6: "3.20 \N{MICRO SIGN}s", 9e-7: "900 ns", 3e-13: "0.300 ps", 0.0: "0 s"},
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


def test_percent_ratio_and_counts() -> None:
    counts = (numbers.count_of(1, "point"), numbers.count_of(1200, "point"))
    assert counts == ("1 point", "1,200 points")
    assert numbers.count_of(0, "point is", "points are") == "0 points are"
    assert numbers.percent(0.1234) == f"12.3{SPACE}%"
    assert numbers.percent(-0.05, 0, signed=True) == f"\N{MINUS SIGN}5{SPACE}%"
    assert numbers.percent(math.nan) == "\N{EN DASH}"
    assert numbers.times(1.8449) == "1.84\N{MULTIPLICATION SIGN}"
    assert numbers.times(math.inf) == "\N{EN DASH}"


@pytest.mark.parametrize(
    ("count", "text"), [(1, "1 B"), (1 << 20, "1 MiB"), (1536, "1.5 KiB"), (1 << 42, "4 TiB")]
)
def test_bytes_are_binary(count: float, text: str) -> None:
    assert numbers.binary(count).replace(SPACE, " ") == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.26, "1.3 s"), (42.4, "42 s"), (95, "1 min 35 s"), (7325, "2 h 2 min"), (59.7, "1 min 0 s")],
)
def test_durations(seconds: float, text: str) -> None:
    assert numbers.duration(seconds).replace(SPACE, " ") == text


def test_shapes_are_written_with_and_without_their_axes() -> None:
    assert numbers.shape_text((16, 3584)) == "16 \N{MULTIPLICATION SIGN} 3,584"
    assert numbers.axis_text({"m": 16, "n": 3584, "k": 8192}) == "m = 16, n = 3,584, k = 8,192"
