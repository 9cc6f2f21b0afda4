"""Colours, markers and axes that are the same in every figure."""

import matplotlib as mpl
import pytest
from matplotlib.backends import backend_agg
from matplotlib.figure import Figure

from roofcal.ops import BY_NAME
from roofcal.report.kit import styles as style


@pytest.mark.parametrize("op", BY_NAME)
def test_recipes_of_one_op_have_colours_of_their_own(op: str) -> None:
    colours = [style.recipe_colour(recipe) for recipe in BY_NAME[op].recipes]
    assert op == "probe_launch" or len(set(colours)) == len(colours)
    assert set(colours) <= set(style.VARIABLES)


def test_a_new_name_always_gets_the_same_spare_colour_and_marker() -> None:
    assert style.recipe_colour("nf4_groupwise_g64") == style.recipe_colour("nf4_groupwise_g64")
    assert style.recipe_colour("nf4_groupwise_g64") in style.VARIABLES
    assert style.provider_marker("symm_mem_fused") in "^vPX<>"
    assert {style.op_colour(op) for op in BY_NAME} <= set(style.VARIABLES)


def test_models_beside_each_other_have_colours_of_their_own() -> None:
    known = ["calibrated", "torchao", "wave", "datasheet"]
    colours = style.model_colours([*known, "calibrated@e2", "calibrated@e1", "learned"])
    assert len(set(colours.values())) == 7
    assert set(colours.values()) <= set(style.VARIABLES)
    assert style.model_colours(known) == {name: colours[name] for name in known}
    assert set(style.model_colours(map(str, range(9)))) == set("012345678")


def test_the_settings_of_the_process_come_back() -> None:
    before = dict(mpl.rcParams)
    with style.look():
        assert mpl.rcParams["svg.fonttype"] == "none"
    assert dict(mpl.rcParams) == before


def test_a_figure_is_as_large_as_its_pixels() -> None:
    with style.look():
        figure = style.new_figure(360)
    assert tuple(figure.get_size_inches() * 72) == pytest.approx((960, 360))


def test_labels_are_measured_without_painting_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_agg, "RendererAgg", lambda *_: pytest.fail("painted pixels"))
    assert style.new_figure(72).text(0.5, 0.5, "label").get_window_extent().width > 0
    with pytest.raises(pytest.fail.Exception):
        Figure().text(0.5, 0.5, "label").get_window_extent()


def test_log_axes_are_labelled_with_units() -> None:
    axes = Figure().subplots()
    axes.set_xscale("log")
    axes.set_xlim(1e-6, 1e-3)
    style.log_axis(axes.xaxis, "s")
    labels = [axes.xaxis.get_major_formatter()(value, 0) for value in (1e-6, 1e-3, -1.0)]
    assert [label.replace("\N{NO-BREAK SPACE}", " ") for label in labels] == [
        "1 \u00b5s",
        "1 ms",
        "",
    ]
    assert list(axes.xaxis.get_minorticklocs()) == []


def test_recipes_keep_the_order_of_their_op() -> None:
    shuffled = ["unknown", "int8", "fp8_axiswise", "bf16"]
    assert style.by_recipe_order(shuffled, "gemm") == ["bf16", "int8", "fp8_axiswise", "unknown"]


def test_ticks_have_no_idle_zeros() -> None:
    assert style.tick_text(5e12, "B/s") == "5\N{NO-BREAK SPACE}TB/s"
    assert style.tick_text(1400e12, "flop/s") == "1,400\N{NO-BREAK SPACE}TFLOP/s"
    assert style.tick_text(64, "") == "64"
