"""What a page carries of its charts: columns of short numbers, once, and nothing that loads."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints
from xml.etree import ElementTree

import pandas as pd
import pytest
from altair.utils.schemapi import validate_jsonschema
from altair.vegalite.v6.schema.core import load_schema

from roofcal.report.kit import vega
from roofcal.report.kit.charts import (
    BLUE,
    SLOWER_FASTER,
    Axis,
    Chart,
    Layer,
    LegendEntry,
    Panel,
    Tip,
    cell_colours,
)
from roofcal.report.kit.vega import chart_svgs, page_charts, vega_lite
from tests.roofcal.report.pages import unpack

HOSTILE = "</script><img src=x onerror=alert(1)> {expr: datum} =1+1"


def chart(names: tuple[str, ...] = ("bf16", HOSTILE), rows: int = 4) -> Chart:
    legend = [LegendEntry("recipe", name, colour=BLUE, marker="s") for name in names]
    points = pd.DataFrame(
        {
            "x": [1.23456789e-5 * (n + 1) for n in range(rows)],
            "y": [2.0 + n for n in range(rows)],
            "recipe": [names[n % len(names)] for n in range(rows)],
            "colour": BLUE,
            "marker": "s",
        }
    )
    return Chart(
        x=Axis("x", "time", unit="s"),
        y=Axis("y", "time", unit="s"),
        layers=[Layer("dots")],
        tables={"points": points},
        panels=[Panel(title="all")],
        tips=[Tip("x", "time", "si", "s")],
        legend=legend,
    )


def page(*charts: tuple[str, str, Chart]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        unpack(page_charts((name, points, "t", one) for name, points, one in charts)[1])
    )
    return document


SCHEMA = load_schema()


def why_invalid(spec: dict[str, Any]) -> Any:
    """What the schema of Vega-Lite finds; classes of Altair take five times as long to say it."""
    layered = {"$ref": "#/definitions/TopLevelLayerSpec"}
    return validate_jsonschema(spec, layered, rootschema=SCHEMA, raise_error=False)


@pytest.mark.parametrize(
    ("mark", "scale"),
    [("dots", scale) for scale in get_args(get_type_hints(Axis)["scale"])]
    + [(mark, "log") for mark in get_args(get_type_hints(Layer)["mark"])],
)
def test_specifications_are_valid_vega_lite(mark: Any, scale: Any) -> None:
    """Drawing does not hold them against the schema, because that takes too long."""
    is_named = scale in ("names", "rows")
    axis = Axis("x", "time", scale=scale, ticks=(0.5, 2.0), offset="y" if is_named else "")
    names = Axis("recipe", "recipe", scale="names")
    drawn = replace(
        chart(),
        x=names if mark == "hatched" else axis,
        y=names if mark == "hatched" else Axis("y", "time", unit="s"),
        layers=[Layer(mark, detail="recipe", low="x", high="y", size=2)],
    )
    for one in (drawn, replace(drawn, legend=())):
        assert why_invalid(vega_lite(one)) is None
    wrong = vega_lite(drawn)
    next(iter(wrong["layer"][0]["encoding"].values()))["type"] = "temporary"
    assert why_invalid(wrong) is not None


def test_a_chart_that_vega_cannot_draw_is_no_empty_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vega, "_print_specification", lambda _: {"mark": "no such mark"})
    with pytest.raises(ValueError, match=r"Vega cannot draw a chart: (.|\n)*vegaLiteToSvg"):
        chart_svgs([(chart(), "")])
    assert chart_svgs([]) == []


def test_numbers_have_four_digits_and_texts_are_said_once() -> None:
    document = page(("a", "", chart()))
    table = document["tables"]["a/points"]
    assert table["x"][0] == 1.235e-5
    assert table["y"] == [2, 3, 4, 5]
    assert table["recipe"] == {"of": ["bf16", HOSTILE], "at": [0, 1, 0, 1]}
    # colours follow the style sheet
    assert document["charts"]["a"]["legend"][0]["colour"] == "var(--blue)"
    assert table["colour"]["of"] == ["var(--blue)"]
    assert BLUE not in json.dumps(document)
    # no text of a record gets into the specification
    spec = document["charts"]["a"]["spec"]
    assert HOSTILE not in json.dumps(spec)
    assert spec == page(("a", "", chart(("x", "y"))))["charts"]["a"]["spec"]


def test_charts_of_one_op_share_their_points_and_carry_the_columns_that_they_use() -> None:
    shared = replace(chart(), is_shared=True)
    more = {"points": shared.tables["points"].assign(z=1.0, unused=2.0)}
    other = replace(shared, tables=more, further=("z",))
    tables = page(("a", "gemm", shared), ("b", "gemm", other))["tables"]
    assert list(tables) == ["gemm"]
    assert set(tables["gemm"]) == {"x", "y", "z", "recipe", "colour", "marker"}


def test_shared_points_that_differ_are_refused() -> None:
    one, other = (replace(chart(rows=rows), is_shared=True) for rows in (3, 4))
    with pytest.raises(ValueError, match="b: its shared points"):
        page(("a", "gemm", one), ("b", "gemm", other))


def test_what_a_page_carries_cannot_end_its_script() -> None:
    library, data = page_charts([("a", "", "t", chart())])
    assert "<" not in library + data
    assert unpack(library).startswith("(()=>{")
    assert (library, data) == page_charts([("a", "", "t", chart())]), "equal bytes"
    assert page_charts([]) == ("", "")


def test_vega_is_bundled_once_per_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    bundles = ["fourth", "third", "second", "first"]
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda _: bundles.pop())
    assert "first" in vega._vega.__wrapped__() == vega._vega.__wrapped__()
    (kept,) = (tmp_path / "roofcal").iterdir()
    kept.write_bytes(kept.read_bytes()[:-9])  # a disk was full
    assert "second" in vega._vega.__wrapped__() == vega._vega.__wrapped__()
    kept.write_bytes(b"")
    assert "third" in vega._vega.__wrapped__() == vega._vega.__wrapped__()
    kept.unlink()
    kept.mkdir()  # nothing can be kept there
    assert "fourth" in vega._vega.__wrapped__()


def test_a_user_without_a_folder_of_caches_keeps_no_vega(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(Path, "home", without_home)
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda _: "bundled")
    assert "bundled" in vega._vega.__wrapped__()
    assert vega._kept_vega() is None


# --- print ---------------------------------------------------------------------------------------


def texts_of(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter() if node.text]


AXES = {  # axis -> values at it, labels that it has
    Axis("x", "", unit="s"): ((1e-6, 1e-3), {"1\N{MICRO SIGN}s", "10\N{MICRO SIGN}s", "1ms"}),
    Axis("x", "", "bytes"): ((2**10, 2**20), {"1 KiB", "1 MiB"}),
    Axis("x", "", "count"): ((1, 4096), {"1", "1,024"}),
    Axis("x", "", "percent"): ((0, 0.1), {"+4%", "+10%"}),
    Axis("x", "", "plain", " dB"): ((20, 60), {"30 dB", "50 dB"}),
    Axis("x", "", "ratio", ticks=(0.5, 1, 2)): ((0.1, 7), {"0.5", "1", "2"}),
    Axis("x", "", "names"): ((1, 1024), {"1", "1,024"}),
}
CELLS = pd.DataFrame(
    {"m": [1, 1024] * 2, "recipe": ["a", "a", "b", "b"], "label": list("wxyz")}
).assign(**cell_colours([-1, 0, 0.25, 1], SLOWER_FASTER))
MAP = Chart(
    x=Axis("m", "m", "names"),
    y=Axis("recipe", "", "names", order=["b", "a"]),
    layers=[Layer("cells", detail="label"), Layer("hatched", table="some")],
    tables={"points": CELLS, "some": CELLS[:1]},
    panels=[Panel(height=80)],
    tips=(),
)


@pytest.fixture(scope="module")
def svgs() -> dict[str, str]:
    """All charts that tests look at, drawn at once: starting a process takes longest."""
    points = chart().tables["points"].assign(side=["left", "left", "left", "right"])
    panels = [Panel(title=f"the {side}", where={"side": side}) for side in ("left", "right")]
    names = [f"fp8_blockwise_1x{number} by a provider" for number in range(30)]
    legend = [LegendEntry("recipe", name, marker="swatch") for name in names]
    of_sides = replace(chart(), tables={"points": points}, panels=panels)
    charts = {"sides": of_sides, "map": MAP, "wide": replace(chart(), legend=legend)}
    for axis, (values, _) in AXES.items():
        at_values = {"points": points.assign(x=[*values, *values])}
        charts[axis.scale] = replace(chart(), x=axis, tables=at_values)
    charts["again"] = of_sides
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vega, "allowed_cores", lambda: 2)
        drawn = chart_svgs([(one, "says <more>") for one in charts.values()])
    return dict(zip(charts, drawn, strict=True))


def test_a_file_has_every_panel_with_its_rows_its_title_and_the_legend(
    svgs: dict[str, str],
) -> None:
    svg = svgs["sides"]
    assert {"the left", "the right", "bf16", HOSTILE} <= set(texts_of(svg))
    assert svg.count(f'fill="{BLUE}"') == 4 + 2  # and two entries of the legend
    assert ElementTree.fromstring(svg).get("aria-label") == "says <more>"
    assert svg == svgs["again"]
    assert float(ElementTree.fromstring(svgs["wide"]).get("width", "inf")) < 1100


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: str(axis.scale))
def test_axes_are_written_for_people(svgs: dict[str, str], axis: Axis) -> None:
    svg = svgs[axis.scale].replace("\N{GREEK SMALL LETTER MU}", "\N{MICRO SIGN}")
    assert AXES[axis][1] <= {*texts_of(svg)}


def test_a_map_has_its_rows_and_columns_in_order_and_a_label_in_each_cell(
    svgs: dict[str, str],
) -> None:
    assert not MAP.zooms
    texts = texts_of(svgs["map"])
    assert texts.index("b") < texts.index("a")
    assert {"1", "1,024", *"wxyz"} <= set(texts)
    assert list(CELLS["colour"]) == ["#a63d00", "#f3efe9", "#aecadc", "#0a5592"]
    assert list(CELLS["ink"]) == ["#ffffff", "#111111", "#111111", "#ffffff"]
