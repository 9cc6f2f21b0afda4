"""Both pages in a real browser: axe-core finds nothing serious, the console stays empty, nothing is
requested from anywhere, and what a person presses does what it says.
"""

import gzip
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roofcal.report.write import write_report
from tests.browser import Browser
from tests.paths import ROOT
from tests.roofcal.report.conftest import DEVICES
from tests.roofcal.report.synthetic import GPU, MadeUpRun, add_constants, product

pytestmark = pytest.mark.slow
PUBLISHED = next((ROOT / "reports/published/nvidia-h100-sxm").glob("*/environment.jsonl")).parent
TAGS = '["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]'
ALL = f"{{runOnly: {TAGS}}}"
ALL_BUT_COLOURS = f'{{runOnly: {TAGS}, rules: {{"color-contrast": {{enabled: false}}}}}}'
COLOURS = '{runOnly: ["color-contrast"]}'
# Cells have six looks, which the first five rows of the tables have all: 2 instead of 5 s a scheme.
FIRST_ROWS = '{include: [["html"]], exclude: [["tbody tr:nth-child(n+6)"]]}'
PAGES = ("report", "details")


def violations(
    chromium: Browser, axe: str, rules: str = ALL, where: str = "document"
) -> list[tuple[str, list[str]]]:
    """Serious findings of axe-core in the page as it is: (rule, the first elements)."""
    chromium.run(f"if (!window.axe) {{ {axe} }}; 0")
    found: list[dict[str, Any]] = chromium.run(
        f"""axe.run({where}, {{...{rules}, resultTypes: ["violations"]}}).then((done) =>
          done.violations.map(({{id, impact, nodes}}) =>
            ({{id, impact, first: nodes.slice(0, 3).map((n) => n.html.slice(0, 200))}})))"""
    )
    return [(one["id"], one["first"]) for one in found if one["impact"] in ("serious", "critical")]


def open_all_drawers(chromium: Browser) -> None:
    """Every drawer, and what is drawn on demand in it."""
    chromium.run("document.querySelectorAll('main details').forEach((one) => { one.open = true; })")
    chromium.wait_for(
        "![...document.querySelectorAll('.drawing > script, .grid > script')]"
        ".some((script) => script.parentElement.checkVisibility())"
    )


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_nothing_serious_fetches_nothing_and_fits_its_window(
    chromium: Browser, report: Path, axe: str, name: str
) -> None:
    chromium.resize(1400)
    chromium.open(report.with_name(f"{name}.html"))
    open_all_drawers(chromium)
    assert violations(chromium, axe, ALL_BUT_COLOURS) == []
    for scheme in ("dark", "light"):
        chromium.prefer(scheme)
        assert violations(chromium, axe, COLOURS, FIRST_ROWS) == [], scheme
    for width in (390, 700, 1400):
        chromium.resize(width)
        assert chromium.run("document.documentElement.scrollWidth - innerWidth") <= 0, width
    assert (chromium.errors, chromium.requests) == ([], [])


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The products and casts of the published H100."""
    return copy_products(tmp_path_factory.mktemp("products"))


@pytest.fixture(scope="module")
def answers(products: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first page of these."""
    page = tmp_path_factory.mktemp("answers") / "report.html"
    write_report([(products, None)], page, DEVICES)
    return page


def copy_products(parent: Path) -> Path:
    """A folder in `parent` with the products and casts of the published H100."""
    folder = parent / PUBLISHED.name
    folder.mkdir(parents=True)
    for name in ("environment.jsonl", "calibration.jsonl", "breakeven.csv"):
        shutil.copy(PUBLISHED / name, folder)
    for part in ("plan", "measurements", "predictions"):
        (folder / part).mkdir()
        for file in (PUBLISHED / part).glob("*"):
            if file.name.partition(".")[0] in ("gemm", "cast"):
                shutil.copy(file, folder / part)
    return folder


