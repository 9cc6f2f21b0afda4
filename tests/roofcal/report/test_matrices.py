"""The two small tables of the summary."""

import pytest

from roofcal.report.analysis import Analysis
from roofcal.report.matrices import error_matrix, error_table, gain_matrix, gain_table
from tests.roofcal.report.synthetic import MODEL_ERROR


def test_gains_are_medians_by_regime(analysis: Analysis) -> None:
    table = analysis.speedups["gemm"]

    matrix = gain_matrix(table).set_index("recipe")

    some = table[(table["recipe"] == "fp8_axiswise") & (table["regime"] == "decode")]
    assert matrix.loc["fp8_axiswise", "decode"] == some["speedup"].median()
    assert list(matrix.index) == ["fp8_tensorwise", "fp8_axiswise"]
    assert list(matrix["shapes"]) == [16, 16]
    assert list(matrix["slower"]) == [0, 0]


def test_errors_are_those_of_all_recipes(analysis: Analysis) -> None:
    matrix = error_matrix(analysis.errors, "gemm").set_index("model")

    assert next(iter(matrix.index)) == "calibrated"
    assert matrix.loc["calibrated", "decode"] == pytest.approx(MODEL_ERROR["decode"])
    assert matrix.loc["torchao", "all"] == pytest.approx(0.3)
    assert list(matrix["points"]) == [48, 48, 48]


def test_the_page_shows_regimes_from_all_to_ragged(analysis: Analysis) -> None:
    gain = gain_table(analysis.speedups["gemm"], id="g")
    labels = [column.label for column in gain.columns]
    assert labels == [
        "recipe",
        "all",
        "decode",
        "small",
        "mid",
        "large",
        "skinny_k",
        "shapes",
        "slower",
    ]
    error = error_table(analysis.errors, "gemm", id="e")
    assert [column.label for column in error.columns][-1] == "points"
    assert "10.0\N{NO-BREAK SPACE}%" in error.body
