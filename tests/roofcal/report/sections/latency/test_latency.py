"""Times over tokens: the fastest provider of each recipe, for weights at several m."""

import pandas as pd

from roofcal.report.data.analysis import Analysis
from roofcal.report.sections.latency import draw_latency
from tests.roofcal.report.chapters import plain, shown_of


def test_weights_at_three_sizes_of_m_have_a_panel_with_the_fastest_times(
    analysis: Analysis,
) -> None:
    frame = analysis.frames["gemm"]
    slower = frame.assign(provider="triton", median_s=3 * frame["median_s"])
    both = pd.concat([slower, frame], ignore_index=True)
    chart = shown_of(analysis, "latency", gemm=both).figures["latency"]
    assert [plain(panel.title) for panel in chart.panels] == ["weights 3,584 x 8,192"]
    points = chart.rows_of("points", chart.panels[0])
    assert set(points["provider"]) == {"cublaslt"}
    assert sorted(set(points["m"])) == [1, 16, 64, 256]
    assert [layer.low for layer in chart.layers if layer.mark == "interval"] == ["ci95_low_s"]
    assert ((points["ci95_low_s"] < points["median_s"]) & points["ci95_high_s"].notna()).all()
    assert draw_latency(frame[frame["m"] == 64]) is None
