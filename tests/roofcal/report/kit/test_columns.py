"""Columns of the page's tables exist in the frames they are made for."""

import pytest

from roofcal.ops import BY_NAME
from roofcal.report.data.analysis import Analysis, with_shape
from roofcal.report.data.audit import VIOLATION_COLUMNS, reasons
from roofcal.report.data.tidy import axes_of
from roofcal.report.kit import columns

NOT_MADE_UP = (
    *("probe_math", "probe_cast", "probe_mixed_gemm", "mixed_gemm"),
    *("linear", "norm_linear_sigmoid", "probe_link", "all_gather_matmul"),
)
OPS = [op for op in BY_NAME if op not in NOT_MADE_UP]


@pytest.mark.parametrize("op", OPS)
def test_every_column_of_the_points_exists(analysis: Analysis, op: str) -> None:
    frame = columns.with_shown(analysis.frames[op])
    wanted = {column.key for column in columns.point_columns(axes_of(analysis.frames[op]))}
    assert wanted - set(frame.columns) == set()


def test_outputs_have_columns_where_they_are_told_apart() -> None:
    usual = {column.key for column in columns.point_columns(["m"])}
    (more,) = (
        column
        for column in columns.point_columns(["m"], ["output_sqnr_db"])
        if column.key not in usual
    )
    assert (more.key, more.label, more.unit) == ("output_sqnr_db", "output", "dB")
    assert (more.show(28.54), more.show(float("inf"))) == ("28.5", "exact")


def test_every_column_of_the_other_tables_exists(analysis: Analysis) -> None:
    tables = {
        columns.ERRORS: analysis.errors,
        columns.QUALITY: analysis.quality,
        columns.SPEEDUPS: analysis.speedups["gemm"],
        columns.PANEL: with_shape(columns.with_protocol(analysis.panel)),
        columns.MISSING_POINTS: columns.with_protocol(analysis.missing),
        columns.REASONS: reasons(analysis.missing),
    }
    for wanted, frame in tables.items():
        several = {"world_size"}  # of ops on several devices alone
        assert {column.key for column in wanted} - set(frame.columns) <= several
    violations = {column.key for column in columns.VIOLATIONS} - {"protocol"}
    assert violations - {*analysis.violations.columns, *VIOLATION_COLUMNS} == set()


def test_formats() -> None:
    assert columns.seconds("x", "x").show(1.23456e-5) == "12.35"
    assert columns.fraction("x", "x", signed=True).show(0.0512) == "+5.1\N{NO-BREAK SPACE}%"
    assert columns.count("x", "x").show(16384.0) == "16,384"
    assert columns.ratio("x", "x").show(1.5) == "1.50\N{MULTIPLICATION SIGN}"
    assert columns.TFLOPS.show(1.2345e15) == "1,234"


def test_people_get_protocol_and_interval(analysis: Analysis) -> None:
    shown = columns.with_shown(analysis.frames["gemm"])
    assert {"graph, cold", "wall, cold", "graph, cold, zeros"} <= set(shown["protocol"])
    assert 0 < shown["half_width"].dropna().max() < 0.01
