"""Heat maps of the speed-up: each shape in one of them, the number in its cell."""

from itertools import product as pairs

import pandas as pd
import pytest

from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.pictures import Picture
from roofcal.report.sections.speedup.figures import draw_speedups


@pytest.fixture(scope="module")
def pictures(analysis: Analysis) -> dict[str, Picture]:
    drawn = draw_speedups(analysis.speedups["gemm"], "bf16")
    return {picture.key: picture for picture in drawn}


def cells(picture: Picture) -> list[str]:
    return [text.get_text() for axes in picture.figure.axes for text in axes.texts]


def test_every_ratio_is_in_one_cell(pictures: dict[str, Picture], analysis: Analysis) -> None:
    assert set(pictures) == {
        "speedup_cubes",
        "speedup_by_tokens",
        "speedup_by_layer",
        "speedup_by_shape",
    }
    drawn = sorted(text for picture in pictures.values() for text in cells(picture))
    assert drawn == sorted(f"{value:.2f}" for value in analysis.speedups["gemm"]["speedup"])


def test_the_grid_of_tokens_has_weights_down_and_tokens_across(
    pictures: dict[str, Picture],
) -> None:
    axes = pictures["speedup_by_tokens"].figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "16", "64", "256"]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "3,584 \N{MULTIPLICATION SIGN} 8,192"
    ]


def test_facts_name_median_and_highest(pictures: dict[str, Picture], analysis: Analysis) -> None:
    table = analysis.speedups["gemm"]
    cubes = table[(table["m"] == table["n"]) & (table["n"] == table["k"])]
    assert f"highest {cubes['speedup'].max():.2f}" in pictures["speedup_cubes"].facts


def test_very_many_weights_are_thinned_and_said_so() -> None:
    rows = [
        {
            "op": "gemm",
            "recipe": "int8",
            "m": m,
            "n": 64 * n,
            "k": 64,
            "speedup": 2.0,
            "speedup_high": 2.1,
        }
        for m, n in pairs((1, 2, 3), range(2, 302))
    ]
    (picture,) = draw_speedups(pd.DataFrame(rows), "bf16")
    assert "60 of 300 weights and 3 of 3 sizes m are drawn." in picture.facts


def test_other_ops_and_empty_tables_have_no_heat_map(analysis: Analysis) -> None:
    assert draw_speedups(analysis.speedups["gemm"].iloc[:0], "bf16") == []
    assert draw_speedups(pd.DataFrame({"rows": [1]}), "bf16") == []


def test_the_sizes_that_most_shapes_have_are_drawn() -> None:
    same = {"op": "gemm", "recipe": "int8", "k": 64, "speedup": 2.0, "speedup_high": 2.1}
    common = [same | {"m": 7, "n": 64 * n} for n in (1, 2, 3)]
    rare = [same | {"m": 100 + m, "n": 64} for m in range(40)]
    others = [same | {"m": 100 + m, "n": 128} for m in range(40)]

    (picture, *_) = draw_speedups(pd.DataFrame([*common, *rare, *others]), "bf16")

    columns = [label.get_text() for label in picture.figure.axes[0].get_xticklabels()]
    assert columns[0] == "7"
    assert len(columns) == 16
    assert "16 of 41 sizes m" in picture.facts
