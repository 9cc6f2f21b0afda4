"""Colours, markers and axes that are the same in every figure."""

import matplotlib as mpl
import pytest
from matplotlib.backends import backend_agg
from matplotlib.figure import Figure

from roofcal.report.kit import styles


def test_models_beside_each_other_have_colours_of_their_own() -> None:
    declared = ["calibrated", "torchao", "wave", "datasheet"]
    colours = styles.model_colours([*declared, "calibrated@e2", "calibrated@e1", "learned"])
    assert len(set(colours.values())) == 7
    assert set(colours.values()) <= set(styles.COLOURS.values())
    assert styles.model_colours(declared) == {name: colours[name] for name in declared}
    assert set(styles.model_colours(map(str, range(9)))) == set("012345678")


def test_the_settings_of_the_process_come_back() -> None:
    before = dict(mpl.rcParams)
    with styles.look():
        assert mpl.rcParams["svg.fonttype"] == "none"
    assert dict(mpl.rcParams) == before


def test_a_figure_is_as_large_as_its_pixels() -> None:
    with styles.look():
        figure = styles.new_figure(360)
    assert tuple(figure.get_size_inches() * 72) == pytest.approx((960, 360))


def test_labels_are_measured_without_painting_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_agg, "RendererAgg", lambda *_: pytest.fail("painted pixels"))
    assert styles.new_figure(72).text(0.5, 0.5, "label").get_window_extent().width > 0
    with pytest.raises(pytest.fail.Exception):
        Figure().text(0.5, 0.5, "label").get_window_extent()


def test_log_axes_are_labelled_with_units() -> None:
    axes = Figure().subplots()
    axes.set_xscale("log")
    axes.set_xlim(1e-6, 1e-3)
    styles.log_axis(axes.xaxis, "s")
    labels = [axes.xaxis.get_major_formatter()(value, 0) for value in (1e-6, 1e-3, -1.0)]
    assert [label.replace("\N{NO-BREAK SPACE}", " ") for label in labels] == [
        "1 \u00b5s",
        "1 ms",
        "",
    ]
    assert list(axes.xaxis.get_minorticklocs()) == []


def test_a_new_name_always_gets_the_same_spare_choice() -> None:
    assert styles.spare_choice("nf4", "abc") == styles.spare_choice("nf4", "abc")
    assert styles.spare_choice("nf4", "abc") in "abc"


def test_places_of_a_grid_that_are_left_over_stay_empty() -> None:
    figure = Figure()
    panels = styles.panel_grid(figure, 3, 2)
    assert len(panels) == 3
    assert [axes.get_visible() for axes in figure.axes] == [True, True, True, False]
    assert len(styles.panel_grid(Figure(), 1, 4)) == 1
