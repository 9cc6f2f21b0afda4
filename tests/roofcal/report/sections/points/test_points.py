"""All points of all ops are listed, with the columns that only people need."""

from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import Table
from roofcal.report.sections.points import readable_points
from tests.roofcal.report.chapters import blocks_of


def test_people_get_protocol_and_interval(analysis: Analysis) -> None:
    tables = [block for block in blocks_of(analysis, "points") if isinstance(block, Table)]
    assert [table.total for table in tables] == [len(f) for f in analysis.frames.values()]
    points = readable_points(analysis.frames["gemm"])
    assert {"graph, cold", "wall, cold", "graph, cold, zeros"} <= set(points["protocol"])
    assert 0 < points["half_width"].dropna().max() < 0.01
