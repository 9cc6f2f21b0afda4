"""Bandwidth against size, of streams and casts."""

import numpy as np

from roofcal.devices import DeviceSpec
from roofcal.report.analysis import Analysis
from roofcal.report.figures.bandwidth import draw_casts, draw_streams


def test_cold_and_hot_stand_beside_each_other(analysis: Analysis, h200: DeviceSpec) -> None:
    frame, calibration = analysis.frames["probe_copy"], analysis.run.calibration
    picture = draw_streams(frame, calibration, h200, 60 << 20)

    assert picture is not None
    titles = [axes.get_title(loc="left").split(":")[0] for axes in picture.figure.axes]
    assert titles == ["cold", "hot"]
    words = [text.get_text() for text in picture.figure.axes[0].texts]
    assert "datasheet 4.80\N{NO-BREAK SPACE}TB/s" in words
    assert "calibrated copy 4.00\N{NO-BREAK SPACE}TB/s" in words
    assert "cache 60\N{NO-BREAK SPACE}MiB" in words


def test_lines_go_through_the_measured_points(analysis: Analysis) -> None:
    frame = analysis.frames["probe_copy"]
    picture = draw_streams(frame, None, None, None)

    assert picture is not None
    heights = np.concatenate(
        [np.asarray(line.get_ydata()) for line in picture.figure.axes[0].lines]
    )
    cold = frame[frame["cache"] == "cold"]["achieved_bytes_per_s"]
    assert sorted(heights) == sorted(cold)
    assert "Highest: copy by triton" in picture.facts


def test_casts_have_a_panel_per_provider(analysis: Analysis) -> None:
    picture = draw_casts(analysis.frames["cast"], None, None)

    assert picture is not None
    titles = [axes.get_title(loc="left") for axes in picture.figure.axes]
    assert titles == ["torch_compile", "torch_eager"]


def test_products_and_empty_frames_have_no_bandwidth_figure(analysis: Analysis) -> None:
    assert draw_casts(analysis.frames["gemm"], None, None) is None
    assert draw_streams(analysis.frames["probe_copy"].iloc[:0], None, None, None) is None
