"""Inline SVG: small, the same every time, no ids or styles that meet those of another figure."""

import re
from xml.etree import ElementTree

import matplotlib as mpl
import pytest
from matplotlib.backends import backend_agg
from matplotlib.figure import Figure

from roofcal.report.kit import styles
from roofcal.report.kit.styles import BLUE, look, new_figure
from roofcal.report.kit.svg import _FONT, _plain_font, inline_svg, standalone


def drawn() -> Figure:
    with look():
        figure = new_figure(200, 300)
        axes = figure.subplots()
        axes.scatter(range(50), [1.23456789 * x for x in range(50)], color=BLUE)
        axes.set_xlabel("time & <more>")
        axes.set_title("title")
    return figure


@pytest.fixture(scope="module")
def svg() -> str:
    return inline_svg(drawn(), "f1x", 'says "everything" & <more>')


def test_the_same_figure_is_the_same_text(svg: str) -> None:
    assert inline_svg(drawn(), "f1x", 'says "everything" & <more>') == svg


def test_it_carries_a_role_and_a_text_alternative(svg: str) -> None:
    assert svg.startswith(
        '<svg role="img" aria-label="says &quot;everything&quot; &amp; &lt;more&gt;"'
    )
    assert svg.endswith("</svg>")


def test_nothing_points_outside_the_page(svg: str) -> None:
    assert "http" not in svg
    assert "xmlns" not in svg
    assert "<metadata" not in svg
    assert "<!--" not in svg


def test_ids_and_classes_carry_the_prefix_and_are_used(svg: str) -> None:
    ids = re.findall(r' id="([^"]+)"', svg)
    used = re.findall(r'href="#([^"]+)"', svg) + re.findall(r"url\(#([^)]+)\)", svg)
    assert ids
    assert all(name.startswith("f1x") for name in ids)
    assert set(used) == set(ids)
    classes = set(re.findall(r'class="([^"]+)"', svg))
    assert classes == set(re.findall(r"\.(f1x\d+)\{", svg))


def test_colours_and_fonts_are_those_of_the_page(svg: str) -> None:
    assert "var(--blue)" in svg
    assert "var(--ink)" in svg
    assert BLUE not in svg
    assert "DejaVu" not in svg
    assert "font-family" not in svg


def test_text_stays_text_and_is_escaped(svg: str) -> None:
    assert "time &amp; &lt;more&gt;" in svg


def test_numbers_are_rounded_in_tags_alone(svg: str) -> None:
    tags = "".join(re.findall(r"<[^>]+>", svg))
    assert re.search(r"\d\.\d{3}", tags) is None


def test_fonts_of_older_matplotlib_lose_their_family_too() -> None:
    old = "font: 700 11.5px 'DejaVu Sans', sans-serif; text-anchor: start"
    new = _FONT.sub(lambda font: _plain_font(font.group(1), font.group(2)), old)
    assert new == "font-size:11.5px;font-weight:600; text-anchor: start"


def test_a_figure_as_a_file_knows_its_name_space_size_and_colours(svg: str) -> None:
    root = ElementTree.fromstring(standalone(svg))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert (root.attrib["width"], root.attrib["height"]) == ("300", "200")
    assert f"--blue:{BLUE}" in standalone(svg)
    assert standalone(svg).count("http") == 1


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


def test_labels_are_measured_without_painting_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_agg, "RendererAgg", lambda *_: pytest.fail("painted pixels"))
    assert styles.new_figure(72).text(0.5, 0.5, "label").get_window_extent().width > 0
    with pytest.raises(pytest.fail.Exception):
        Figure().text(0.5, 0.5, "label").get_window_extent()
