"""What a page carries of its charts: columns of short numbers, once, and nothing that loads."""

import json
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from roofcal.report.kit.charts import Axis, Chart, Layer, LegendEntry, Panel, Tip
from roofcal.report.kit.styles import BLUE
from roofcal.report.kit.vega import page_charts
from tests.roofcal.report.pages import unpack

HOSTILE = "</script><img src=x onerror=alert(1)> {expr: datum} =1+1"


def chart(names: tuple[str, ...] = ("bf16", HOSTILE), rows: int = 4) -> Chart:
    legend = [LegendEntry(field="recipe", value=name, colour=BLUE, marker="s") for name in names]
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
        layers=[Layer(mark="dots")],
        tables={"points": points},
        panels=[Panel(title="all")],
        tips=[Tip(key="x", label="time", kind="si", unit="s")],
        legend=legend,
    )


def page(*charts: tuple[str, str, Chart]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        unpack(page_charts((name, points, "t", one) for name, points, one in charts)[1])
    )
    return document


def test_numbers_have_four_digits_and_texts_are_said_once() -> None:
    table = page(("a", "", chart()))["tables"]["a/points"]
    assert table["x"][0] == 1.235e-5
    assert table["y"] == [2, 3, 4, 5]
    assert table["recipe"] == {"of": ["bf16", HOSTILE], "at": [0, 1, 0, 1]}


def test_charts_of_one_op_share_their_points() -> None:
    shared = replace(chart(), is_shared=True)
    more = {"points": shared.tables["points"].assign(z=1.0)}
    tables = page(("a", "gemm", shared), ("b", "gemm", replace(shared, tables=more)))["tables"]
    assert list(tables) == ["gemm"]
    assert set(tables["gemm"]) == {"x", "y", "z", "recipe", "colour", "marker"}


def test_shared_points_that_differ_are_refused() -> None:
    one, other = (replace(chart(rows=rows), is_shared=True) for rows in (3, 4))
    with pytest.raises(ValueError, match="b: its shared points"):
        page(("a", "gemm", one), ("b", "gemm", other))


def test_colours_follow_the_style_sheet() -> None:
    document = page(("a", "", chart()))
    assert document["charts"]["a"]["legend"][0]["colour"] == "var(--blue)"
    assert document["tables"]["a/points"]["colour"]["of"] == ["var(--blue)"]
    assert BLUE not in json.dumps(document)


def test_no_text_of_a_record_gets_into_the_specification() -> None:
    document = page(("a", "", chart()))["charts"]["a"]
    assert HOSTILE not in json.dumps(document["spec"])
    assert document["spec"] == page(("a", "", chart(("x", "y"))))["charts"]["a"]["spec"]


def test_what_a_page_carries_cannot_end_its_script() -> None:
    library, data = page_charts([("a", "", "t", chart())])
    assert "<" not in library + data
    assert unpack(library).startswith("(()=>{")


def test_equal_charts_give_equal_bytes() -> None:
    assert page_charts([("a", "", "t", chart())]) == page_charts([("a", "", "t", chart())])


def test_a_page_without_charts_carries_nothing() -> None:
    assert page_charts([]) == ("", "")
