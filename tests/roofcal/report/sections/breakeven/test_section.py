"""The break-even map in the report: read, summed up, drawn with its table and its command."""

from pathlib import Path

import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.derived import read_derived
from roofcal.report.data.loading import ReportError
from roofcal.report.data.provenance import commands
from roofcal.report.kit.blocks import FigureBlock, Prose, Table
from roofcal.report.sections.breakeven import COLUMNS, FILE, LABELS, NUMBERS, smallest_m
from tests.roofcal.report.break_evens import made_up_map, write_map
from tests.roofcal.report.chapters import analysis_with, blocks_of, csv_tables


@pytest.fixture(scope="module")
def mapped(folder: Path, h200: DeviceSpec, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """The made-up run with a map."""
    return analysis_with(write_map, folder, h200, tmp_path_factory.mktemp("mapped"))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write_map(tmp_path)
    pd.testing.assert_frame_equal(read_derived(tmp_path / FILE, LABELS, NUMBERS), made_up_map())


def test_no_file_and_a_header_alone_are_an_empty_map(tmp_path: Path) -> None:
    assert read_derived(tmp_path / FILE, LABELS, NUMBERS).empty
    (tmp_path / "breakeven.csv").write_text(",".join((*LABELS, *NUMBERS)) + "\n")
    assert read_derived(tmp_path / FILE, LABELS, NUMBERS).empty


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("recipe,pass\n", "column casts, class, m, n, .* is missing"),
        ("", "is no CSV file"),
        (
            ",".join((*LABELS, *NUMBERS)) + "\nfp8,forward,none,slower,x,1,1,1,1,1,1,1,1\n",
            "column m holds",
        ),
    ],
)
def test_a_damaged_map_is_named(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "breakeven.csv").write_text(text)
    with pytest.raises(ReportError, match=rf"breakeven\.csv: {says}.* run `make study` again"):
        read_derived(tmp_path / FILE, LABELS, NUMBERS)


def test_each_weight_has_one_answer() -> None:
    smallest = smallest_m(made_up_map())
    assert len(smallest) == 2 * 2 * 2 * 2
    small, large = smallest.to_dict("records")[:2]
    assert (small["n"], small["breakeven_m_low"], small["breakeven_m"]) == (512, 64, 64)
    assert (small["breakeven_m_high"], small["best"]) == (256, 1.6)
    assert pd.isna(large["breakeven_m_high"])
    assert [column.key for column in COLUMNS] == list(smallest.columns)


def test_the_section_has_figure_table_and_command(mapped: Analysis) -> None:
    blocks = blocks_of(mapped, "breakeven")
    figure, table = blocks
    assert isinstance(figure, FigureBlock)
    assert figure.source == "breakeven.csv"
    assert "python -m roofcal breakeven --run results/nvidia-h200/" in figure.command
    assert isinstance(table, Table)
    assert table.total == 16
    assert len(dict(csv_tables(mapped))["breakeven.csv"]) == len(made_up_map())
    assert any("roofcal breakeven" in line for line in commands(mapped))


def test_a_run_without_a_map_says_so(analysis: Analysis) -> None:
    blocks = blocks_of(analysis, "breakeven")
    assert blocks == [Prose(text="This run has no break-even map of linears.", quiet=True)]
    assert not any("roofcal breakeven" in line for line in commands(analysis))
