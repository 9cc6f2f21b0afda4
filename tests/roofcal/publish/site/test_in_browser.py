"""The site in a real browser, opened from file://: every page, at every width, and its choices."""

import statistics
from pathlib import Path
from typing import Any

import pytest

from tests.browser import CHROMIUM, Browser
from tests.roofcal.publish.site.conftest import HOSTILE, write_made_up
from tests.roofcal.publish.site.test_write import NEW, OLD, held
from tests.roofcal.report.test_in_browser import ALL_BUT_COLOURS, COLOURS, copy_products, violations

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH"),
]
# Page -> what is there when its scripts are done
DRAWN = {
    "index": "true",
    "compare": "document.querySelector('.chart[data-drawn]')",
    "shapes": "document.querySelector('#modelled, #modelled-times p')",
    "models": "document.querySelector('#speeds table')",
    "claims": "true",
    "submit": "true",
    "devices/nvidia-h200": "document.querySelector('.chart[data-drawn]')",
    "devices/nvidia-b200": "true",
}


def open_page(chromium: Browser, site: Path, name: str, fragment: str = "") -> None:
    """Open a page and wait for what its scripts draw."""
    chromium.open(site / f"{name}.html", fragment)
    chromium.wait_for(DRAWN[name])


def table(chromium: Browser, id: str) -> list[list[str]]:
    """The texts of the rows of a table."""
    rows: list[list[str]] = chromium.run(
        f"[...document.querySelectorAll('#{id} tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    return rows


def choose(chromium: Browser, name: str, value: str) -> None:
    """Choose a value of a list as a person does, by name of the list."""
    chromium.run(
        f"""(() => {{ const list = document.querySelector('select[name="{name}"]');
          list.value = {value!r};
          list.dispatchEvent(new Event("change", {{ bubbles: true }})); }})()"""
    )


@pytest.mark.parametrize("name", DRAWN)
def test_a_page_is_accessible_fits_every_width_and_asks_no_network(
    chromium: Browser, site: Path, axe: str, name: str
) -> None:
    chromium.resize(390)
    open_page(chromium, site, name)
    for width in (390, 700, 1400):
        chromium.resize(width)
        assert chromium.run("document.documentElement.scrollWidth - innerWidth") <= 0
    head, _, _ = (site / f"{name}.html").read_text(encoding="utf-8").partition("</head>")
    assert "<script" not in head, "the first paint would wait for it"
    assert violations(chromium, axe, ALL_BUT_COLOURS) == []
    for scheme in ("dark", "light"):
        chromium.prefer(scheme)
        assert violations(chromium, axe, COLOURS) == [], scheme
    assert chromium.errors == []
    assert [url for url in chromium.requests if not url.startswith(site.as_uri())] == []


def test_a_link_opens_a_shape_and_the_fastest_recipe_stands_first(
    chromium: Browser, site: Path
) -> None:
    open_page(chromium, site, "shapes", "op=gemm&m=8192&n=8192&k=8192")
    rows = table(chromium, "measured")
    assert [row[2] for row in rows[:2]] == ["fp8_tensorwise"] * 2
    assert {row[1] for row in rows} == {"driver 580, torch 2.11", "driver 590, torch 2.12"}
    times = [float(row[4].replace(",", "")) for row in rows if row[4] != "\N{EN DASH}"]
    assert times == sorted(times)
    assert "m = 8,192, n = 8,192, k = 8,192" in chromium.run(
        "document.getElementById('chosen').textContent"
    )
    models = table(chromium, "modelled")
    assert {"NVIDIA B200", "NVIDIA H200"} <= {row[0] for row in models}


CHOSEN = "document.getElementById('chosen').textContent"
FIELDS = "[...document.querySelectorAll('#axes input')].map((field) => field.value).join(' x ')"


def type_sizes(chromium: Browser, **sizes: str) -> None:
    """Type sizes as a person does, and leave each with the tabulator."""
    for axis, size in sizes.items():
        chromium.run(f"document.querySelector('input[name=axis-{axis}]').select()")
        chromium.run(f"document.querySelector('input[name=axis-{axis}]').focus()")
        for key in size:
            chromium.press(key)
        chromium.press("Tab")


def test_what_is_typed_stays_and_the_nearest_listed_shape_is_named(
    chromium: Browser, site: Path
) -> None:
    open_page(chromium, site, "shapes", "op=gemm&m=8192&n=8192&k=8192")
    type_sizes(chromium, m="4096", n="28672", k="8000")
    assert chromium.run(FIELDS) == "4096 x 28672 x 8000"
    assert chromium.run("location.hash") == "#op=gemm&m=4096&n=28672&k=8000"
    said = chromium.run(CHOSEN)
    assert said.startswith("Nobody published 4,096 \N{MULTIPLICATION SIGN} 28,672")
    nearest = chromium.run("document.querySelector('select[name=shape]').selectedOptions[0].text")
    assert f"the nearest listed shape is {nearest}, and what was measured is of that one." in said
    assert table(chromium, "measured")

    type_sizes(chromium, m="8192", n="8192", k="8192")
    assert chromium.run(CHOSEN).startswith("Matrix products, m = 8,192, n = 8,192, k = 8,192: ")

    chosen = chromium.run("document.querySelector('select[name=shape]').options[0].value")
    choose(chromium, "shape", chosen)
    assert chromium.run(FIELDS) == chosen.replace("x", " x ")


def test_what_is_no_shape_is_refused_and_no_table_is_of_another(
    chromium: Browser, site: Path
) -> None:
    open_page(chromium, site, "shapes", "op=gemm&m=8192&n=8192&k=8192")
    type_sizes(chromium, k="0")
    assert chromium.run(FIELDS) == "8192 x 8192 x 0"
    assert chromium.run(CHOSEN).endswith("a whole number from 1 on for every size: type k.")
    for name in ("calibrated", "measured", "modelled"):
        assert table(chromium, name) == []


@pytest.fixture(scope="module")
def h100_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of the products and casts of the published H100, with their calibration."""
    root = tmp_path_factory.mktemp("h100")
    copy_products(root / "published" / "nvidia-h100-sxm")
    write_made_up(root / "published", root / "site")
    return root / "site"


def test_any_shape_of_a_product_is_answered_by_the_calibrated_model_while_it_is_typed(
    chromium: Browser, h100_site: Path
) -> None:
    open_page(chromium, h100_site, "shapes", "op=gemm&m=8192&n=8192&k=8192")
    listed = table(chromium, "calibrated")
    assert "measured" in {row[-1] for row in listed}
    type_sizes(chromium, m="4096", n="28672", k="8000")
    caption = chromium.run("document.querySelector('#calibrated caption').textContent")
    assert caption.startswith("4,096 \N{MULTIPLICATION SIGN} 28,672 \N{MULTIPLICATION SIGN} 8,000")
    typed = table(chromium, "calibrated")
    only_listed = {row[2] for row in listed} - {row[2] for row in typed}
    assert only_listed == {"fp8_blockwise_128x128"}, "its blocks do not fit 8000"
    gains = [float(row[at][:-1]) for row in typed if row[2] == "fp8_axiswise" for at in (7, 9)]
    assert gains[0] > gains[1] > 1, "the cast of x takes time"
    assert all("measured" not in row for row in typed)
    flops = 2 * 4096 * 28672 * 8000
    for row in typed:
        micro, rate = (float(row[at].replace(",", "")) for at in (4, 6))
        assert rate == pytest.approx(flops / micro / 1e6, rel=5e-3)
    assert {row[7] for row in typed if row[2] == "bf16"} == {"1.00\N{MULTIPLICATION SIGN}"}
    assert chromium.errors == []


def test_a_link_for_a_shape_or_an_op_that_is_not_there_says_so(
    chromium: Browser, site: Path
) -> None:
    open_page(chromium, site, "shapes", "op=gemm&m=8000&n=8192&k=8192")
    assert chromium.run(FIELDS) == "8000 x 8192 x 8192"
    assert chromium.run(CHOSEN).startswith("Nobody published 8,000")
    open_page(chromium, site, "shapes", "op=gemv&m=8192")
    assert chromium.run(CHOSEN).startswith("The link asks for op \u201cgemv\u201d, of which nobody")


def test_text_of_records_becomes_no_markup(chromium: Browser, site: Path) -> None:
    open_page(chromium, site, "shapes", "op=gemm&m=64&n=64&k=64")
    texts = [cell for row in table(chromium, "measured") for cell in row]
    assert HOSTILE in texts
    assert f"unsupported: {HOSTILE}" in texts
    assert chromium.run("document.querySelectorAll('main script').length") == 0


def ratios(site: Path, recipe: str, regime: str) -> list[float]:
    """Time of the older environment over that of the newer one, shape by shape."""

    def times(side: str) -> dict[tuple[Any, ...], float]:
        op = held(site, side.replace("measured:", "points/"))["gemm"]
        at = {name: place for place, name in enumerate(op["columns"])}
        wanted = (op["recipes"].index(recipe), op["regimes"].index(regime))
        return {
            tuple(row[:4]): row[at["time_us"]]
            for row in op["rows"]
            if (row[at["recipe"]], row[at["regime"]]) == wanted
        }

    old, new = times(OLD), times(NEW)
    return [old[shape] / new[shape] for shape in old]


def test_two_environments_are_compared_by_regime_and_by_rate(chromium: Browser, site: Path) -> None:
    open_page(chromium, site, "compare")
    head = chromium.run("[...document.querySelectorAll('#ratios th')].map((h) => h.textContent)")
    (large,) = [row for row in table(chromium, "ratios") if row[0] == "large"]
    of_bf16 = ratios(site, "bf16", "large")
    assert large[1] == str(len(of_bf16))
    assert large[head.index("bf16")].startswith(f"{statistics.median(of_bf16):.2f}")
    (rate,) = [row for row in table(chromium, "rates") if row[0] == "bf16 products"]
    assert rate[1] == rate[3] == "599\N{NO-BREAK SPACE}TFLOP/s"
    assert rate[5] == "1.00\N{MULTIPLICATION SIGN}"
    assert chromium.run("document.querySelectorAll('.chart .mark-symbol path').length") == 2 * 48


def test_a_measured_card_is_compared_with_a_datasheet_and_the_address_keeps_it(
    chromium: Browser, site: Path
) -> None:
    open_page(chromium, site, "compare")
    choose(chromium, "a", "datasheet:nvidia-b200")
    chromium.wait_for("location.hash.includes('b200')")
    chromium.wait_for("document.getElementById('compared').textContent.includes('B200')")
    said = chromium.run("document.getElementById('compared').textContent")
    assert "NVIDIA B200, datasheet was not measured." in said
    fragment = chromium.run("location.hash").removeprefix("#")
    open_page(chromium, site, "compare", fragment)
    chromium.wait_for("document.querySelector('#rates')")
    assert chromium.run("document.querySelector('select[name=a]').value") == (
        "datasheet:nvidia-b200"
    )


def test_a_link_for_a_side_that_is_not_there_says_so(chromium: Browser, site: Path) -> None:
    open_page(chromium, site, "compare", f"a=measured:gone&b={NEW}")
    said = "document.getElementById('compared').textContent"
    assert "The link asks for \u201cmeasured:gone\u201d, which is not here." in chromium.run(said)
    choose(chromium, "a", OLD)
    chromium.wait_for(f"!{said}.includes('The link asks')")


def test_a_card_that_cannot_run_a_model_is_named_with_the_reason(
    chromium: Browser, site: Path
) -> None:
    open_page(chromium, site, "models", "model=llama3-8b&recipe=fp8_axiswise&batch=1")
    said = "[...document.querySelectorAll('#no-answer li')].map((item) => item.textContent)"
    lines = chromium.run(said)
    assert any("A100" in line and "no rate of fp8_axiswise is known" in line for line in lines)
    answered = {row[0] for row in table(chromium, "speeds-datasheet")}
    refused = {line.split(", datasheet: ")[0] for line in lines if ", datasheet: " in line}
    assert refused and not refused & answered


def test_throughput_stands_against_speed_above_its_pareto_front_and_each_card_has_a_price(
    chromium: Browser, site: Path
) -> None:
    open_page(chromium, site, "models", "model=llama3-8b&recipe=bf16&batch=16")
    chromium.wait_for("document.querySelector('#front .chart[data-drawn]')")
    known = held(site, "language_models")
    rows = [dict(zip(known["columns"], row, strict=True)) for row in known["rows"]]
    first = next(
        group
        for prefix in ("measured:", "wave:")
        if (group := [row for row in rows if row["side"].startswith(prefix)])
    )
    drawn = chromium.run("document.querySelectorAll('#front .mark-symbol path').length")
    assert drawn == len(first)
    head = "[...document.querySelectorAll('#speeds-wave th')].map((one) => one.textContent)"
    assert not any("$/Mtok" in label for label in chromium.run(head))
    chromium.run("document.querySelector('#prices summary').click()")
    chromium.run("document.querySelector('[name=nvidia-b200]').focus()")
    for key in "36":
        chromium.press(key)
    labels = chromium.run(head)
    (per_gpu,) = [at for at, label in enumerate(labels) if label == "tokens/s per GPU"]
    (cost,) = [at for at, label in enumerate(labels) if "$/Mtok" in label]
    (energy,) = [at for at, label in enumerate(labels) if "J/token" in label]
    for row in table(chromium, "speeds-wave"):
        rate = float(row[per_gpu].replace(",", ""))
        if row[0] == "NVIDIA B200":
            assert float(row[cost]) == pytest.approx(36 / 3600 / rate * 1e6, rel=0.01)
        else:
            assert row[cost] == "\N{EN DASH}"
        assert float(row[energy]) > 0
    said = "document.querySelector('#asked').textContent"
    assert "At your prices NVIDIA B200 is the cheapest (predicted by the wave model): $" in (
        chromium.run(said)
    )
    fragment = chromium.run("location.hash").removeprefix("#")
    assert "nvidia-b200=36" in fragment
    open_page(chromium, site, "models", fragment)
    assert "At your prices NVIDIA B200 " in chromium.run(said)
    assert chromium.run("document.querySelector('#prices').open")


def test_a_button_saves_the_export(chromium: Browser, site: Path) -> None:
    open_page(chromium, site, "devices/nvidia-h200")
    saved = chromium.run(
        """new Promise((done) => {
          let name;
          URL.createObjectURL = (blob) => {
            blob.text().then((text) => done([name, text]));
            return "#";
          };
          HTMLAnchorElement.prototype.click = function () { name = this.download; };
          document.querySelector('button[data-format="torchao"]').click();
        })"""
    )
    assert saved[0] == "nvidia-h200.torchao.py"
    assert "made by: roofcal export --device nvidia-h200" in saved[1]


def test_columns_are_sorted_by_keyboard(chromium: Browser, site: Path) -> None:
    open_page(chromium, site, "index")
    chromium.run("document.querySelector('#datasheets th:nth-child(2) button').focus()")
    chromium.press("Enter")
    rates = [float(row[1].replace(",", "")) for row in table(chromium, "datasheets")]
    assert rates == sorted(rates, reverse=True)


def test_a_site_without_publications_says_so_on_every_page(
    chromium: Browser, bare_site: Path
) -> None:
    for name in ("index", "shapes", "claims"):
        chromium.open(bare_site / f"{name}.html")
        chromium.wait_for("document.body.textContent.includes('Nothing is published yet')")
    for name in ("compare", "models"):
        open_page(chromium, bare_site, name)
    assert chromium.errors == []
