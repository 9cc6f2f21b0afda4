"""One line per device, with the numbers of its tables."""

from pathlib import Path

import pytest

from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.data.comparisons import best_gain
from roofcal.report.summary import device_line


def test_the_line_of_a_whole_run(analysis: Analysis) -> None:
    row = device_line(analysis)

    rates = {recipe: product.rate.value for recipe, product in analysis.fastest.items()}
    assert (row["bf16"], row["best"], row["memory"]) == (rates["bf16"], max(rates.values()), 4e12)
    assert row["device"] == "NVIDIA H200"
    assert row["beyond"] == 0
    assert row["mape"] == analysis.errors["mape"].iloc[0]


def test_the_best_gain_is_over_large_products(analysis: Analysis) -> None:
    table = analysis.speedups["gemm"]
    large = table[(table["regime"] == "large") & (table["recipe"] == "fp8_tensorwise")]

    gain = best_gain(analysis.speedups["gemm"], "gemm")

    assert gain is not None
    assert gain[0] == pytest.approx(large["speedup"].median())
    assert gain[1] == "fp8_tensorwise"
    assert device_line(analysis)["gain"] == f"{gain[0]:.2f}\N{MULTIPLICATION SIGN} fp8_tensorwise"


def test_the_line_of_a_run_with_next_to_nothing(bare: Path) -> None:
    row = device_line(analyse(load_run(bare), None))

    assert [row[key] for key in ("memory", "mape", "judged", "beyond")] == [None] * 4
    assert row["ok"] == 2
    assert row["gain"] is None  # nobody knows the casts of int8
