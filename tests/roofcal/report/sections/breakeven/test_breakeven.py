"""The break-even map in the report: read, summed up, drawn with its table and its command."""

from pathlib import Path

import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.report.data.analysis import Analysis
from roofcal.report.sections.breakeven import draw_breakeven
from tests.roofcal.report.chapters import Shown, analysis_with, plain, shown_of


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
        (*kind, m, side, side, ratio, ratio / 1.2, ratio * 1.2, word, 64, 64, most)
        for kind in kinds
        for side, most in ((512, 256), (1024, None))
        for m, (ratio, word) in speedups.items()
    ]
    columns = ["recipe", "pass", "casts", "m", "n", "k", "speedup", "low", "high", "class"]
    ends = ["breakeven_m", "breakeven_m_low", "breakeven_m_high"]
    return pd.DataFrame(rows, columns=[*columns, *ends])


def write_map(folder: Path) -> None:
    made_up_map().to_csv(folder / "breakeven.csv", index=False)


@pytest.fixture(scope="module")
def mapped(folder: Path, h200: DeviceSpec, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """The made-up run with a map."""
    return analysis_with(write_map, folder, h200, tmp_path_factory.mktemp("mapped"))


@pytest.fixture(scope="module")
def shown(mapped: Analysis) -> Shown:
    return shown_of(mapped, "breakeven")


def test_each_weight_has_one_answer(shown: Shown) -> None:
    smallest = shown.tables["breakeven-m"].frame
    assert len(smallest) == 2 * 2 * 2 * 2
    small, large = smallest.to_dict("records")[:2]
    assert (small["n"], small["breakeven_m_low"], small["breakeven_m"]) == (512, 64, 64)
    assert (small["breakeven_m_high"], small["best"]) == (256, 1.6)
    assert pd.isna(large["breakeven_m_high"])
    assert len(shown.files["breakeven.csv"]) == len(made_up_map())


def test_facts_count_the_classes_with_casts_or_without(shown: Shown) -> None:
    facts = plain(shown.figures["breakeven"].facts)
    assert "33 % faster, 33 % uncertain, 33 % slower" in facts
    assert "24 linears with casts by torch_compile" in facts
    assert "highest 1.60" in facts
    table = made_up_map()
    alone = draw_breakeven(table[table["casts"] == "none"], "")
    assert alone is not None
    assert "without casts" in alone.facts
    assert draw_breakeven(table.assign(recipe="fp8_axiswise_slow_accum"), "") is None


def test_each_recipe_and_pass_has_a_panel_of_speedups_and_doubt_is_hatched(shown: Shown) -> None:
    chart = shown.figures["breakeven"]
    panels = [(panel.choice, panel.title) for panel in chart.panels]
    passes, recipes = ("forward", "forward + backward"), ("fp8_tensorwise", "fp8_axiswise")
    assert panels == [(one, recipe) for one in passes for recipe in recipes]
    assert [plain(name) for name in chart.y.order or ()] == ["512 x 512", "1,024 x 1,024"]
    cells = chart.rows_of("points", chart.panels[0])
    assert list(cells["speedup"]) == [0.5, 1.1, 1.6] * 2
    assert [layer.table for layer in chart.layers if layer.mark == "hatched"] == ["uncertain"]
    assert set(chart.tables["uncertain"]["class"]) == {"uncertain"}
    assert len(chart.tables["uncertain"]) == 2 * 4
