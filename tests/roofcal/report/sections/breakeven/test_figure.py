"""The map drawn: a panel per recipe and pass, colours by speed-up, the uncertain hatched."""

from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from roofcal.report.kit.pictures import Picture
from roofcal.report.kit.styles import hatching
from roofcal.report.sections.breakeven import draw_breakeven
from tests.roofcal.report.break_evens import made_up_map
from tests.roofcal.report.drawn import drawn


@pytest.fixture(scope="module")
def picture() -> Picture:
    return drawn(draw_breakeven(made_up_map()))


def panels(picture: Picture) -> dict[str, Any]:
    return {axes.get_title(loc="left"): axes for axes in picture.figure.axes if axes.get_visible()}


def segments(lines: LineCollection) -> set[tuple[tuple[float, float], ...]]:
    return {tuple((float(x), float(y)) for x, y in line) for line in lines.get_segments()}


def test_each_recipe_and_pass_has_a_panel(picture: Picture) -> None:
    assert set(panels(picture)) - {""} == {
        f"{recipe}, {passes}"
        for recipe in ("fp8_tensorwise", "fp8_axiswise")
        for passes in ("forward", "forward + backward")
    }


def test_a_recipe_without_a_pass_leaves_its_place_empty() -> None:
    table = made_up_map()
    both = (table["recipe"] == "fp8_axiswise") & (table["pass"] == "forward")
    shown = drawn(draw_breakeven(table[~both]))
    assert "fp8_axiswise, forward" not in panels(shown)


def test_colours_are_the_speedups_with_casts(picture: Picture) -> None:
    axes = panels(picture)["fp8_tensorwise, forward"]
    mesh = axes.collections[0]
    assert np.allclose(2 ** np.ravel(mesh.get_array()), [0.5, 1.1, 1.6] * 2)
    assert "24 linears with casts by torch_compile" in picture.facts


def test_weights_stand_down_and_tokens_across(picture: Picture) -> None:
    axes = panels(picture)["fp8_axiswise, forward + backward"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["16", "64", "256"]
    left = panels(picture)["fp8_axiswise, forward"]
    assert [label.get_text() for label in left.get_yticklabels()] == ["512", "1,024"]


def test_uncertain_cells_are_hatched_and_outlined(picture: Picture) -> None:
    (lines,) = [
        c
        for c in panels(picture)["fp8_tensorwise, forward"].collections
        if isinstance(c, LineCollection)
    ]
    cells = np.array([[False, True, False]] * 2)
    assert segments(lines) == segments(hatching(cells))
    assert segments(hatching(cells)) == {
        ((1, 1), (2, 0)),  # strokes
        ((1, 2), (2, 1)),
        ((1, 0), (2, 0)),  # above and below
        ((1, 2), (2, 2)),
        ((1, 0), (1, 1)),  # left and right
        ((1, 1), (1, 2)),
        ((2, 0), (2, 1)),
        ((2, 1), (2, 2)),
    }


def test_facts_count_the_classes(picture: Picture) -> None:
    assert "33 % faster, 33 % uncertain, 33 % slower" in picture.facts.replace("\xa0", " ")
    assert "highest 1.60" in picture.facts


def test_a_map_without_casts_is_drawn_without() -> None:
    table = made_up_map()
    shown = drawn(draw_breakeven(table[table["casts"] == "none"]))
    assert "without casts" in shown.facts


def test_an_empty_map_is_not_drawn() -> None:
    assert draw_breakeven(made_up_map().iloc[:0]) is None
