"""Fused all-gathers in the report: speed-up, ideal, overlap, ranks; what is said where none is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from roofcal.ops.all_gather_matmul.spec import BOUNDS
from roofcal.ops.probe_link.model import COLLECTIVES, share
from roofcal.ops.probe_link.spec import RECIPES
from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.charts import Picture
from roofcal.report.sections import gathered as section
from roofcal.report.summary import fastest_recipes
from tests.roofcal.report.chapters import Shown, plain, shown_of
from tests.roofcal.report.gathers import (
    APART,
    DIRECT,
    NCCL,
    NINE,
    SIZES,
    WORLD_SIZES,
    gather_s,
    gathered,
    gloo_run,
    product_s,
    true_time,
)

FEW = NINE[0]
FUSED = ["symm_mem_fused", "torch_fused"]


@pytest.fixture(scope="module")
def shown(gathers: Analysis) -> Shown:
    return shown_of(gathers, "gathered")


@pytest.fixture(scope="module")
def table(shown: Shown) -> pd.DataFrame:
    return shown.files["gathered_overlap.csv"]


def shown_with(gathers: Analysis, rows: pd.DataFrame) -> Shown:
    """What is shown where only these rows of the op were measured."""
    return shown_of(gathers, "gathered", all_gather_matmul=rows)


def row_of(table: pd.DataFrame, provider: str, mode: str = "graph") -> dict[str, Any]:
    """The row of bf16 on eight devices, at FEW if the table has rows of shapes."""
    keys = {"provider": provider, "mode": mode, "recipe": "bf16", "world_size": 8}
    keys |= dict(zip("mnk", FEW, strict=True)) if "m" in table else {}
    (row,) = table[(table[list(keys)] == pd.Series(keys)).all(axis=1)].to_dict("records")
    return {str(name): value for name, value in row.items()}


def test_a_fused_row_has_speedup_ideal_and_what_is_hidden(table: pd.DataFrame) -> None:
    point = gathered("symm_mem_fused", FEW)
    sequence, fused = true_time(gathered("nccl_then_gemm", FEW)), true_time(point)
    bounds = (product_s(point), gather_s(point))
    row = row_of(table, "symm_mem_fused")
    assert row["speedup"] == pytest.approx(sequence / fused)
    assert row["speedup_low"] < row["speedup"] < row["speedup_high"]
    assert row["ideal"] == pytest.approx(sequence / max(bounds))
    assert row["hidden"] == pytest.approx((sequence - fused) / min(bounds))
    assert row["predicted_hidden"] == pytest.approx(row["hidden"])
    assert row["rank_spread"] == pytest.approx(APART)
    assert row["over_product"] == pytest.approx(fused / product_s(point) - 1)


def test_eager_calls_compare_with_eager_calls_and_have_no_prediction(table: pd.DataFrame) -> None:
    row = row_of(table, "torch_fused", "eager")
    sequence = true_time(gathered("nccl_then_gemm", FEW, eager=True))
    assert row["speedup"] == pytest.approx(sequence / 700e-6)
    assert row["hidden"] < 0
    assert pd.isna(row["predicted_s"])


def test_without_bounds_there_is_a_speedup_and_no_ideal(gathers: Analysis) -> None:
    frame = gathers.frames[section.OP]
    frame = frame[~frame["provider"].isin(BOUNDS)].assign(rank_spread=np.nan)
    bare = shown_with(gathers, frame)
    table = bare.files["gathered_overlap.csv"]
    assert table["speedup"].notna().all()
    assert table[["ideal", "hidden", "over_product"]].isna().all(axis=None)
    assert "perfect" not in " ".join(bare.prose)
    assert set(bare.figures) == {"gathered_speedup"}
    assert "the ideal is" not in bare.figures["gathered_speedup"].facts


def test_where_nothing_is_fused_the_row_is_that_in_sequence(gathers: Analysis) -> None:
    frame = gathers.frames[section.OP].drop(columns="rank_spread")
    plainly = shown_with(gathers, frame[~frame["provider"].isin(FUSED)])
    table = plainly.files["gathered_overlap.csv"]
    assert (set(table["provider"]), set(table["speedup"])) == ({"nccl_then_gemm"}, {1.0})
    assert table["hidden"].isna().all()
    assert (plainly.prose, plainly.quiet, plainly.figures) == ([], [section.NOT_FUSED], {})
    assert set(plainly.tables) == {"gathered-points", "links"}
    alone = shown_with(gathers, frame[frame["provider"] != "nccl_then_gemm"])
    assert not alone.files, "nothing to compare with"


def test_each_world_size_has_a_sentence_with_its_geometric_mean(shown: Shown) -> None:
    row = row_of(shown.tables["gathered-summary"].frame, "symm_mem_fused")
    ratios = [
        true_time(gathered("nccl_then_gemm", s)) / true_time(gathered("symm_mem_fused", s))
        for s in NINE
    ]
    assert row["speedup"] == pytest.approx(float(np.prod(ratios)) ** (1 / len(NINE)))
    assert (row["least"], row["most"]) == pytest.approx((min(ratios), max(ratios)))
    assert len(shown.prose) == len(WORLD_SIZES)
    assert shown.prose[-1].startswith("On 8 GPUs symm_mem_fused is ")
    assert "perfect overlap would be" in shown.prose[-1]


def test_world_sizes_without_link_constants_are_named(gathers: Analysis, shown: Shown) -> None:
    assert shown.quiet == []
    calibration = gathers.run.calibration
    assert calibration is not None
    constants = calibration.constants
    of_two = {n: c for n, c in constants.items() if not n.startswith("link.all_gather.")}
    of_two |= {n: c for n, c in constants.items() if n.startswith("link.all_gather.2.")}
    fewer = replace(gathers.run, calibration=replace(calibration, constants=of_two))
    (told,) = shown_of(replace(gathers, run=fewer), "gathered").quiet
    assert told.startswith("Not predicted on 4 and 8 devices")
    without = replace(gathers, run=replace(gathers.run, calibration=None))
    shown = shown_of(without, "gathered")
    assert (shown.quiet, "links" in shown.tables) == ([], False)
    assert shown.figures["links"].tables["fits"].empty


def test_a_gpu_has_every_figure_and_table(shown: Shown, table: pd.DataFrame) -> None:
    names = ["gathered_speedup", "gathered_hidden", "gathered_ranks", "links"]
    assert list(shown.figures) == names
    assert list(shown.tables) == ["gathered-summary", "gathered-points", "gathered-ranks", "links"]
    assert len(table) == len(WORLD_SIZES) * 3 * len(NINE) * len(FUSED)
    bf16 = table[table["recipe"] == "bf16"]
    assert list(dict.fromkeys(bf16["mode"])) == ["graph", "eager"]
    ranks = shown.tables["gathered-ranks"].frame
    assert len(ranks) == len(WORLD_SIZES) * 5, "kept apart by world size and provider"
    assert ranks["worst"].tolist() == pytest.approx([APART] * len(ranks))
    facts = {key: plain(figure.facts) for key, figure in shown.figures.items()}
    assert "the highest is 2.0" in facts["gathered_speedup"]
    assert "hidden in the median: symm_mem_fused" in facts["gathered_hidden"]
    assert "at most 2.0 % (" in facts["gathered_ranks"]


def test_tables_of_several_devices_say_on_how_many(gathers: Analysis) -> None:
    points, speedups = shown_of(gathers, "points").tables, shown_of(gathers, "speedup")
    for table in (points["points-all_gather_matmul"], speedups.tables[f"speedups-{section.OP}"]):
        assert "world_size" in [column.key for column in table.columns]
    assert "world_size" not in [column.key for column in points["points-gemm"].columns]
    assert not speedups.figures
    assert section.OP not in set(fastest_recipes(gathers)["op"]), "devices share a product"


def test_a_cpu_shows_its_gloo_rows_and_what_it_cannot_say(tmp_path: Path) -> None:
    shown = shown_of(gloo_run().analysed(tmp_path), "gathered")
    assert shown.quiet[0] == section.NOT_FUSED
    assert shown.quiet[1].startswith("Not predicted on 4 devices")
    assert list(shown.tables) == ["gathered-points", "gathered-ranks", "links"]
    points = shown.tables["gathered-points"].frame
    assert list(points["provider"]) == ["gloo_then_gemm"] * 2
    assert list(shown.tables["links"].frame["by"]) == ["gloo"]


def test_a_panel_has_every_ratio_and_the_ideal(shown: Shown, table: pd.DataFrame) -> None:
    chart = shown.figures["gathered_speedup"]
    recipes = ("bf16", "fp8_axiswise")
    assert [p.title for p in chart.panels] == [
        f"{n} GPUs, {r}" for n in WORLD_SIZES for r in recipes
    ]
    chosen = table[(table["world_size"] == 2) & (table["recipe"] == "bf16")]
    ideal = chosen[chosen["mode"] == "graph"].drop_duplicates(["m", "n", "k"])["ideal"]
    for name, expected in (("points", chosen["speedup"]), ("ideal", ideal)):
        drawn = chart.rows_of(name, chart.panels[0])["speedup"]
        assert sorted(drawn) == pytest.approx(sorted(expected))


# --- the links ---

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
