"""Accuracy of float8 linears in the report: every point once, what fast sums cost, and speed."""

from pathlib import Path

import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.ops.linear.spec import OUTPUTS
from roofcal.report.data.analysis import Analysis
from roofcal.report.sections import linear_accuracy as section
from tests.roofcal.report.chapters import Shown, plain, shown_of
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

KEY = "linear-accuracy"


@pytest.fixture(scope="module")
def shown(linears: Analysis) -> Shown:
    return shown_of(linears, KEY)


@pytest.fixture(scope="module")
def rows(shown: Shown) -> pd.DataFrame:
    return shown.tables["linear-accuracy-points"].frame


def test_every_point_counts_once_with_the_decibels_of_its_outputs(
    shown: Shown, rows: pd.DataFrame
) -> None:
    row = rows[(rows["recipe"] == "fp8_axiswise") & (rows["k"] == 16384)]
    positive = row[row["data"] == "all positive"].iloc[0]
    point = linear("fp8_axiswise", LONG[0], "all_positive")
    for output in OUTPUTS:
        assert positive[f"{output}_sqnr_db"] == pytest.approx(true_db(point, output))
    assert not rows.duplicated(["recipe", "provider", "distribution", "m", "n", "k"]).any()
    assert "mxfp8" not in set(rows["recipe"]), "it has no result"
    cube = rows[(rows["m"] == 4096) & (rows["data"] == "normal")]
    assert set(cube["method"]) == {"accuracy"}
    assert set(rows.loc[rows["k"] == 1024, "distribution"]) == {"normal", "all_positive"}
    assert list(dict.fromkeys(rows["recipe"])) == [*RECIPES, *TWO_LEVEL.values()]
    kinds = [panel.title for panel in shown.figures["linear_accuracy"].panels]
    assert kinds == [name.replace("_", " ") for name in DATA]


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


def test_what_fast_accumulation_costs_depends_on_the_product_alone(shown: Shown) -> None:
    pairs = shown.files["linear_accumulation.csv"]
    assert len(pairs) == len(LONG) * len(OUTPUTS) * len(TWO_LEVEL)
    assert pairs["lost_db"].tolist() == pytest.approx((pairs["terms"] * LOST_PER_TERM).tolist())
    long = pairs[pairs["terms"] == 16384]
    assert list(long["product"]) == [name for name in OUTPUTS for _ in TWO_LEVEL]
    shapes = {tuple(s) for s in long[["product", "m", "n", "k"]].to_numpy().tolist()}
    assert shapes == {(name, *sizes) for name, sizes in zip(OUTPUTS, LONG, strict=True)}


def test_speed_stands_beside_accuracy_of_the_same_shape(shown: Shown) -> None:
    table = shown.files["linear_speed_and_accuracy.csv"]
    assert len(table) == 2 * (len(RECIPES) - 1)
    at_cube = table[table["m"] == CUBE[0]].set_index("recipe")
    assert at_cube["speedup"].to_dict() == pytest.approx({r: SPEED[r] for r in RECIPES[1:]})
    assert at_cube.loc["fp8_axiswise_bf16_grad_weight", "grad_weight_sqnr_db"] == pytest.approx(55)


def test_the_answer_is_in_decibels_by_data_and_product(shown: Shown) -> None:
    data, fast, equal = shown.prose
    assert "28.5 to 29.5 dB on normal data, 29.5 to 30.5 dB on outlier channels data" in data
    assert "38.0 to 51.0 dB on all positive data; bf16 has 55.0 dB." in data
    assert fast == (
        "What fast accumulation costs against two-level, on all positive data: over 16,384 terms "
        "12.0 dB in output, 12.0 dB in grad_input, 12.0 dB in grad_weight; over 1,024 terms 0.8 dB "
        "in output, 0.8 dB in grad_input, 0.8 dB in grad_weight."
    )
    assert equal.endswith("in output (28.5 to 29.5 dB) and grad_input (28.5 to 29.5 dB).")


def test_the_section_has_its_figures_whose_words_name_the_extremes(shown: Shown) -> None:
    by_recipe, by_shape, by_speed = (plain(figure.facts) for figure in shown.figures.values())
    assert "lowest: 28.0 dB in output of fp8_tensorwise by triton, heavy tails" in by_recipe
    assert "on all positive data: 38.0 to 49." in by_shape
    assert "the fastest is fp8_tensorwise by triton" in by_speed
    assert "1.50x with 28.5 dB" in by_speed
    cells = shown.figures["linear_accuracy"].tables["points"]
    own = cells[(cells["data"] == "all positive") & (cells["name"] == "fp8_tensorwise")]
    assert list(own["label"]) == ["38.0"] * 3, "a cell is the lowest"
    assert (list(shown.tables), shown.quiet) == (
        ["linear-accumulation", "linear-accuracy-points"],
        [],
    )


def test_recipes_of_one_accuracy_are_a_sentence_and_no_figure(linears: Analysis) -> None:
    frame = linears.frames["linear"]
    shown = shown_of(linears, KEY, linear=frame[frame["recipe"].isin(["bf16", "fp8_tensorwise"])])
    assert "and grad_weight (" in shown.prose[-1]
    assert "linear_accuracy_and_speed" not in shown.figures
    assert "was not measured here: that takes a GPU" in shown.prose[1], "without pairs"
    plainly = shown_of(linears, KEY, linear=frame[frame["recipe"] == "bf16"])
    assert len(plainly.prose) == 1, "recipes in fp8 have a sentence"


def test_providers_of_a_recipe_have_rows_of_their_own(linears: Analysis) -> None:
    frame = linears.frames["linear"]
    other = frame[frame["recipe"] == "fp8_axiswise"].assign(provider="torchao")
    shown = shown_of(linears, KEY, linear=pd.concat([frame, other], ignore_index=True))
    names = shown.figures["linear_accuracy"].tables["points"]["name"]
    assert {"fp8_axiswise (triton)", "fp8_axiswise (torchao)", "bf16"} <= set(names)


def test_without_times_the_section_says_what_takes_them(tmp_path: Path, h200: DeviceSpec) -> None:
    untimed = linear_run(timed=False).analysed(tmp_path, h200)
    shown = shown_of(untimed, KEY)
    assert shown.quiet == [section.NO_SPEED]
    assert set(shown.files) == {"linear_accumulation.csv"}
    assert untimed.timed == 0
    assert untimed.ok == len(untimed.frames["linear"]) - 1


def test_emulated_sums_and_records_from_before_have_no_such_rows(linears: Analysis) -> None:
    frame = linears.frames["linear"]
    emulated = shown_of(linears, KEY, linear=frame.assign(provider=section.EMULATED))
    assert not emulated.files
    assert not {"linear-accumulation"} & set(emulated.tables)
    before = shown_of(linears, KEY, linear=frame.drop(columns=list(section.SQNR)))
    assert before.quiet == [section.NOT_MEASURED]
    assert not before.tables
