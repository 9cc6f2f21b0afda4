"""Accuracy of float8 linears in the report: every point once, what fast sums cost, and speed."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.ops.linear.spec import OUTPUTS
from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import Prose, Table
from roofcal.report.kit.charts import Picture
from roofcal.report.sections import linear_accuracy as section
from tests.roofcal.report.chapters import blocks_of, csv_tables
from tests.roofcal.report.drawn import drawn
from tests.roofcal.report.linears import (
    CUBE,
    DATA,
    LONG,
    LOST_PER_TERM,
    RECIPES,
    SPEED,
    TWO_LEVEL,
    linear,
    linear_run,
    true_db,
)


@pytest.fixture(scope="module")
def rows(linears: Analysis) -> pd.DataFrame:
    return section.accuracy_rows(linears.frames["linear"])


def blocks(analysis: Analysis) -> list[Any]:
    return blocks_of(analysis, "linear-accuracy")


def test_every_point_has_the_decibels_of_its_outputs(rows: pd.DataFrame) -> None:
    row = rows[(rows["recipe"] == "fp8_axiswise") & (rows["k"] == 16384)]
    positive = row[row["data"] == "all positive"].iloc[0]
    point = linear("fp8_axiswise", LONG[0], "all_positive")
    for output in OUTPUTS:
        assert positive[f"{output}_sqnr_db"] == pytest.approx(true_db(point, output))


def test_a_point_counts_once_and_those_without_a_result_do_not(rows: pd.DataFrame) -> None:
    keys = ["recipe", "provider", "distribution", "m", "n", "k"]
    assert not rows.duplicated(keys).any()
    assert "mxfp8" not in set(rows["recipe"])
    cube = rows[(rows["m"] == 4096) & (rows["data"] == "normal")]
    assert set(cube["method"]) == {"accuracy"}
    assert set(rows.loc[rows["k"] == 1024, "distribution"]) == {"normal", "all_positive"}


def test_recipes_and_data_stand_in_their_order(rows: pd.DataFrame) -> None:
    assert list(dict.fromkeys(rows["recipe"])) == [*RECIPES, *TWO_LEVEL.values()]
    assert section.data_kinds(rows) == [name.replace("_", " ") for name in DATA]
    assert section.data_kinds(rows[rows["k"] == 1024][:1]) == ["normal"]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("fp8_axiswise", "fp8_axiswise"),
        (TWO_LEVEL["tensorwise"], "fp8_tensorwise, two-level"),
        (
            "axiswise*axiswise+axiswise*axiswise+axiswise*axiswise@two_level",
            "fp8_axiswise, two-level in grad_weight",
        ),
        (
            "axiswise*axiswise+axiswise*tensorwise+axiswise*axiswise@two_level",
            "axiswise*axiswise+axiswise*tensorwise+axiswise*axiswise@two_level",
        ),
    ],
)
def test_a_recipe_is_named_by_what_it_has_beside_a_named_one(name: str, label: str) -> None:
    assert section.recipe_label(name) == label


def test_what_fast_accumulation_costs_depends_on_the_product_alone(rows: pd.DataFrame) -> None:
    pairs = section.accumulation_table(rows)
    assert len(pairs) == len(LONG) * len(OUTPUTS) * len(TWO_LEVEL)
    assert pairs["lost_db"].tolist() == pytest.approx((pairs["terms"] * LOST_PER_TERM).tolist())
    long = pairs[pairs["terms"] == 16384]
    assert list(long["product"]) == [name for name in OUTPUTS for _ in TWO_LEVEL]
    shapes = {tuple(s) for s in long[["product", "m", "n", "k"]].to_numpy().tolist()}
    assert shapes == {(name, *sizes) for name, sizes in zip(OUTPUTS, LONG, strict=True)}


def test_speed_stands_beside_accuracy_of_the_same_shape(
    linears: Analysis, rows: pd.DataFrame
) -> None:
    table = section.speed_and_accuracy(rows, linears.speedups["linear"])
    assert len(table) == 2 * (len(RECIPES) - 1)
    at_cube = table[table["m"] == CUBE[0]].set_index("recipe")
    assert at_cube["speedup"].to_dict() == pytest.approx({r: SPEED[r] for r in RECIPES[1:]})
    assert at_cube.loc["fp8_axiswise_bf16_grad_weight", "grad_weight_sqnr_db"] == pytest.approx(55)


def test_the_answer_is_in_decibels_by_data_and_product(rows: pd.DataFrame) -> None:
    data, fast = section.answer_sentences(rows, section.accumulation_table(rows))
    assert "28.5 to 29.5 dB on normal data, 29.5 to 30.5 dB on outlier channels data" in data
    assert "38.0 to 51.0 dB on all positive data; bf16 has 55.0 dB." in data
    assert fast == (
        "What fast accumulation costs against two-level, on all positive data: over 16,384 terms "
        "12.0 dB in output, 12.0 dB in grad_input, 12.0 dB in grad_weight; over 1,024 terms 0.8 dB "
        "in output, 0.8 dB in grad_input, 0.8 dB in grad_weight."
    )


def test_an_answer_without_pairs_or_fp8_says_so(rows: pd.DataFrame) -> None:
    nothing = section.accumulation_table(rows[:0])
    (fast,) = section.answer_sentences(rows[rows["recipe"] == "bf16"], nothing)
    assert "was not measured here: that takes a GPU" in fast
    assert list(nothing.columns) == [column.key for column in section.ACCUMULATION]


def test_the_section_has_answer_figures_and_tables(linears: Analysis) -> None:
    shown = blocks(linears)
    assert [b.quiet for b in shown if isinstance(b, Prose)] == [False, False, False]
    figures = [b.id for b in shown if isinstance(b, Picture)]
    names = ("accuracy", "accuracy_by_shape", "accuracy_and_speed")
    assert figures == [f"x-figure-linear_{name}-linear" for name in names]
    tables = [b.source for b in shown if isinstance(b, Table)]
    assert tables == ["linear_accumulation.csv", "nvidia-h200_linear.csv"]


def test_without_times_the_section_says_what_takes_them(tmp_path: Path, h200: DeviceSpec) -> None:
    untimed = linear_run(timed=False).analysed(tmp_path, h200)
    shown = blocks(untimed)
    assert [b.text for b in shown if isinstance(b, Prose) and b.quiet] == [section.NO_SPEED]
    assert "linear_speed_and_accuracy.csv" not in dict(csv_tables(untimed))
    assert untimed.timed == 0
    assert untimed.ok == len(untimed.frames["linear"]) - 1


def test_emulated_sums_and_records_from_before_have_no_such_rows(
    linears: Analysis, rows: pd.DataFrame
) -> None:
    emulated = rows.assign(provider=section.EMULATED)
    assert section.accumulation_table(emulated).empty
    speedups = linears.speedups["linear"].assign(provider=section.EMULATED)
    assert section.speed_and_accuracy(emulated, speedups).empty
    frame = linears.frames["linear"].drop(columns=list(section.SQNR))
    assert section.accuracy_rows(frame).empty


def test_the_words_beside_figures_name_the_extremes(linears: Analysis, rows: pd.DataFrame) -> None:
    lowest = "lowest: 28.0 dB in output of fp8_tensorwise by triton, heavy tails"
    assert lowest in drawn(section.draw_matrix(rows)).facts
    assert "on all positive data: 38.0 to 49." in drawn(section.draw_dots(rows)).facts
    table = section.speed_and_accuracy(rows, linears.speedups["linear"])
    facts = drawn(section.draw_speed(table)).facts
    assert "the fastest is fp8_tensorwise by triton" in facts
    assert "1.50\N{MULTIPLICATION SIGN} with 28.5 dB" in facts


def test_products_of_one_accuracy_are_a_sentence(linears: Analysis, rows: pd.DataFrame) -> None:
    table = section.speed_and_accuracy(rows, linears.speedups["linear"])
    assert section.equal_accuracy_text(table).endswith(
        "in output (28.5 to 29.5 dB) and grad_input (28.5 to 29.5 dB)."
    )
    tensorwise = table[table["recipe"] == "fp8_tensorwise"]
    assert section.draw_speed(tensorwise) is None
    assert "grad_weight" in section.equal_accuracy_text(tensorwise)


def test_a_cell_is_the_lowest_and_providers_have_rows_of_their_own(rows: pd.DataFrame) -> None:
    cells = drawn(section.draw_matrix(rows)).tables["points"]
    own = cells[(cells["data"] == "all positive") & (cells["name"] == "fp8_tensorwise")]
    assert list(own["label"]) == ["38.0"] * 3
    other = rows[rows["recipe"] == "fp8_axiswise"].assign(provider="torchao")
    names = drawn(section.draw_matrix(pd.concat([rows, other]))).tables["points"]["name"]
    assert {"fp8_axiswise (triton)", "fp8_axiswise (torchao)", "bf16"} <= set(names)