def test_the_first_screen_decides_as_advise_and_the_shape_box_do(
    chromium: Browser, answers: Path
) -> None:
    chromium.resize(1280)
    chromium.open(answers)
    decision = "document.querySelector('.strip .decision')"
    said = chromium.run(f"{decision}.textContent")
    chromium.wait_for("document.querySelector('#shape-box .said b')")
    first = chromium.run("document.querySelector('#shape-box .said b').textContent")
    recipe, _, _ = first.partition(" by ")
    assert said.startswith((f"Use {recipe}: ", f"Keep {recipe}: "))
    assert "casts included" in said
    assert chromium.run(f"{decision}.getBoundingClientRect().bottom") < 300, "first of the screen"


def test_words_of_the_first_page_open_their_lines_of_the_glossary(
    chromium: Browser, answers: Path
) -> None:
    chromium.open(answers)
    links = "[...document.querySelectorAll('a[href^=\"#term-\"]')]"
    assert chromium.run(f"{links}.length") > 20
    dead = f"{links}.filter((one) => !document.querySelector(one.hash)).map((one) => one.hash)"
    assert chromium.run(dead) == []
    assert not chromium.run("document.getElementById('term-P').checkVisibility()")
    chromium.run(f"{links}.find((one) => one.hash === '#term-P').click()")
    chromium.wait_for("document.getElementById('term-P').checkVisibility()")


def test_nothing_of_the_first_page_is_cut_on_a_narrow_screen(
    chromium: Browser, answers: Path
) -> None:
    chromium.resize(375, 20_000)  # 390 less the scroll bar; all that is seen, and so drawn
    chromium.open(answers)
    chromium.wait_for("document.querySelector('#shape-box tbody tr')")
    seen = "filter((one) => one.checkVisibility())"
    chromium.wait_for(
        f"[...document.querySelectorAll('.chart')].{seen}.every((one) => one.dataset.drawn)"
    )
    for wide in (".box", ".panel"):
        parts = f"[...document.querySelectorAll('{wide}')].{seen}"
        cut = chromium.run(f"{parts}.map((one) => one.scrollWidth - one.clientWidth)")
        assert len(cut) >= 3, wide
        assert max(cut) <= 0, f"{wide} is cut"
    beyond = chromium.run(
        f"[...document.querySelectorAll('.plot svg text')].{seen}.filter((one) => one.textContent"
        " && +getComputedStyle(one).opacity && one.getBoundingClientRect().right"
        " > one.closest('svg').getBoundingClientRect().right + 1).map((one) => one.textContent)"
    )
    assert beyond == [], "labels of axes"
    labels = "[...document.querySelectorAll('[id$=recipe-table] tr:last-child td')]"
    shown = chromium.run(f"{labels}.map((one) => getComputedStyle(one, '::before').content)")
    assert '"recipe"' in shown, "each cell has the label of its column before it"


def test_the_shape_of_the_box_is_marked_on_the_break_even_map(
    chromium: Browser, answers: Path
) -> None:
    chromium.resize(1280)
    chromium.open(answers, "m=4096&n=8000&k=8192")
    chromium.run("document.querySelector('[data-chart*=breakeven]').scrollIntoView()")
    chromium.wait_for("document.querySelector('[data-chart*=breakeven][data-drawn]')")
    crosses = (
        "[...document.querySelectorAll('.chart-cross')].filter((one) => one.checkVisibility())"
        ".map((one) => [parseFloat(one.style.left), parseFloat(one.style.top)])"
    )
    panels = chromium.run("document.querySelectorAll('[data-chart*=breakeven] .panel').length")
    (left, top), *others = chromium.run(crosses)
    assert len(others) == panels - 1, "one in each panel of the map, and nowhere else"
    chromium.run("location.hash = '#m=16384&n=4096&k=4096'")
    chromium.wait_for(f"{crosses}[0]?.[0] !== {left}")
    (right, higher), *_ = chromium.run(crosses)
    assert (right > left, higher < top) == (True, True)
    chromium.run("location.hash = '#m=16384&n=64&k=64'")
    chromium.wait_for(f"{crosses}.length === 0")


