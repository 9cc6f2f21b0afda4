"""Rows of constants, exact and as people read them."""

import math

import pytest

from roofcal.core.records import Ceiling
from roofcal.export.rows import COLUMNS, Row, four_digits, rows, shown
from tests.roofcal.export.subjects import h200


def row(value: float, unit: str, spread: float = 0.0, evidence: str = "x") -> Row:
    low, high = value * (1 - spread), value * (1 + spread)
    return Row(
        name="a", value=value, ci95_low=low, ci95_high=high, unit=unit, choice=None,
        evidence=evidence,
    )  # fmt: skip


def test_the_device_stands_before_the_recipes_and_all_are_there() -> None:
    constants = dict(h200().calibration.constants)
    names = [found.name for found in rows(constants)]
    assert sorted(names) == sorted(constants)
    first = next(i for i, name in enumerate(names) if name.startswith("gemm."))
    assert not any(name.startswith("gemm.") for name in names[:first])
    assert names[first:] == sorted(names[first:])
    assert tuple(Row.__dataclass_fields__) == COLUMNS


def test_a_code_says_what_it_stands_for() -> None:
    code = Ceiling(value=5.0, ci95_low=5.0, ci95_high=5.0, unit="code", evidence="x")
    (found,) = rows({"gemm.cublaslt.bf16.tile_family": code})
    assert found.choice == "tile_128x128"
    assert shown(found).value == "tile_128x128"


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (4.298343e12, "B/s", ("4.298", "TB/s")),
        (1.2620632e15, "flop/s", ("1262", "TFLOP/s")),
        (6.1005757e12, "flop/s per compute unit", ("6.101", "TFLOP/s per compute unit")),
        (1.5008e-05, "s", ("15.01", "us")),
        (9.9996e-07, "s", ("1.000", "us")),
        (7e-15, "s/B", ("0.007000", "ps/B")),
        (1.605e9, "Hz", ("1.605", "GHz")),
        (686.18675, "W", ("686.2", "W")),
        (1.3639111, "1", ("1.364", "")),
        (12.5, "furlong", ("12.50", "furlong")),
        (0.0, "s", ("0", "s")),
        (math.inf, "s", ("inf", "s")),
    ],
)
def test_people_read_four_digits_in_a_unit_that_fits(
    value: float, unit: str, said: tuple[str, str]
) -> None:
    found = shown(row(value, unit))
    assert (found.value, found.unit) == said


def test_value_and_interval_share_one_unit() -> None:
    found = shown(row(1e-6, "s", spread=0.5))
    assert (found.value, found.interval, found.unit) == ("1.000", "0.5000 to 1.500", "us")


def test_what_was_counted_has_no_interval_and_no_decimals() -> None:
    found = shown(row(132.0, "1"))
    assert (found.value, found.interval) == ("132", "")


def test_a_shape_loses_the_spelling_of_python() -> None:
    assert (
        shown(row(1.0, "s", evidence="fastest: {'m': 1, 'n': 2}")).evidence == "fastest: m: 1, n: 2"
    )


@pytest.mark.parametrize(
    ("value", "text"), [(12345.6, "12346"), (-1.23456, "-1.235"), (0.000123456, "0.0001235")]
)
def test_whole_digits_stay_and_no_exponent_appears(value: float, text: str) -> None:
    assert four_digits(value) == text
