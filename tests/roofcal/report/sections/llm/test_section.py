"""Language models in the report: read, summed up, drawn with their table and their command."""

from pathlib import Path

import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.derived import read_derived
from roofcal.report.data.provenance import commands
from roofcal.report.kit.blocks import Prose
from roofcal.report.sections.llm import COLUMNS, FILE, LABELS, NUMBERS, one_row_per_cut
from tests.roofcal.report.chapters import analysis_with, blocks_of, csv_tables, figure_and_table
from tests.roofcal.report.estimates import made_up_estimates, write_estimates


@pytest.fixture(scope="module")
def estimated(folder: Path, h200: DeviceSpec, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """The made-up run with estimates."""
    return analysis_with(write_estimates, folder, h200, tmp_path_factory.mktemp("estimated"))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write_estimates(tmp_path)
    pd.testing.assert_frame_equal(
        read_derived(tmp_path / FILE, LABELS, NUMBERS), made_up_estimates()
    )


def test_each_cut_is_one_row_with_its_largest_batch() -> None:
    cuts = one_row_per_cut(made_up_estimates())
    assert len(cuts) == 7
    first, without = cuts.iloc[0], cuts.iloc[3]
    assert first["decode_step_s"] == pytest.approx(1e-3 * 1.05)
    assert first["most"] == pytest.approx(20 / 2e-3)
    assert first["most_low"] < first["most"] < first["most_high"]
    assert without["fits"] == "no"
    assert pd.isna(without["most"])
    assert {column.key for column in COLUMNS} <= set(cuts.columns)


def test_the_section_has_figure_table_and_command(estimated: Analysis) -> None:
    figure, table = figure_and_table(estimated, "llm", "llm.csv")
    assert "python -m roofcal llm --run results/nvidia-h200/" in figure.command
    assert table.total == 7
    assert len(dict(csv_tables(estimated))["llm.csv"]) == len(made_up_estimates())
    assert any("roofcal llm" in line and "--out" in line for line in commands(estimated))


def test_a_run_without_estimates_says_so(analysis: Analysis) -> None:
    blocks = blocks_of(analysis, "llm")
    quiet = Prose(text="This run has no estimates of language models.", quiet=True)
    assert blocks == [quiet]
    assert not any("roofcal llm" in line for line in commands(analysis))
