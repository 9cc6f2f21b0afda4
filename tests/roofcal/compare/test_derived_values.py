"""Constants and break-even points that moved."""

from math import inf
from pathlib import Path

import pytest

from roofcal.compare.derived_values import (
    moved_breakevens,
    moved_constants,
    read_breakeven,
    read_constants,
)
from roofcal.compare.observations import CompareError
from roofcal.core.paths import RunFolder
from roofcal.core.records import Ceiling
from roofcal.ops.cast import model as cast_model
from tests.roofcal.compare.made_up import write_run

KEY: tuple[str, ...] = ("fp8", "forward", "none", "512", "512")


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
    rows = moved_constants({"c": constant(1.0, half)}, {"c": constant(b, half)}, 0.02)
    assert [row["constant"] for row in rows] == (["c"] if listed else [])


def test_a_constant_of_one_calibration_alone_has_no_other_value() -> None:
    (row,) = moved_constants({}, {"c": constant(1.0, 0.1)}, 0.02)
    assert (row["a"], row["b"], row["change"]) == (None, 1.0, None)


def test_a_constant_that_stands_for_a_name_has_no_change_in_percent() -> None:
    name = "cast.triton.fp8_tensorwise.cast_family"
    families = list(cast_model.FAMILIES)
    a, b = (
        {name: Ceiling(value=code, ci95_low=code, ci95_high=code, unit="code", evidence="")}
        for code in (1, 0)
    )
    (row,) = moved_constants(a, b, 0.02)
    assert (row["choice_a"], row["choice_b"], row["change"]) == (families[1], families[0], None)
    assert moved_constants(a, a, 0.02) == []


def test_a_run_without_a_calibration_has_no_constants(tmp_path: Path) -> None:
    assert read_constants(RunFolder.at(tmp_path)) is None
    constants = read_constants(RunFolder.at(write_run(tmp_path, [])))
    assert constants is not None
    assert list(constants) == ["dram_read_bytes_per_s"]


def test_a_map_is_read_and_nothing_means_never(tmp_path: Path) -> None:
    assert read_breakeven(RunFolder.at(tmp_path)) is None
    assert read_breakeven(RunFolder.at(write_run(tmp_path, [], m="64"))) == {KEY: (64, 64, 64)}
    assert read_breakeven(RunFolder.at(write_run(tmp_path, [], m=""))) == {KEY: (inf, inf, inf)}


def test_a_file_that_is_no_map_is_named(tmp_path: Path) -> None:
    (tmp_path / "breakeven.csv").write_text("recipe,n\nfp8,1\n")
    with pytest.raises(CompareError, match=r"breakeven\.csv"):
        read_breakeven(RunFolder.at(tmp_path))


def test_clear_moves_come_first() -> None:
    other: tuple[str, ...] = ("fp8", "forward", "none", "1024", "512")
    a = {other: (64.0, 32.0, 128.0), KEY: (64.0, 32.0, 128.0)}
    rows = moved_breakevens(a, {other: (96.0, 64.0, inf), KEY: (inf, 512.0, inf)})
    assert [(row["n"], row["m_a"], row["m_b"], row["clear"]) for row in rows] == [
        (512, 64, None, True),
        (1024, 64, 96, False),
    ]
    assert moved_breakevens(a, a) == []
