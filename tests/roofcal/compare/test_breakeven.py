"""Break-even points that moved, never among them."""

from math import inf
from pathlib import Path

import pytest

from roofcal.compare.breakeven import moved, read_breakeven
from roofcal.compare.errors import CompareError
from roofcal.core.paths import RunFolder
from tests.roofcal.compare.made_up import write_run

KEY: tuple[str, ...] = ("fp8", "forward", "none", "512", "512")


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
    rows = moved(a, {other: (96.0, 64.0, inf), KEY: (inf, 512.0, inf)})
    assert [(row["n"], row["m_a"], row["m_b"], row["clear"]) for row in rows] == [
        (512, 64, None, True),
        (1024, 64, 96, False),
    ]
    assert moved(a, a) == []
