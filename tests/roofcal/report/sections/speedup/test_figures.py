"""Maps of the speed-up: each shape in one of them, the number in its cell."""

from itertools import product as pairs

import pandas as pd
import pytest

from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.charts import Picture
from roofcal.report.sections.speedup import draw_speedups
from tests.roofcal.report.chapters import Shown, plain, shown_of


@pytest.fixture(scope="module")
def shown(analysis: Analysis) -> Shown:
    return shown_of(analysis, "speedup")


def maps_of(analysis: Analysis, *shapes: tuple[int, int, int]) -> list[Picture]:
    """The maps of an int8 product that is twice as fast at each of these shapes."""
    rows = pd.DataFrame(shapes, columns=["m", "n", "k"])
    rows = rows.assign(op="gemm", recipe="int8", provider="cublaslt")
    frame = analysis.frames["gemm"].iloc[[0] * len(rows)].reset_index(drop=True)
    table = rows.assign(speedup=2.0, speedup_low=1.9, speedup_high=2.1, baseline_s=1e-3)
    return draw_speedups(table, frame.assign(**rows))


def test_every_ratio_is_in_one_cell(shown: Shown, analysis: Analysis) -> None:
    assert list(shown.figures) == ["speedup_cubes", "speedup_by_tokens", "speedup_by_shape"]
    cells = [
        picture.rows_of("points", panel)["label"]
        for picture in shown.figures.values()
        for panel in picture.panels
    ]
    ratios = analysis.speedups["gemm"]["speedup"]
    assert sorted(pd.concat(cells)) == sorted(f"{value:.2f}" for value in ratios)
    assert shown.tables["speedups-gemm"].total == len(ratios)


def test_the_grid_of_tokens_has_weights_down_and_tokens_across(shown: Shown) -> None:
    chart = shown.figures["speedup_by_tokens"]
    weights = ["4,096 x 1,024", "8,192 x 1,024", "1,280 x 8,192", "3,584 x 8,192", "7,168 x 8,192"]
    assert (chart.x.key, [plain(name) for name in chart.y.order or ()]) == ("m", weights)
    assert sorted(set(chart.tables["points"]["m"])) == [1, 16, 64, 256, 512, 4096]
    assert [panel.choice for panel in chart.panels] == ["fp8_tensorwise", "fp8_axiswise"]
    assert [entry.value for entry in chart.legend][::2] == ["0.5\u00d7", "1\u00d7", "2\u00d7"]


def test_the_sizes_that_most_shapes_have_are_drawn_and_many_weights_thinned(
    analysis: Analysis,
) -> None:
    (many,) = maps_of(analysis, *[(m, 64 * n, 64) for m, n in pairs((1, 2, 3), range(2, 302))])
    assert "60 of 300 weights and 3 of 3 sizes m are drawn." in many.facts
    common = [(7, 64 * n, 64) for n in (1, 2, 3)]
    rare = [(100 + m, n, 64) for n in (64, 128) for m in range(40)]
    (picture, *_) = maps_of(analysis, *common, *rare)
    sizes = sorted(set(picture.tables["points"]["m"]))
    assert (sizes[0], len(sizes)) == (7, 8)
    assert "8 of 41 sizes m" in picture.facts


def test_other_ops_and_empty_tables_have_no_map(analysis: Analysis) -> None:
    frame = analysis.frames["gemm"]
    assert draw_speedups(analysis.speedups["gemm"].iloc[:0], frame) == []
    assert draw_speedups(pd.DataFrame({"rows": [1]}), frame) == []
