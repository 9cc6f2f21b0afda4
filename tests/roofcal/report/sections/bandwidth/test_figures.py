"""Bandwidth against size, of streams and casts."""

from dataclasses import replace

import pytest

from roofcal.report.data.analysis import Analysis
from tests.roofcal.report.chapters import Shown, plain, shown_of


@pytest.fixture(scope="module")
def shown(analysis: Analysis) -> Shown:
    run = replace(analysis.run.environment, last_level_cache_bytes=60 << 20)
    return shown_of(replace(analysis, run=replace(analysis.run, environment=run)), "bandwidth")


def test_cold_and_hot_stand_beside_each_other(analysis: Analysis, shown: Shown) -> None:
    chart = shown.figures["streams"]
    assert [panel.title.split(":")[0] for panel in chart.panels] == ["cold", "hot"]
    words = {plain(entry.label) for entry in chart.legend if entry.label}
    assert words == {"datasheet 4.80 TB/s", "calibrated copy 4.00 TB/s", "cache 60 MiB (upright)"}
    assert sorted(chart.tables["levels"]["achieved_bytes_per_s"]) == [4e12, 4.8e12]
    assert list(chart.tables["cache"]["size"]) == [60 << 20]

    assert [layer.mark for layer in chart.layers if layer.table == "points"] == ["line", "dots"]
    heights = chart.rows_of("points", chart.panels[0])["achieved_bytes_per_s"]
    frame = analysis.frames["probe_copy"]
    cold = frame[frame["cache"] == "cold"]["achieved_bytes_per_s"]
    assert sorted(heights) == sorted(cold)
    assert "Highest: copy by triton" in chart.facts


def test_casts_have_a_panel_per_provider_and_products_no_figure(shown: Shown) -> None:
    assert list(shown.figures) == ["streams", "cast_bandwidth"]
    chart = shown.figures["cast_bandwidth"]
    assert [panel.title for panel in chart.panels] == ["torch_compile", "torch_eager"]
    assert [layer.mark for layer in chart.layers] == ["level", "dots"]


def test_streams_without_a_time_have_no_figure(analysis: Analysis) -> None:
    frame = analysis.frames["probe_copy"].assign(method="wall")
    assert not shown_of(analysis, "bandwidth", probe_copy=frame).figures
