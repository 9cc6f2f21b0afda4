"""The roofline plot: one panel per number format, both roofs, every point."""

from pathlib import Path

import numpy as np
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis
from roofcal.report.sections.roofline import draw_roofline
from tests.roofcal.report.drawn import dots


def test_a_panel_per_number_format(analysis: Analysis, h200: DeviceSpec) -> None:
    picture = draw_roofline(analysis.frames["gemm"], analysis.run.calibration, h200)

    assert picture is not None
    titles = [axes.get_title(loc="left") for axes in picture.figure.axes]
    assert titles == ["bf16", "fp8"]
    assert "48 points" in picture.facts


def test_roofs_level_off_at_datasheet_and_ceiling(analysis: Analysis, h200: DeviceSpec) -> None:
    picture = draw_roofline(analysis.frames["gemm"], analysis.run.calibration, h200)

    assert picture is not None
    tops = [float(np.max(line.get_ydata())) for line in picture.figure.axes[0].lines]
    assert tops == [989.5e12, 600e12]


def test_every_point_is_drawn_where_it_belongs(analysis: Analysis, h200: DeviceSpec) -> None:
    picture = draw_roofline(analysis.frames["gemm"], analysis.run.calibration, h200)

    assert picture is not None
    drawn = dots(*picture.figure.axes)
    assert len(drawn) == 48
    highest = analysis.frames["gemm"]["achieved_flops_per_s"].max()
    assert drawn[:, 1].max() == pytest.approx(highest)


def test_without_datasheet_and_calibration_the_points_remain(bare: Path) -> None:
    picture = draw_roofline(load_run(bare).points("gemm").table, None, None)
    assert picture is not None
    assert all(len(axes.lines) == 0 for axes in picture.figure.axes)


def test_an_op_that_computes_nothing_has_no_roofline(analysis: Analysis) -> None:
    assert draw_roofline(analysis.frames["cast"], None, None) is None
    assert draw_roofline(analysis.frames["gemm"].iloc[:0], None, None) is None
