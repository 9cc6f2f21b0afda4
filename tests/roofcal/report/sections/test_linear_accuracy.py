"""Accuracy of float8 linears in the report: every point once, what fast sums cost, and speed."""

from pathlib import Path

import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.ops.linear.spec import OUTPUTS
from roofcal.report.data.analysis import Analysis
from roofcal.report.sections import linear_accuracy as section
from tests.roofcal.report.chapters import Shown, shown_of
from tests.roofcal.report.linears import (
    DATA,
    LONG,
    LOST_PER_TERM,
    RECIPES,
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


def test_recipes_of_one_accuracy_are_a_sentence_and_no_figure(linears: Analysis) -> None:
    frame = linears.frames["linear"]
    shown = shown_of(linears, KEY, linear=frame[frame["recipe"].isin(["bf16", "fp8_tensorwise"])])
    assert "and grad_weight (" in shown.prose[-1]
    assert "linear_accuracy_and_speed" not in shown.figures
    assert "was not measured here: that takes a GPU" in shown.prose[1], "without pairs"
    plainly = shown_of(linears, KEY, linear=frame[frame["recipe"] == "bf16"])
    assert len(plainly.prose) == 1, "recipes in fp8 have a sentence"


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
