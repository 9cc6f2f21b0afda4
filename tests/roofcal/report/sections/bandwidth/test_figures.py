"""Bandwidth against size, of streams and casts."""

from roofcal.core.devices import DeviceSpec
from roofcal.report.data.analysis import Analysis
from roofcal.report.sections.bandwidth import draw_casts, draw_streams
from tests.roofcal.report.drawn import drawn


def test_cold_and_hot_stand_beside_each_other(analysis: Analysis, h200: DeviceSpec) -> None:
    frame, calibration = analysis.frames["probe_copy"], analysis.run.calibration
    chart = drawn(draw_streams(frame, calibration, h200, 60 << 20))

    assert [panel.title.split(":")[0] for panel in chart.panels] == ["cold", "hot"]
    words = {entry.label for entry in chart.legend if entry.label}
    assert words == {
        "datasheet 4.80\N{NO-BREAK SPACE}TB/s",
        "calibrated copy 4.00\N{NO-BREAK SPACE}TB/s",
        "cache 60\N{NO-BREAK SPACE}MiB (upright)",
    }
    assert sorted(chart.tables["levels"]["achieved_bytes_per_s"]) == [4e12, 4.8e12]
    assert list(chart.tables["cache"]["size"]) == [60 << 20]


def test_lines_go_through_the_measured_points(analysis: Analysis) -> None:
    frame = analysis.frames["probe_copy"]
    picture = draw_streams(frame, None, None, None)

    assert picture is not None
    chart = drawn(picture)
    assert [layer.mark for layer in chart.layers if layer.table == "points"] == ["line", "dots"]
    heights = chart.rows_of("points", chart.panels[0])["achieved_bytes_per_s"]
    cold = frame[frame["cache"] == "cold"]["achieved_bytes_per_s"]
    assert sorted(heights) == sorted(cold)
    assert "Highest: copy by triton" in picture.facts


def test_casts_have_a_panel_per_provider(analysis: Analysis) -> None:
    chart = drawn(draw_casts(analysis.frames["cast"], None, None))
    assert [panel.title for panel in chart.panels] == ["torch_compile", "torch_eager"]
    assert [layer.mark for layer in chart.layers] == ["level", "dots"]


def test_products_and_empty_frames_have_no_bandwidth_figure(analysis: Analysis) -> None:
    assert draw_casts(analysis.frames["gemm"], None, None) is None
    assert draw_streams(analysis.frames["probe_copy"].iloc[:0], None, None, None) is None
