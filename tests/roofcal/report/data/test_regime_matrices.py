"""The two small tables of the summary."""

from pathlib import Path

import pytest

from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.data.regime_matrices import (
    error_matrix,
    error_table,
    gain_matrix,
    gain_table,
)
from roofcal.report.summary import device_line, fastest_recipes
from tests.roofcal.report.synthetic import MODEL_ERROR, MadeUpRun, product


def test_gains_are_medians_by_regime(analysis: Analysis) -> None:
    table = analysis.speedups["gemm"]

    matrix = gain_matrix(table).set_index("recipe")

    chosen = table[(table["recipe"] == "fp8_axiswise") & (table["regime"] == "decode")]
    assert matrix.loc["fp8_axiswise", "decode"] == chosen["speedup"].median()
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


def by_two_providers(tmp_path: Path) -> Analysis:
    """fp8 by a library, off by 10 %, and twice as fast by our kernels, off by 30 %."""
    made_up = MadeUpRun()
    made_up.measure(product(8192, 8192, 8192), 8e-3)
    for provider, seconds, error in (("cublaslt", 4e-3, 0.1), ("triton", 2e-3, 0.3)):
        point = product(8192, 8192, 8192, recipe="fp8_axiswise", provider=provider)
        made_up.measure(point, seconds)
        made_up.predict(point, "calibrated", seconds * (1 + error))
    return analyse(load_run(made_up.write(tmp_path)), None)


def test_gains_and_errors_of_two_providers_stand_apart(tmp_path: Path) -> None:
    analysis = by_two_providers(tmp_path)
    gains = gain_matrix(analysis.speedups["gemm"]).set_index("provider")["all"]
    assert gains.to_dict() == pytest.approx({"cublaslt": 2.0, "triton": 4.0})
    errors = error_matrix(analysis.errors, "gemm").set_index("provider")["all"]
    assert errors.to_dict() == pytest.approx({"all": 0.2, "cublaslt": 0.1, "triton": 0.3})
    for table in (
        gain_table(analysis.speedups["gemm"], id="g"),
        error_table(analysis.errors, "gemm", id="e"),
    ):
        assert table.columns[1].label == "provider"


def test_the_summary_says_whose_gain_and_whose_error_it_is(tmp_path: Path) -> None:
    analysis = by_two_providers(tmp_path)
    (best,) = fastest_recipes(analysis).to_dict("records")
    assert (best["recipe"], best["provider"], best["speedup"]) == ("fp8_axiswise", "triton", 4.0)
    row = device_line(analysis)
    assert str(row["gain"]).endswith("fp8_axiswise (triton)")
    assert row["mape"] == pytest.approx(0.1)  # the library's
