"""The break-even map in the report: read, summed up, drawn with its table and its command."""

from pathlib import Path

import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.provenance import commands
from roofcal.report.kit.blocks import Prose
from roofcal.report.kit.writer import Picture
from roofcal.report.sections.breakeven import (
    COLUMNS,
    draw_breakeven,
    smallest_m,
)
from tests.roofcal.report.chapters import analysis_with, blocks_of, csv_tables, figure_and_table
from tests.roofcal.report.drawn import drawn, plain

TOKENS = (16, 64, 256)


SIDES = (512, 1024)


def made_up_map() -> pd.DataFrame:
    """At m = 16 slower, at 64 uncertain, at 256 faster, for both weights and with any casts."""
    kinds = [
        (recipe, passes, casts)
        for recipe in ("fp8_axiswise", "fp8_tensorwise")
        for passes in ("forward", "forward_backward")
        for casts in ("none", "torch_compile")
    ]
    speedups = {16: (0.5, "slower"), 64: (1.1, "uncertain"), 256: (1.6, "faster")}
    rows = [
        {
            "recipe": recipe,
            "pass": passes,
            "casts": casts,
            "m": m,
            "n": side,
            "k": side,
            "speedup": speedups[m][0],
            "low": speedups[m][0] / 1.2,
            "high": speedups[m][0] * 1.2,
            "class": speedups[m][1],
            "breakeven_m": 64,
            "breakeven_m_low": 64,
            "breakeven_m_high": 256 if side == 512 else None,
        }
        for recipe, passes, casts in kinds
        for side in SIDES
        for m in TOKENS
    ]
    return pd.DataFrame(rows)


def write_map(folder: Path) -> None:
    made_up_map().to_csv(folder / "breakeven.csv", index=False)


@pytest.fixture(scope="module")
def mapped(folder: Path, h200: DeviceSpec, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """The made-up run with a map."""
    return analysis_with(write_map, folder, h200, tmp_path_factory.mktemp("mapped"))


def test_each_weight_has_one_answer() -> None:
    smallest = smallest_m(made_up_map())
    assert len(smallest) == 2 * 2 * 2 * 2
    small, large = smallest.to_dict("records")[:2]
    assert (small["n"], small["breakeven_m_low"], small["breakeven_m"]) == (512, 64, 64)
    assert (small["breakeven_m_high"], small["best"]) == (256, 1.6)
    assert pd.isna(large["breakeven_m_high"])
    assert [column.key for column in COLUMNS] == list(smallest.columns)


def test_the_section_has_figure_table_and_command(mapped: Analysis) -> None:
    figure, table = figure_and_table(mapped, "breakeven", "breakeven.csv")
    assert "python -m roofcal breakeven --run results/nvidia-h200/" in figure.command
    assert table.total == 16
    assert len(dict(csv_tables(mapped))["breakeven.csv"]) == len(made_up_map())
    assert any("roofcal breakeven" in line for line in commands(mapped))


def test_a_run_without_a_map_says_so(analysis: Analysis) -> None:
    blocks = blocks_of(analysis, "breakeven")
    assert blocks == [Prose(text="This run has no break-even map of linears.", quiet=True)]
    assert not any("roofcal breakeven" in line for line in commands(analysis))


@pytest.fixture(scope="module")
def picture() -> Picture:
    return drawn(draw_breakeven(made_up_map()))


def test_facts_count_the_classes(picture: Picture) -> None:
    assert "33 % faster, 33 % uncertain, 33 % slower" in plain(picture.facts)
    assert "24 linears with casts by torch_compile" in picture.facts
    assert "highest 1.60" in picture.facts


def test_a_map_without_casts_is_drawn_without() -> None:
    table = made_up_map()
    shown = drawn(draw_breakeven(table[table["casts"] == "none"]))
    assert "without casts" in shown.facts


def test_an_empty_map_is_not_drawn() -> None:
    assert draw_breakeven(made_up_map().iloc[:0]) is None
