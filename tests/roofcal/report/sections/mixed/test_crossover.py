"""The crossover map drawn: a panel per kind and mode, names in cells, the uncertain hatched."""

from typing import Any

import pytest
from matplotlib.collections import LineCollection

from roofcal.core.devices import DeviceSpec
from roofcal.points.run import load_run
from roofcal.report.data.analysis import analyse
from roofcal.report.kit.pictures import Picture
from roofcal.report.sections.mixed.figures import draw_crossover
from roofcal.report.sections.mixed.tables import winners_table
from tests.roofcal.report.drawn import drawn
from tests.roofcal.report.narrow import narrow_run


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, h200: DeviceSpec) -> Any:
    folder = narrow_run().write(tmp_path_factory.mktemp("narrow"))
    return winners_table(analyse(load_run(folder), h200).frames["mixed_gemm"])


@pytest.fixture(scope="module")
def picture(table: Any) -> Picture:
    return drawn(draw_crossover(table))


def panels(picture: Picture) -> dict[str, Any]:
    return {axes.get_title(loc="left"): axes for axes in picture.figure.axes}


def test_measured_and_predicted_plain_and_chained_have_panels(picture: Picture) -> None:
    assert set(panels(picture)) == {
        f"{kind}, {mode}"
        for kind in ("measured", "predicted")
        for mode in ("plain launches", "int4 chained, others plain")
    }


def test_a_cell_says_its_format_in_words_and_marks_doubt_twice(picture: Picture) -> None:
    axes = panels(picture)["measured, plain launches"]
    names = {text.get_position(): text.get_text() for text in axes.texts}
    row = [names[m + 0.5, 0.5] for m in range(4)]
    assert row == ["int4", "int4", "fp8?", "fp8"]
    (hatched,) = [c for c in axes.collections if isinstance(c, LineCollection)]
    strokes = {tuple(map(tuple, line)) for line in hatched.get_segments()}
    assert ((2.0, 1.0), (3.0, 0.0)) in strokes
    assert ((1.0, 1.0), (2.0, 0.0)) not in strokes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "16", "64", "256"]


def test_the_words_beside_it_count_the_winners(picture: Picture) -> None:
    assert "measured, plain launches: fp8 50" in picture.facts
    assert "of 8 shapes, 25" in picture.facts


def test_one_kind_alone_is_drawn_and_nothing_of_an_empty_table(table: Any) -> None:
    shown = drawn(draw_crossover(table[(table["kind"] == "measured") & (table["mode"] == "plain")]))
    assert list(panels(shown)) == ["measured, plain launches"]
    assert draw_crossover(table[:0]) is None
