"""Tables and figures of a chapter get ids, sources and commands of their own."""

import pytest

from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import FigureBlock
from roofcal.report.kit.columns import text
from roofcal.report.kit.writer import Pen, absent
from roofcal.report.sections.roofline.figure import draw


@pytest.fixture
def pen(analysis: Analysis) -> Pen:
    return Pen(analysis, "h200", 3)


def test_studies_are_the_study_ops_with_points(pen: Pen) -> None:
    assert set(pen.studies()) == {"gemm", "cast"}
    assert "probe_copy" in pen.a.frames


def test_a_table_is_named_after_the_chapter(pen: Pen) -> None:
    table = pen.table("x", "A table", pen.a.frames["gemm"], [text("recipe", "recipe")], "x.csv")
    assert (table.id, table.caption, table.source) == ("h200-x", "A table", "x.csv")
    assert table.total == len(pen.a.frames["gemm"])


def test_figures_are_told_apart_and_name_their_data(pen: Pen) -> None:
    picture = draw(pen.a.frames["gemm"], pen.a.run.calibration, pen.a.spec)
    first, second = pen.drawn([picture, None, picture], command="a command")
    assert isinstance(first, FigureBlock)
    assert isinstance(second, FigureBlock)
    assert first.source == pen.csv("gemm") == "nvidia-h200_gemm.csv"
    assert first.command == "a command"
    assert "f3x1x" in first.svg
    assert "f3x2x" in second.svg
    (usual,) = pen.drawn([picture])
    assert isinstance(usual, FigureBlock)
    assert usual.command.endswith("--op gemm")


def test_errors_are_those_of_the_op(pen: Pen) -> None:
    assert set(pen.errors("gemm")["op"]) == {"gemm"}


def test_what_is_absent_is_said_quietly() -> None:
    assert absent("Nothing here.").quiet
