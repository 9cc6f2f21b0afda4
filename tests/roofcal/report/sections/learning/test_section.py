"""Learning curves in the report: read, summed up, drawn with their table and their command."""

from pathlib import Path

import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.derived import ReportError, read_derived
from roofcal.report.data.provenance import commands
from roofcal.report.sections.learning import COLUMNS, CURVE, FILE, NUMBERS, middle_repetitions
from tests.roofcal.report.chapters import analysis_with, blocks_of, csv_tables, figure_and_table
from tests.roofcal.report.curves import made_up_curves, write_curves


@pytest.fixture(scope="module")
def learned(folder: Path, h200: DeviceSpec, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """The made-up run with learning curves."""
    return analysis_with(write_curves, folder, h200, tmp_path_factory.mktemp("learned"))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert read_derived(tmp_path / FILE, CURVE, NUMBERS).empty
    write_curves(tmp_path)
    pd.testing.assert_frame_equal(read_derived(tmp_path / FILE, CURVE, NUMBERS), made_up_curves())


def test_the_columns_are_those_that_calibrate_writes() -> None:
    from roofcal.calibrate.learning import COLUMNS as WRITTEN

    assert (*CURVE, *NUMBERS) == WRITTEN


def test_damaged_curves_are_named(tmp_path: Path) -> None:
    (tmp_path / "learning.csv").write_text("op,recipe\n")
    with pytest.raises(ReportError, match=r"learning\.csv: column provider, .*p95 is missing"):
        read_derived(tmp_path / FILE, CURVE, NUMBERS)


def test_repetitions_become_their_middle_and_their_range() -> None:
    middle = middle_repetitions(made_up_curves())
    assert [column.key for column in COLUMNS] == list(middle.columns)
    assert list(middle["probes"]) == [12, 48, 12, 48, 8]
    assert list(middle["repetitions"]) == [3] * 5
    first = middle.iloc[0]
    assert (first["mape"], first["mape_low"], first["mape_high"]) == (0.2, 0.1, 0.8)
    assert (first["held_out"], first["median"], first["p95"]) == (48, 0.1, 0.4)


def test_the_section_has_figure_table_and_command(learned: Analysis) -> None:
    figure, table = figure_and_table(learned, "learning", "learning.csv")
    assert figure.command.startswith("python -m roofcal learning --run results/nvidia-h200/")
    assert (table.total, table.source) == (5, "learning.csv")
    assert len(dict(csv_tables(learned))["learning.csv"]) == len(made_up_curves())
    assert any("roofcal learning" in line for line in commands(learned))


def test_a_run_without_curves_has_no_such_section(analysis: Analysis) -> None:
    assert blocks_of(analysis, "learning") == []
    assert "learning.csv" not in dict(csv_tables(analysis))
    assert not any("roofcal learning" in line for line in commands(analysis))
