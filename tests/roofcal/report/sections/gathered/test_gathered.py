"""Fused all-gathers in the report: speed-up, ideal, overlap, ranks; what is said where none is."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from roofcal.ops.all_gather_matmul.spec import BOUNDS
from roofcal.report.chapter import Chapter
from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import Prose, Table
from roofcal.report.kit.charts import Picture
from roofcal.report.sections import gathered as section
from roofcal.report.summary import fastest_recipes
from tests.roofcal.report.chapters import blocks_of
from tests.roofcal.report.drawn import drawn
from tests.roofcal.report.gathers import (
    APART,
    NINE,
    WORLD_SIZES,
    gather_s,
    gathered,
    gloo_run,
    product_s,
    true_time,
)
from tests.roofcal.report.synthetic import GPU, MadeUpRun

FEW = NINE[0]


@pytest.fixture(scope="module")
def rows(gathers: Analysis) -> pd.DataFrame:
    return section.timed_rows(gathers.frames[section.OP])


@pytest.fixture(scope="module")
def table(rows: pd.DataFrame) -> pd.DataFrame:
    return section.overlap_table(rows)


def row_of(
    table: pd.DataFrame, provider: str, mode: str = "graph", recipe: str = "bf16"
) -> dict[str, Any]:
    chosen = table[(table["provider"] == provider) & (table["mode"] == mode)]
    chosen = chosen[(chosen["recipe"] == recipe) & (chosen["world_size"] == 8)]
    for axis, size in zip("mnk", FEW, strict=True):
        chosen = chosen[chosen[axis] == size]
    (row,) = chosen.to_dict("records")
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


def test_every_key_has_its_rows_graphs_first(table: pd.DataFrame) -> None:
    assert len(table) == len(WORLD_SIZES) * 3 * len(NINE) * len(section.FUSED)
    assert list(dict.fromkeys(table["world_size"])) == list(WORLD_SIZES)
    bf16 = table[table["recipe"] == "bf16"]
    assert list(dict.fromkeys(bf16["mode"])) == ["graph", "eager"]


def test_eager_calls_compare_with_eager_calls_and_have_no_prediction(table: pd.DataFrame) -> None:
    row = row_of(table, "torch_fused", "eager")
    sequence = true_time(gathered("nccl_then_gemm", FEW, eager=True))
    assert row["speedup"] == pytest.approx(sequence / 700e-6)
    assert row["hidden"] < 0
    assert pd.isna(row["predicted_s"])


def test_without_bounds_there_is_a_speedup_and_no_ideal(rows: pd.DataFrame) -> None:
    bare = section.overlap_table(rows[~rows["provider"].isin(BOUNDS)])
    assert bare["speedup"].notna().all()
    assert bare[["ideal", "hidden", "over_product"]].isna().all(axis=None)
    assert "perfect" not in " ".join(section.answer_sentences(bare))


def test_where_nothing_is_fused_the_row_is_that_in_sequence(rows: pd.DataFrame) -> None:
    plain = section.overlap_table(rows[~rows["provider"].isin(section.FUSED)])
    assert set(plain["provider"]) == {"nccl_then_gemm"}
    assert set(plain["speedup"]) == {1.0}
    assert plain["hidden"].isna().all()
    assert section.overlap_summary(plain).empty
    assert list(section.answer_sentences(plain)) == []
    assert section.overlap_table(rows[rows["provider"] != "nccl_then_gemm"]).empty


def test_each_world_size_has_a_sentence_with_its_geometric_mean(table: pd.DataFrame) -> None:
    summed = section.overlap_summary(table)
    eight = summed[(summed["world_size"] == 8) & (summed["provider"] == "symm_mem_fused")]
    row = eight[(eight["mode"] == "graph") & (eight["recipe"] == "bf16")].iloc[0]
    times = [
        true_time(gathered("nccl_then_gemm", s)) / true_time(gathered("symm_mem_fused", s))
        for s in NINE
    ]
    assert row["speedup"] == pytest.approx(section.geometric_mean(pd.Series(times)))
    assert (row["least"], row["most"]) == pytest.approx((min(times), max(times)))
    sentences = list(section.answer_sentences(table))
    assert len(sentences) == len(WORLD_SIZES)
    assert sentences[-1].startswith("On 8 GPUs symm_mem_fused is ")
    assert "perfect overlap would be" in sentences[-1]


def test_world_sizes_without_link_constants_are_named(
    gathers: Analysis, rows: pd.DataFrame
) -> None:
    assert section.unpredicted_sentence(rows, gathers.run.calibration) == ""
    assert section.unpredicted_sentence(rows, None) == ""
    calibrated_on_two = MadeUpRun(GPU)
    calibrated_on_two.constant("link.all_gather.2.bytes_per_s", 1e9, "B/s")
    sentence = section.unpredicted_sentence(rows, calibrated_on_two.calibration())
    assert sentence.startswith("Not predicted on 4 and 8 devices")


def test_the_words_beside_figures_name_the_extremes(
    rows: pd.DataFrame, table: pd.DataFrame
) -> None:
    wide = rows.assign(rank_spread=rows["rank_spread"] * rows["world_size"])
    assert "the highest is 2.0" in drawn(section.draw_speedup(table)).facts
    assert "the ideal is" not in drawn(section.draw_speedup(table.assign(ideal=np.nan))).facts
    assert "symm_mem_fused" in drawn(section.draw_hidden(table)).facts
    assert "at most 16.0" in drawn(section.draw_ranks(wide)).facts


def test_nothing_is_drawn_of_what_is_not_there(rows: pd.DataFrame, table: pd.DataFrame) -> None:
    none_fused = table[~table["provider"].isin(section.FUSED)]
    assert section.draw_speedup(none_fused) is None
    assert section.draw_hidden(table.assign(hidden=np.nan)) is None
    assert section.draw_ranks(rows[:0]) is None
    without = rows.drop(columns="rank_spread")
    names = [getattr(item, "id", "") for item in section.items_of_gathers(without, None)]
    assert "gathered-points" in names
    assert "gathered-ranks" not in names


def blocks(analysis: Analysis) -> list[Any]:
    return blocks_of(analysis, "gathered")


def test_a_gpu_has_every_figure_and_table(gathers: Analysis) -> None:
    shown = blocks(gathers)
    assert not [b.text for b in shown if isinstance(b, Prose) and b.quiet]
    figures = [b.id.removeprefix("x-figure-") for b in shown if isinstance(b, Picture)]
    names = ("gathered_speedup", "gathered_hidden", "gathered_ranks")
    assert figures == [*(f"{n}-all_gather_matmul" for n in names), "links-probe_link"]
    tables = [b.id.removeprefix("x-") for b in shown if isinstance(b, Table)]
    assert tables == ["gathered-summary", "gathered-points", "gathered-ranks", "links"]
    ranks = next(b.frame for b in shown if isinstance(b, Table) and b.id == "x-gathered-ranks")
    assert len(ranks) == len(WORLD_SIZES) * 5, "kept apart by world size and provider"
    assert ranks["worst"].tolist() == pytest.approx([APART] * len(ranks))


def test_tables_of_several_devices_say_on_how_many(gathers: Analysis) -> None:
    chapter = Chapter(gathers, "x")
    tables = {b.id: b for s in chapter.sections for b in s.blocks if isinstance(b, Table)}
    for name in ("points-all_gather_matmul", "speedups-all_gather_matmul"):
        assert "world_size" in [column.key for column in tables[f"x-{name}"].columns]
    assert "world_size" not in [column.key for column in tables["x-points-gemm"].columns]
    figures = [b.id for s in chapter.sections for b in s.blocks if isinstance(b, Picture)]
    assert not [name for name in figures if "speedup_by" in name]
    assert not gathers.speedups[section.OP].empty
    assert section.OP not in set(fastest_recipes(gathers)["op"]), "devices share a product"


def test_a_cpu_shows_its_gloo_rows_and_what_it_cannot_say(tmp_path: Path) -> None:
    shown = blocks(gloo_run().analysed(tmp_path))
    quiet = [b.text for b in shown if isinstance(b, Prose) and b.quiet]
    assert quiet[0] == section.NOT_FUSED
    assert quiet[1].startswith("Not predicted on 4 devices")
    tables = [b for b in shown if isinstance(b, Table)]
    assert [t.id for t in tables] == ["x-gathered-points", "x-gathered-ranks", "x-links"]
    assert tables[0].total == 2
    assert "gloo_then_gemm" in tables[0].body
    assert "gloo" in tables[2].body


def test_a_panel_has_every_ratio_and_the_ideal(table: pd.DataFrame) -> None:
    chart = drawn(section.draw_speedup(table))
    recipes = ("bf16", "fp8_axiswise")
    assert [p.title for p in chart.panels] == [
        f"{n} GPUs, {r}" for n in WORLD_SIZES for r in recipes
    ]
    chosen = table[(table["world_size"] == 2) & (table["recipe"] == "bf16")]
    ideal = chosen[chosen["mode"] == "graph"].drop_duplicates(["m", "n", "k"])["ideal"]
    for name, expected in (("points", chosen["speedup"]), ("ideal", ideal)):
        shown = chart.rows_of(name, chart.panels[0])["speedup"]
        assert sorted(shown) == pytest.approx(sorted(expected))
