"""Maps of the speed-up: each shape in one of them, the number in its cell."""

from itertools import product as pairs

import pandas as pd
import pytest

from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.charts import Picture
from roofcal.report.sections.speedup import draw_speedups


@pytest.fixture(scope="module")
def pictures(analysis: Analysis) -> dict[str, Picture]:
    drawn = draw_speedups(analysis.speedups["gemm"], "bf16", analysis.frames["gemm"])
    return {picture.key: picture for picture in drawn}


def maps_of(analysis: Analysis, *shapes: tuple[int, int, int]) -> list[Picture]:
    """The maps of an int8 product that is twice as fast at each of these shapes."""
    rows = pd.DataFrame(shapes, columns=["m", "n", "k"])
    rows = rows.assign(op="gemm", recipe="int8", provider="cublaslt")
    frame = analysis.frames["gemm"].iloc[[0] * len(rows)].reset_index(drop=True)
    table = rows.assign(speedup=2.0, speedup_low=1.9, speedup_high=2.1, baseline_s=1e-3)
    return draw_speedups(table, "bf16", frame.assign(**rows))


def test_every_ratio_is_in_one_cell(pictures: dict[str, Picture], analysis: Analysis) -> None:
    assert set(pictures) == {
        "speedup_cubes",
        "speedup_by_tokens",
        "speedup_by_layer",
        "speedup_by_shape",
    }
    shown = [
        picture.rows_of("points", panel)["label"]
        for picture in pictures.values()
        for panel in picture.panels
    ]
    ratios = analysis.speedups["gemm"]["speedup"]
    assert sorted(pd.concat(shown)) == sorted(f"{value:.2f}" for value in ratios)


def test_the_grid_of_tokens_has_weights_down_and_tokens_across(
    pictures: dict[str, Picture],
) -> None:
    chart = pictures["speedup_by_tokens"]
    assert (chart.x.key, chart.y.order) == ("m", ["3,584 \N{MULTIPLICATION SIGN} 8,192"])
    assert sorted(set(chart.tables["points"]["m"])) == [1, 16, 64, 256]


def test_facts_name_median_and_highest(pictures: dict[str, Picture], analysis: Analysis) -> None:
    table = analysis.speedups["gemm"]
    cubes = table[(table["m"] == table["n"]) & (table["n"] == table["k"])]
    assert f"highest {cubes['speedup'].max():.2f}" in pictures["speedup_cubes"].facts


def test_very_many_weights_are_thinned_and_said_so(analysis: Analysis) -> None:
    shapes = [(m, 64 * n, 64) for m, n in pairs((1, 2, 3), range(2, 302))]
    (picture,) = maps_of(analysis, *shapes)
    assert "60 of 300 weights and 3 of 3 sizes m are drawn." in picture.facts


def test_other_ops_and_empty_tables_have_no_map(analysis: Analysis) -> None:
    table, frame = analysis.speedups["gemm"], analysis.frames["gemm"]
    assert draw_speedups(table.iloc[:0], "bf16", frame) == []
    assert draw_speedups(pd.DataFrame({"rows": [1]}), "bf16", frame) == []


def test_the_sizes_that_most_shapes_have_are_drawn(analysis: Analysis) -> None:
    common = [(7, 64 * n, 64) for n in (1, 2, 3)]
    rare = [(100 + m, n, 64) for n in (64, 128) for m in range(40)]
    (picture, *_) = maps_of(analysis, *common, *rare)
    sizes = sorted(set(picture.tables["points"]["m"]))
    assert (sizes[0], len(sizes)) == (7, 16)
    assert "16 of 41 sizes m" in picture.facts
