"""The roofline plot: one panel per recipe, both roofs, every point."""

import pandas as pd
import pytest

from roofcal.report.data.analysis import Analysis
from tests.roofcal.report.chapters import plain, shown_of


def test_points_stand_where_they_belong_below_roofs_of_datasheet_and_ceiling(
    analysis: Analysis,
) -> None:
    frame = analysis.frames["gemm"]
    shown = shown_of(analysis, "roofline", gemm=frame, cast=analysis.frames["cast"])
    assert list(shown.figures) == ["roofline"], "an op that computes nothing has none"
    chart = shown.figures["roofline"]
    assert chart.op == "gemm"
    views = {
        view: [panel for panel in chart.panels if panel.choice == view]
        for view in ("top decade", "share of the calibrated roof", "all points")
    }
    assert sum(map(len, views.values())) == len(chart.panels)
    panels = views["all points"]
    assert [plain(panel.title) for panel in panels] == [
        "bf16: calibrated 600 TFLOP/s, datasheet 990 TFLOP/s",
        "fp8_tensorwise: calibrated 1,200 TFLOP/s, datasheet 1,979 TFLOP/s",
        "fp8_axiswise: calibrated 1,000 TFLOP/s, datasheet 1,979 TFLOP/s",
    ]
    roofs = chart.rows_of("roofs", panels[0])
    tops = roofs.groupby("roof", sort=False)["achieved_flops_per_s"].max()
    assert dict(tops) == {"datasheet": 989.5e12, "calibrated": 600e12}
    assert set(roofs.loc[roofs["dashed"] == 1, "roof"]) == {"datasheet"}

    assert "48 points. The fastest point is " in chart.facts
    points = pd.concat([chart.rows_of("points", panel) for panel in panels])
    assert len(points) == 48
    assert points["achieved_flops_per_s"].max() == frame["achieved_flops_per_s"].max()
    intensity = frame["flops"] / frame["dram_bytes"]
    assert (points["intensity"] == intensity[points.index]).all()

    for panel in views["top decade"]:
        near, rates = chart.rows_of("points", panel), points["achieved_flops_per_s"]
        fastest = rates[points["recipe"] == panel.where["recipe"]]
        assert list(near.index) == list(fastest.index[fastest >= fastest.max() / 10])
        assert chart.rows_of("roofs", panel)["achieved_flops_per_s"].min() > rates.max() / 100
    for panel in views["share of the calibrated roof"]:
        own = chart.rows_of("points", panel)
        solid = chart.rows_of("roofs", panel).query("dashed == 0")
        last = own.sort_values("intensity").to_dict("records")[-1]  # below the flat part
        share = 100 * last["achieved_flops_per_s"] / solid["achieved_flops_per_s"].max()
        assert last["roof_percent"] == pytest.approx(share, abs=0.1)
    assert shown.answer.startswith("Its fastest products, settled: ")
    assert "Memory copies at 4.00 TB/s (83 % of the datasheet)." in shown.answer


def test_points_above_the_roof_of_a_slow_probe_are_told(analysis: Analysis) -> None:
    frame = analysis.frames["gemm"]
    faster = frame.assign(achieved_flops_per_s=1.5 * frame["achieved_flops_per_s"])
    chart = shown_of(analysis, "roofline", gemm=faster).figures["roofline"]
    assert "above the calibrated roof, by up to 1.5" in chart.facts
    above = chart.tables["points"]["above"].dropna()
    assert f" {len(above)} points lie above" in chart.facts


def test_without_datasheet_and_calibration_the_points_remain(bare_analysis: Analysis) -> None:
    shown = shown_of(bare_analysis, "roofline")
    chart = shown.figures["roofline"]
    assert chart.tables["roofs"].empty
    assert len(chart.tables["points"])
    assert shown.answer == "Cannot be told here: the run is not calibrated."
    assert not shown_of(bare_analysis, "roofline", gemm=bare_analysis.frames["gemm"][:0]).figures
