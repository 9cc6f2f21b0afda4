"""Links between devices: constants as rows, curves as bytes over a link, and which fit is whose."""

from dataclasses import replace

import pandas as pd
import pytest

from roofcal.ops.probe_link.model import COLLECTIVES, share
from roofcal.ops.probe_link.spec import RECIPES
from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.charts import Picture
from tests.roofcal.report.chapters import shown_of
from tests.roofcal.report.drawn import plain
from tests.roofcal.report.gathers import DIRECT, NCCL, SIZES, WORLD_SIZES

CURVES = len(WORLD_SIZES) * (2 * len(COLLECTIVES) - 1)


def figure_of(analysis: Analysis, frame: pd.DataFrame) -> Picture:
    """The figure where these rows of the probe alone were measured, without a datasheet."""
    without = replace(analysis, spec=None)
    return shown_of(without, "gathered", probe_link=frame).figures["links"]


def test_a_row_has_rate_and_latency_of_a_collective_with_intervals(gathers: Analysis) -> None:
    table = shown_of(gathers, "gathered").tables["links"].frame
    assert len(table) == CURVES
    on_four = table[(table["collective"] == "all_gather") & (table["world_size"] == 4)]
    assert on_four["by"].tolist() == ["nccl", "symm_mem"]
    assert on_four["latency"].tolist() == [NCCL[0], DIRECT[0]]
    assert on_four["rate"].tolist() == [NCCL[1], DIRECT[1]]
    assert (table["rate_low"] < table["rate"]).all()
    assert (table["latency_high"] > table["latency"]).all()
    assert set(table.loc[table["collective"] == "send", "by"]) == {"symm_mem"}


def test_one_method_makes_the_curves_graph_before_the_clock(gathers: Analysis) -> None:
    frame = gathers.frames["probe_link"]
    by_clock = frame.assign(method="wall", median_s=2 * frame["median_s"])
    drawn = figure_of(gathers, pd.concat([frame, by_clock])).tables["points"]
    assert sorted(drawn["median_s"]) == sorted(frame["median_s"])
    rows = drawn[(drawn["recipe"] == "all_reduce") & (drawn["provider"] == "nccl")]
    row = rows[(rows["devices"] == "8 devices") & (rows["size_bytes"] == SIZES[-1])].iloc[0]
    moved = share("all_reduce", 8) * SIZES[-1]
    assert row["rate"] == pytest.approx(moved / (NCCL[0] + moved / NCCL[1])), "bytes over a link"
    assert len(figure_of(gathers, by_clock).tables["points"]) == len(frame)


def test_a_panel_per_collective_has_dots_on_the_fitted_lines(gathers: Analysis) -> None:
    chart = shown_of(gathers, "gathered").figures["links"]
    titles = [panel.title for panel in chart.panels]
    assert titles == [recipe.replace("_", " ") for recipe in RECIPES]
    first = chart.panels[0]
    assert len(chart.rows_of("points", first)) == len(WORLD_SIZES) * len(SIZES)
    fits = dict(list(chart.rows_of("fits", first).groupby("series")))
    assert len(fits) == len(WORLD_SIZES), "by symmetric memory alone, as it was measured"
    both = chart.rows_of("fits", chart.panels[-1]).groupby(["provider", "devices"])
    assert len(both) == 2 * len(WORLD_SIZES)
    assert next(iter(fits.values()))["rate"].iloc[-1] == pytest.approx(
        SIZES[-1] / (DIRECT[0] + SIZES[-1] / DIRECT[1])
    )
    assert "Highest: all_reduce by symm_mem on 8 devices" in chart.facts
    assert plain(chart.legend[-1].label) == "datasheet, one way 450 GB/s"
    assert list(chart.tables["levels"]["rate"]) == [450e9]


def test_a_collective_that_was_not_measured_has_no_panel(gathers: Analysis) -> None:
    frame = gathers.frames["probe_link"]
    chart = figure_of(gathers, frame[frame["recipe"] != "copy_engine_peer"])
    assert len(chart.panels) == len(RECIPES) - 1
    assert chart.tables["levels"].empty, "without a datasheet"
