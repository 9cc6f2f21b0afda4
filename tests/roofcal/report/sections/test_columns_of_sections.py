"""Columns of the tables of sections exist in the frames they are made for."""

from roofcal.ops import BY_NAME
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.audit import VIOLATION_COLUMNS
from roofcal.report.data.tidy import with_protocol, with_shape
from roofcal.report.sections import (
    audit,
    method_panel,
    missing,
    prediction_errors,
    quality,
    speedup,
)


def test_every_column_of_the_tables_exists(analysis: Analysis) -> None:
    panel = method_panel.SECTION.contents(analysis).rows
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
