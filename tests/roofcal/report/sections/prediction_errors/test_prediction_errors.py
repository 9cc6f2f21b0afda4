"""The section on predictions: the worst points come first."""

from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import Table
from tests.roofcal.report.chapters import blocks_of


def test_the_worst_points_come_first(analysis: Analysis) -> None:
    tables = [b for b in blocks_of(analysis, "prediction-errors") if isinstance(b, Table)]
    (worst,) = [table for table in tables if table.id.endswith("worst-gemm")]
    assert worst.total == 20
    assert "+10.0" in worst.body.split("</tr>")[0]


def test_errors_are_those_of_their_op(analysis: Analysis) -> None:
    tables = {b.id: b for b in blocks_of(analysis, "prediction-errors") if isinstance(b, Table)}
    for op in ("gemm", "cast"):
        rows = analysis.errors[analysis.errors["op"] == op]
        assert tables[f"x-errors-{op}"].total == len(rows)
