"""Links between devices: constants as rows, curves as bytes over a link, and which fit is whose."""

import pandas as pd
import pytest

from roofcal.ops.probe_link.model import COLLECTIVES, share
from roofcal.ops.probe_link.spec import RECIPES
from roofcal.report.data.analysis import Analysis
from roofcal.report.sections.gathered import links as section
from tests.roofcal.report.drawn import drawn
from tests.roofcal.report.gathers import DIRECT, NCCL, SIZES, WORLD_SIZES, gloo_run


def test_a_row_has_rate_and_latency_of_a_collective_with_intervals(gathers: Analysis) -> None:
    table = section.link_constants(gathers.run.calibration)
    assert len(table) == len(WORLD_SIZES) * (2 * len(COLLECTIVES) - 1)
    on_four = table[(table["collective"] == "all_gather") & (table["world_size"] == 4)]
    assert on_four["by"].tolist() == ["nccl", "symm_mem"]
    assert on_four["latency"].tolist() == [NCCL[0], DIRECT[0]]
    assert on_four["rate"].tolist() == [NCCL[1], DIRECT[1]]
    assert (table["rate_low"] < table["rate"]).all()
    assert (table["latency_high"] > table["latency"]).all()
    assert set(table.loc[table["collective"] == "send", "by"]) == {"symm_mem"}


def test_gloo_is_recognised_by_its_evidence_and_no_calibration_gives_no_rows() -> None:
    assert list(section.link_constants(gloo_run().calibration())["by"]) == ["gloo"]
    assert section.link_constants(None).empty


def test_curves_are_bytes_over_a_link(gathers: Analysis) -> None:
    rows = section.link_curves(gathers.frames[section.OP])
    assert len(rows) == len(WORLD_SIZES) * (2 * len(COLLECTIVES) - 1) * len(SIZES)
    reduced = rows[(rows["recipe"] == "all_reduce") & (rows["provider"] == "nccl")]
    row = reduced[(reduced["world_size"] == 8) & (reduced["size_bytes"] == SIZES[-1])].iloc[0]
    moved = share("all_reduce", 8) * SIZES[-1]
    assert row["moved_bytes"] == pytest.approx(moved)
    assert row["rate"] == pytest.approx(moved / (NCCL[0] + moved / NCCL[1]))


def test_one_method_makes_the_curves_graph_before_the_clock(gathers: Analysis) -> None:
    frame = gathers.frames[section.OP]
    twice = pd.concat([frame, frame.assign(method="wall")])
    assert len(section.link_curves(twice)) == len(frame)
    assert len(section.link_curves(frame.assign(method="wall"))) == len(frame)
    assert section.link_curves(frame[:0]).empty
    assert section.link_curves(None).empty


def test_a_panel_per_collective_has_dots_on_the_fitted_lines(gathers: Analysis) -> None:
    rows, fitted = (
        section.link_curves(gathers.frames[section.OP]),
        section.link_constants(gathers.run.calibration),
    )
    picture = section.draw_links(rows, fitted, gathers.spec)
    chart = drawn(picture)
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
    assert "Highest: all_reduce by symm_mem on 8 devices" in drawn(picture).facts
    assert chart.legend[-1].label == "datasheet, one way 450\N{NO-BREAK SPACE}GB/s"
    assert list(chart.tables["levels"]["rate"]) == [450e9]


def test_dots_stand_alone_where_nothing_was_fitted(gathers: Analysis) -> None:
    rows = section.link_curves(gathers.frames[section.OP])
    picture = section.draw_links(
        rows[rows["recipe"] != "copy_engine_peer"], section.link_constants(None), None
    )
    chart = drawn(picture)
    assert len(chart.panels) == 3
    assert chart.tables["fits"].empty
    assert chart.tables["levels"].empty


def test_without_probes_nothing_is_drawn(gathers: Analysis) -> None:
    assert (
        section.draw_links(
            section.link_curves(None), section.link_constants(gathers.run.calibration), None
        )
        is None
    )