def test_the_card_of_this_machine_opens_the_page(
    chromium: Browser, products: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own" / products.name
    shutil.copytree(products, own)
    for file in own.glob("*/*.gz"):  # as nothing is published
        file.with_suffix("").write_bytes(gzip.decompress(file.read_bytes()))
        file.unlink()
    write_report([(products, None), (own, None)], tmp_path / "report.html", DEVICES)
    chromium.open(tmp_path / "report.html")
    strips = chromium.run(
        "[...document.querySelectorAll('.strip')].map((one) => [one.id, one.checkVisibility()])"
    )
    assert [is_seen for _, is_seen in strips] == [True, False]
    mine, theirs = (name.removesuffix("-strip") for name, _ in strips)
    assert (mine.endswith("-measured"), theirs.endswith("-published")) == (True, True)
    compared = chromium.run("document.querySelector('.strip').textContent")
    assert "This card against published ones. Healthy: over " in compared
    chromium.wait_for("document.querySelector('#shape-box tbody tr')")
    assert chromium.run("document.querySelector('#shape-box [name=device]').value") == mine
    answers = "[...document.querySelectorAll('.answer')].filter((one) => one.checkVisibility())"
    ids = chromium.run(f"{answers}.map((one) => one.closest('.chapter').id)")
    assert set(ids) == {mine}
    figures = "[...document.querySelectorAll('figure')].map((one) => one.closest('.chapter').id)"
    assert set(chromium.run(figures)) == {mine}


def test_tabs_are_chosen_with_arrow_keys(chromium: Browser, report: Path) -> None:
    chromium.open(report.with_name("details.html"), "nvidia-h200-prediction-errors")
    tabs = "document.querySelector('#nvidia-h200-prediction-errors .tabs')"
    shown = f"[...{tabs}.querySelectorAll('figure')].map((f) => !f.hidden)"
    assert chromium.run(shown) == [True, False]
    chromium.run(f"{tabs}.querySelector('[role=tab]').focus()")
    chromium.press("ArrowRight")
    assert chromium.run(shown) == [False, True]
    chromium.wait_for(f"{tabs}.querySelector('figure:not([hidden]) svg')")
    assert chromium.run("document.activeElement.textContent") == "cast"


def test_a_filter_compares_columns_and_says_which_it_knows(chromium: Browser, report: Path) -> None:
    table = "nvidia-h200-points-gemm"
    chromium.open(report.with_name("details.html"), f"table={table}&filter=m%20%3D%208192")
    rows = (
        f"[...document.querySelectorAll('#{table} tbody tr')]"
        ".map((row) => [...row.cells].slice(0, 2).map((cell) => cell.textContent))"
    )
    chromium.wait_for(f"document.querySelector('#{table} input')?.value")
    assert {m for _, m in chromium.run(rows)} == {"8,192"}

    chromium.run(f"document.querySelector('#{table} input').select()")
    chromium.run(f"document.querySelector('#{table} input').focus()")
    for key in "tflops > 900":
        chromium.press(key)
    assert {recipe for recipe, _ in chromium.run(rows)} == {"fp8_axiswise", "fp8_tensorwise"}

    # 900.04 is shown as 900: it is above 900, and what is shown finds it
    values = (
        f"[...document.querySelectorAll('#{table} tbody tr')].map((row) => Number("
        "row.cells[[...document.querySelectorAll('#" + table + " thead th')]"
        ".findIndex((head) => head.textContent.includes('TFLOP'))].textContent.replace(',', '')))"
    )
    chromium.run(f"document.querySelector('#{table}').setFilter('tflops > 0')")
    shown = chromium.run(values)[0]
    chromium.run(f"document.querySelector('#{table}').setFilter('tflops = {shown}')")
    assert shown in chromium.run(values)

    for wrong, says in (
        ("colour = red", "no column \u201ccolour\u201d; columns are recipe, m, n, k, provider"),
        ("m > many", "\u201cmany\u201d is no number"),
    ):
        chromium.run(f"document.querySelector('#{table}').setFilter('{wrong}')")
        said = chromium.run(f"document.querySelector('#{table} .hint').textContent")
        assert said.startswith(says)


def test_a_link_to_a_figure_opens_its_drawer_and_its_tab(chromium: Browser, report: Path) -> None:
    figure = "nvidia-h200-figure-measured_against_predicted-cast"
    chromium.open(report.with_name("details.html"), figure)
    chromium.wait_for(f"document.querySelector('#{figure} svg')")
    assert chromium.run(f"document.getElementById('{figure}').checkVisibility()")
    chromium.open(report.with_name("details.html"), "%")
    assert chromium.errors == [], "a fragment that names nothing is no error"


def test_a_click_on_the_name_of_a_table_saves_it(chromium: Browser, report: Path) -> None:
    chromium.open(report.with_name("details.html"))
    saved = chromium.run(
        """new Promise((done) => {
          URL.createObjectURL = (blob) => { blob.text().then(done); return "#"; };
          HTMLAnchorElement.prototype.click = function () {};
          const link = document.querySelector("a.data[download='quality.csv']");
          link.dispatchEvent(new MouseEvent("click", { cancelable: true }));
        })"""
    )
    assert saved == (report.parent / "tables" / "quality.csv").read_text(encoding="utf-8")


def test_what_the_check_would_find_it_finds(chromium: Browser, axe: str, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        '<!doctype html><html lang="en"><head><title>x</title></head><body><main><h1>x</h1>'
        '<p style="color:#bbb;background:#fff">pale</p><img src="https://example.invalid/x.png">'
        '<script>console.error("said"); throw new Error("thrown")</script></main></body></html>'
    )
    chromium.open(page)
    assert {"color-contrast", "image-alt"} <= {rule for rule, _ in violations(chromium, axe)}
    assert "said" in chromium.errors
    assert any("thrown" in error for error in chromium.errors)
    assert chromium.requests == ["https://example.invalid/x.png"]


def test_a_page_prints_on_few_sheets_of_landscape(chromium: Browser, report: Path) -> None:
    chromium.resize(1400)
    chromium.open(report)
    printed = chromium.pdf()
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", printed)) < 12
    width, height = map(float, re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)", printed)[0])
    assert width > height
    chromium.call("Emulation.setEmulatedMedia", media="print")
    breaks = chromium.run(
        "Object.fromEntries([...document.querySelectorAll('.question > .grid')]"
        ".map((one) => [one.id.replace(/.*h200-/, ''), getComputedStyle(one).breakBefore]))"
    )
    assert breaks == {"recipe-table": "auto", "trust-table": "page"}, "before answers alone"
    chromium.call("Emulation.setEmulatedMedia", media="")


def test_hostile_text_of_records_is_shown_as_text(chromium: Browser, tmp_path: Path) -> None:
    hostile = "<img src=x onerror=alert(1)></script><b>=1+1"
    made_up = MadeUpRun(replace(GPU, device_name=hostile))
    add_constants(made_up)
    for size in range(64, 64 + 32 * 16, 16):
        made_up.fail(product(size, 64, 64), "failed", hostile)
    made_up.measure(product(8192, 8192, 8192))
    write_report([(made_up.write(tmp_path / "run"), None)], tmp_path / "report.html", DEVICES)
    for name in PAGES:
        chromium.open(tmp_path / f"{name}.html")
        open_all_drawers(chromium)
        assert hostile in chromium.run("document.body.textContent")
        assert chromium.run("document.querySelectorAll('img, main b b, main td b').length") == 0
        assert (chromium.errors, chromium.requests) == ([], [])
