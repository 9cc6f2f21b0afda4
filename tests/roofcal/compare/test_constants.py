"""A constant has moved where the interval of the difference leaves out 0."""

from pathlib import Path

import pytest

from roofcal.compare.constants import moved, read_constants
from roofcal.core.paths import RunFolder
from roofcal.core.records import Ceiling
from tests.roofcal.compare.made_up import write_run


def constant(value: float, half: float) -> Ceiling:
    return Ceiling(
        value=value, ci95_low=value - half, ci95_high=value + half, unit="s", evidence=""
    )


@pytest.mark.parametrize(
    ("b", "half", "listed"), [(1.10, 0.05, True), (1.06, 0.05, False), (1.01, 0.001, False)]
)
def test_a_difference_beyond_its_interval_and_the_threshold_is_listed(
    b: float, half: float, listed: bool
) -> None:
    rows = moved({"c": constant(1.0, half)}, {"c": constant(b, half)}, 0.02)
    assert [row["constant"] for row in rows] == (["c"] if listed else [])


def test_a_constant_of_one_calibration_alone_has_no_other_value() -> None:
    (row,) = moved({}, {"c": constant(1.0, 0.1)}, 0.02)
    assert (row["a"], row["b"], row["change"]) == (None, 1.0, None)


def test_a_run_without_a_calibration_has_no_constants(tmp_path: Path) -> None:
    assert read_constants(RunFolder.at(tmp_path)) is None
    found = read_constants(RunFolder.at(write_run(tmp_path, [])))
    assert found is not None
    assert list(found) == ["dram_read_bytes_per_s"]
