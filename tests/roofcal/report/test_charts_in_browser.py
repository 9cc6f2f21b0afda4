"""A chart under a pointer and under a keyboard, in Chromium, of records whose texts are hostile."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from roofcal.report.kit.charts import Picture, Tip
from roofcal.report.kit.templates import FOLDER, _environment
from roofcal.report.kit.vega import page_charts
from tests.browser import Browser
from tests.roofcal.report.kit.test_charts import HOSTILE, chart

PAGE = """
{% extends "base.html.j2" %}
{% from "blocks.html.j2" import block %}
{% block title %}Chart{% endblock %}
{% block main %}
<div style="height: 5000px"></div>
{{ block(figure) }}
{% endblock %}
"""
# No script may be made of text, as Vega makes them of expressions where it is let.
POLICY = """<head>
<meta http-equiv="Content-Security-Policy" content="script-src 'unsafe-inline'; connect-src 'none'">
"""
HELPERS = """
window.chart = document.querySelector(".chart");
window.tip = document.querySelector(".chart-tip");
window.dots = () => [...chart.querySelectorAll(".mark-symbol path")];
window.middle = (node) => { const box = node.getBoundingClientRect();
  return { x: box.left + box.width / 2, y: box.top + box.height / 2 }; };
window.visible = () => dots().filter((dot) => getComputedStyle(dot).opacity !== "0").length;
window.spread = () => Math.abs(middle(dots()[1]).x - middle(dots()[2]).x);
window.legend = (place) => chart.querySelectorAll(".legend button")[place];
window.zoom = (place) => chart.querySelectorAll(".zoom button")[place];
0
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with a chart of four points by two recipes, the second one hostile."""
    plain = chart()
    points = plain.tables["points"].assign(point_id=["p0", "p1", "p2", "p3"], note=HOSTILE)
    shown = {f.name: getattr(plain, f.name) for f in fields(plain)}
    shown |= {"tables": {"points": points}, "tips": [*plain.tips, Tip("note", "note")]}
    shown |= {"id": "f", "key": "k", "title": "t", "op": "gemm", "source": "points.csv"}
    figure = Picture(**shown, alt=HOSTILE, facts="")
    library, data = page_charts([("f", "", "a-points-gemm", figure)])
    scripts = ("unpack.js", "tables.js", "drawers.js", "charts.js")
    text = (
        _environment()
        .from_string(PAGE)
        .render(
            figure=figure,
            chart_library=library,
            chart_data=data,
            records="details.html",
            scripts=[(FOLDER / name).read_text(encoding="utf-8") for name in scripts],
            style=(FOLDER / "charts.css").read_text(encoding="utf-8"),
        )
    )
    file = tmp_path_factory.mktemp("chart") / "chart.html"
    file.write_text(text.replace("<head>", POLICY, 1), encoding="utf-8")
    return file


@pytest.fixture
def opened(chromium: Browser, page: Path) -> Iterator[Browser]:
    """The page with its chart drawn; its console stays empty and it asks for nothing."""
    chromium.open(page)
    chromium.run("document.querySelector('.chart').scrollIntoView()")
    chromium.wait_for("document.querySelector('.chart').dataset.drawn")
    # Frames tell of scrolling, which hides the text beside the pointer: the last of it is over now.
    chromium.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    chromium.run(HELPERS)
    yield chromium
    assert (chromium.errors, chromium.requests) == ([], [])


def point_at(browser: Browser, dot: int) -> None:
    place = browser.run(f"middle(dots()[{dot}])")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", **place)


def test_a_point_under_the_pointer_says_what_it_is_as_text_and_leads_to_its_record(
    opened: Browser,
) -> None:
    assert opened.run("[visible(), tip.hidden]") == [4, True]
    point_at(opened, 1)
    opened.wait_for("!tip.hidden")
    assert "24.69\N{NO-BREAK SPACE}\N{MICRO SIGN}s" in opened.run("tip.innerText")
    link = "details.html#table=a-points-gemm&filter=p1"
    assert opened.run("tip.querySelector('a').getAttribute('href')") == link
    assert HOSTILE in opened.run("tip.textContent")
    assert opened.run("[legend(0).textContent, legend(1).textContent]") == ["bf16", HOSTILE]
    assert opened.run("chart.getAttribute('aria-label')") == HOSTILE
    assert opened.run("document.images.length") == 0


def test_an_entry_of_the_legend_hides_and_shows_its_points(opened: Browser) -> None:
    opened.run("legend(1).click()")
    opened.wait_for("visible() === 2")
    assert opened.run("legend(1).getAttribute('aria-pressed')") == "false"
    point_at(opened, 1)
    assert opened.run("tip.hidden"), "a hidden point answered"
    opened.run("legend(1).click()")
    opened.wait_for("visible() === 4")


def test_the_keyboard_reads_points_and_reaches_the_table(opened: Browser) -> None:
    opened.run("chart.querySelector('.plot').focus()")
    opened.press("ArrowRight")
    assert "12.35\N{NO-BREAK SPACE}\N{MICRO SIGN}s" in opened.run("tip.innerText")
    assert opened.run("document.querySelector('a.data').getAttribute('href')").endswith(
        "tables/points.csv"
    )


def test_a_chart_zooms_and_comes_back(opened: Browser) -> None:
    before = opened.run("spread()")
    opened.run("zoom(0).click()")
    opened.wait_for(f"spread() > {before * 1.05}")
    opened.run("zoom(2).click()")
    opened.wait_for(f"Math.abs(spread() - {before}) < 1")


def test_a_chart_that_nobody_saw_is_drawn_before_the_page_is_laid_out_for_print(
    chromium: Browser, page: Path
) -> None:
    chromium.open(page)
    chromium.wait_for("window.vegaEmbed")
    assert chromium.run("document.querySelector('.chart').dataset.drawn") is None
    # The layout follows the last listener: what is drawn when that one is called is printed.
    chromium.run(
        """addEventListener("beforeprint", () => {
          window.atPrint = document.querySelectorAll(".chart .mark-symbol path").length;
        })"""
    )
    chromium.pdf()
    assert chromium.run("atPrint") == 4
