"""The roofline plot: one panel per number format, both roofs, every point."""

import pandas as pd

from roofcal.core.devices import DeviceSpec
from roofcal.report.data.analysis import Analysis
from roofcal.report.sections.roofline import draw_roofline
from tests.roofcal.report.drawn import drawn


def test_a_panel_per_number_format(analysis: Analysis, h200: DeviceSpec) -> None:
    picture = draw_roofline(analysis.frames["gemm"], analysis.run.calibration, h200)
    titles = [panel.title.split(":")[0] for panel in drawn(picture).panels]
    assert titles == ["bf16", "fp8"]
    assert "48 points" in drawn(picture).facts


def test_roofs_level_off_at_datasheet_and_ceiling(analysis: Analysis, h200: DeviceSpec) -> None:
    chart = drawn(draw_roofline(analysis.frames["gemm"], analysis.run.calibration, h200))
    roofs = chart.rows_of("roofs", chart.panels[0])
    tops = roofs.groupby("recipe", sort=False)["achieved_flops_per_s"].max()
    assert dict(tops) == {"datasheet": 989.5e12, "bf16": 600e12}
    assert set(roofs.loc[roofs["dashed"] == 1, "recipe"]) == {"datasheet"}


def test_every_point_is_drawn_where_it_belongs(analysis: Analysis, h200: DeviceSpec) -> None:
    frame = analysis.frames["gemm"]
    chart = drawn(draw_roofline(frame, analysis.run.calibration, h200))
    points = pd.concat([chart.rows_of("points", panel) for panel in chart.panels])
    assert len(points) == 48
    assert points["achieved_flops_per_s"].max() == frame["achieved_flops_per_s"].max()
    intensity = frame["flops"] / frame["dram_bytes"]
    assert (points["intensity"] == intensity[points.index]).all()


def test_without_datasheet_and_calibration_the_points_remain(bare_analysis: Analysis) -> None:
    chart = drawn(draw_roofline(bare_analysis.frames["gemm"], None, None))
    assert chart.tables["roofs"].empty
    assert len(chart.tables["points"])


def test_an_op_that_computes_nothing_has_no_roofline(analysis: Analysis) -> None:
    assert draw_roofline(analysis.frames["cast"], None, None) is None
    assert draw_roofline(analysis.frames["gemm"].iloc[:0], None, None) is None
