"""SQNR as numbers, as dots and beside speed, drawn from a run whose decibels are known."""

import numpy as np
import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.ops.linear.spec import OUTPUTS
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.sections.linear_accuracy import (
    accuracy_rows,
    draw_dots,
    draw_matrix,
    draw_speed,
    equal_accuracy_text,
    speed_and_accuracy,
)
from tests.roofcal.report.drawn import dots
from tests.roofcal.report.linears import CUBE, DATA, LONG, RECIPES, linear, linear_run, true_db


@pytest.fixture(scope="module")
def linears(tmp_path_factory: pytest.TempPathFactory, h200: DeviceSpec) -> Analysis:
    return analyse(load_run(linear_run().write(tmp_path_factory.mktemp("linears"))), h200)


@pytest.fixture(scope="module")
def rows(linears: Analysis) -> pd.DataFrame:
    return accuracy_rows(linears.frames["linear"])


def test_a_cell_has_the_lowest_of_all_shapes_as_a_number(rows: pd.DataFrame) -> None:
    picture = draw_matrix(rows)
    assert picture is not None
    panels = {axes.get_title(loc="left"): axes for axes in picture.figure.axes}
    assert list(panels) == [name.replace("_", " ") for name in DATA]
    positive = [text.get_text() for text in panels["all positive"].texts]
    assert positive[3:6] == ["38.0"] * 3  # of tensorwise: each product has its long sum
    normal = [text.get_text() for text in panels["normal"].texts]
    assert len(normal) == 3 * len(RECIPES)  # none of the two-level twins
    labels = [text.get_text() for text in panels["normal"].get_yticklabels()]
    assert labels[0] == "bf16"
    assert labels[-1] == "fp8_axiswise, two-level"
    assert "lowest: 28.0 dB in output of fp8_tensorwise by triton, heavy tails" in picture.facts


def test_providers_of_one_recipe_have_rows_of_their_own(rows: pd.DataFrame) -> None:
    other = rows[rows["recipe"] == "fp8_axiswise"].assign(provider="torchao")
    picture = draw_matrix(pd.concat([rows, other]))
    assert picture is not None
    labels = [text.get_text() for text in picture.figure.axes[0].get_yticklabels()]
    assert {"fp8_axiswise (triton)", "fp8_axiswise (torchao)", "bf16"} <= set(labels)


def test_a_long_recipe_is_broken_and_its_row_is_higher(rows: pd.DataFrame) -> None:
    line = "axiswise*axiswise+axiswise*tensorwise+axiswise*axiswise@two_level"
    usual, wide = draw_dots(rows), draw_dots(rows.assign(label=line))
    assert usual is not None
    assert wide is not None
    labels = [text.get_text() for text in wide.figure.axes[0].get_yticklabels()]
    assert labels == [line.replace("+", "+\n")]
    per_row = wide.figure.get_figheight() - 95 / 72
    assert per_row > (usual.figure.get_figheight() - 95 / 72) / (len(RECIPES) + 2)


def test_a_dot_is_the_sqnr_of_a_shape(rows: pd.DataFrame) -> None:
    picture = draw_dots(rows)
    assert picture is not None
    panel = next(a for a in picture.figure.axes if a.get_title(loc="left") == "outlier channels")
    drawn = np.sort(dots(panel)[:, 0])
    points = [linear(r, s, "outlier_channels") for r in RECIPES for s in (CUBE, LONG[0])]
    expected = np.sort([true_db(point, output) for point in points for output in OUTPUTS])
    assert drawn == pytest.approx(expected)
    assert "on all positive data: 38.0 to 49." in picture.facts


def test_speed_and_accuracy_are_the_two_axes(linears: Analysis) -> None:
    table = speed_and_accuracy(linears.frames["linear"], linears.speedups["linear"])
    picture = draw_speed(table)
    assert picture is not None
    assert [axes.get_title(loc="left") for axes in picture.figure.axes] == ["grad_weight"]
    last = dots(picture.figure.axes[-1])
    best = last[last[:, 1] > 50]
    assert best[:, 0] == pytest.approx([1.1, 1.1])
    assert "the fastest is fp8_tensorwise by triton" in picture.facts
    assert "1.50\N{MULTIPLICATION SIGN} with 28.5 dB" in picture.facts


def test_products_of_one_accuracy_are_a_sentence(linears: Analysis) -> None:
    table = speed_and_accuracy(linears.frames["linear"], linears.speedups["linear"])
    assert equal_accuracy_text(table).endswith(
        "in output (28.5 to 29.5 dB) and grad_input (28.5 to 29.5 dB)."
    )
    tensorwise = table[table["recipe"] == "fp8_tensorwise"]
    assert draw_speed(tensorwise) is None
    assert "grad_weight" in equal_accuracy_text(tensorwise)


def test_nothing_is_drawn_of_what_is_not_there(rows: pd.DataFrame) -> None:
    assert draw_matrix(rows[:0]) is None
    assert draw_dots(rows[:0]) is None
    assert draw_speed(pd.DataFrame()) is None
