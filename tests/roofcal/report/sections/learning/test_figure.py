"""Learning curves drawn: a panel per op and provider, the middle repetition, its range."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from roofcal.report.data.drawing import recipe_colour
from roofcal.report.kit.pictures import Picture
from roofcal.report.sections.learning import draw_learning
from tests.roofcal.report.curves import made_up_curves
from tests.roofcal.report.drawn import drawn


@pytest.fixture(scope="module")
def picture() -> Picture:
    return drawn(draw_learning(made_up_curves()))


def panels(picture: Picture) -> dict[str, Any]:
    return {axes.get_title(loc="left"): axes for axes in picture.figure.axes}


def test_products_come_first_then_casts_by_provider(picture: Picture) -> None:
    assert list(panels(picture)) == ["gemm, cublaslt", "cast, torch_eager"]
    assert picture.op == "gemm"


def test_lines_are_the_middle_repetition_in_percent(picture: Picture) -> None:
    lines = {line.get_color(): line for line in panels(picture)["gemm, cublaslt"].lines}
    for recipe, expected in (("bf16", [20, 10]), ("fp8_axiswise", [8, 6])):
        line = lines[recipe_colour(recipe)]
        assert list(line.get_xdata()) == [12, 48]
        assert np.allclose(line.get_ydata(), expected)


def test_bands_reach_from_the_lowest_repetition_to_the_highest(picture: Picture) -> None:
    band, _ = panels(picture)["gemm, cublaslt"].collections
    corners = band.get_paths()[0].vertices
    assert np.allclose([corners[:, 1].min(), corners[:, 1].max()], [5, 80])


def test_both_axes_are_logarithmic_with_plain_numbers(picture: Picture) -> None:
    axes = panels(picture)["gemm, cublaslt"]
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert axes.xaxis.get_major_formatter()(20, 0) == "20"
    assert axes.yaxis.get_major_formatter()(20, 0) == "20\N{NO-BREAK SPACE}%"


def test_the_legend_names_every_recipe(picture: Picture) -> None:
    (legend,) = picture.figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["bf16", "fp8_axiswise", "fp8_tensorwise"]


def test_facts_are_the_ends_of_the_curves(picture: Picture) -> None:
    facts = picture.facts.replace("\N{NO-BREAK SPACE}", " ")
    assert "gemm: 14.0 % on average with the fewest probes, 8.0 % with the most" in facts
    assert "over 2 curves; of cast: 4.0 %" in facts
    assert facts.endswith("over 1 curve.")


def test_no_curves_are_not_drawn() -> None:
    assert draw_learning(made_up_curves().iloc[:0]) is None


def test_many_curves_stand_in_rows_of_four() -> None:
    table = made_up_curves()
    names = [f"p{number}" for number in range(6)]
    many = pd.concat([table[table["op"] == "cast"].assign(provider=name) for name in names])
    axes_of_figure = drawn(draw_learning(many)).figure.axes
    shown = [axes for axes in axes_of_figure if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in shown] == [f"cast, {name}" for name in names]
    assert [axes.get_ylabel() != "" for axes in shown] == [True, *[False] * 3, True, False]
