"""All points of all ops are listed, with the columns that only people need."""

import pytest

from roofcal.ops import BY_NAME
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.audit import VIOLATION_COLUMNS
from roofcal.report.data.tidy import axes_of, with_protocol, with_shape
from roofcal.report.kit.blocks import Table
from roofcal.report.sections import (
    audit,
    method_panel,
    missing,
    prediction_errors,
    quality,
    speedup,
)
from roofcal.report.sections.points import point_columns, readable_points
from tests.roofcal.report.chapters import blocks_of

NOT_MADE_UP = (
    *("probe_math", "probe_cast", "probe_mixed_gemm", "mixed_gemm"),
    *("linear", "norm_linear_sigmoid", "transformer_block", "probe_link", "all_gather_matmul"),
)


OPS = [op for op in BY_NAME if op not in NOT_MADE_UP]


@pytest.mark.parametrize("op", OPS)
def test_every_column_of_the_points_exists(analysis: Analysis, op: str) -> None:
    frame = readable_points(analysis.frames[op])
    keys = {column.key for column in point_columns(axes_of(analysis.frames[op]))}
    assert keys - set(frame.columns) == {"peak_bytes"}  # which no record made up here knows


def test_people_get_protocol_and_interval(analysis: Analysis) -> None:
    tables = [block for block in blocks_of(analysis, "points") if isinstance(block, Table)]
    assert [table.total for table in tables] == [len(f) for f in analysis.frames.values()]
    points = readable_points(analysis.frames["gemm"])
    assert {"graph, cold", "wall, cold", "graph, cold, zeros"} <= set(points["protocol"])
    assert 0 < points["half_width"].dropna().max() < 0.01


def test_every_column_of_the_tables_exists(analysis: Analysis) -> None:
    panel = method_panel.method_panel(analysis.frames["gemm"])
    tables = {
        prediction_errors.ERRORS: analysis.errors,
        quality.COLUMNS: analysis.quality,
        tuple(speedup.columns_of(BY_NAME["gemm"])): analysis.speedups["gemm"],
        method_panel.COLUMNS: with_shape(with_protocol(panel)),
        missing.POINTS: with_protocol(analysis.missing),
        missing.REASONS: missing.counted_reasons(analysis.missing),
    }
    for columns, frame in tables.items():
        # of ops on several devices, and of points that know their memory
        optional = {"world_size", "memory_ratio"}
        assert {column.key for column in columns} - set(frame.columns) <= optional
    violations = {column.key for column in audit.POINTS} - {"protocol"}
    assert violations - {*analysis.violations.columns, *VIOLATION_COLUMNS} == set()
