"""Ratios between recipes and between methods of timing."""

from pathlib import Path

import pandas as pd
import pytest

from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.comparisons import best_text, fastest_pair, narrower_recipes, speedups
from tests.roofcal.report.synthetic import MadeUpRun, product, true_seconds


def test_a_speed_up_is_the_ratio_of_the_medians(analysis: Analysis) -> None:
    table = analysis.speedups["gemm"]
    (row,) = table[(table["m"] == 8192) & (table["recipe"] == "fp8_tensorwise")].to_dict("records")

    shape = (8192, 8192, 8192)
    expected = true_seconds(product(*shape)) / true_seconds(product(*shape, "fp8_tensorwise"))
    assert row["speedup"] == pytest.approx(expected)
    assert row["speedup_low"] < row["speedup"] < row["speedup_high"]


def test_every_recipe_but_the_baseline_is_compared(analysis: Analysis) -> None:
    table = analysis.speedups["gemm"]
    assert set(table["recipe"]) == {"fp8_tensorwise", "fp8_axiswise"}
    assert len(table) == 2 * 16


def test_a_shape_without_the_baseline_has_no_ratio(tmp_path: Path) -> None:
    made_up = MadeUpRun()
    made_up.measure(product(64, 64, 64, "fp8_tensorwise"))
    made_up.fail(product(64, 64, 64, "bf16"), "failed", "x")

    assert speedups(load_run(made_up.write(tmp_path)).points("gemm").table, "bf16").empty


@pytest.mark.parametrize(
    ("slower_provider", "speedup"),
    [
        ("triton", 4.0),  # with itself
        ("torch_compile", 2.0),  # triton has no baseline: with the fastest that has one
    ],
)
def test_a_provider_is_compared_with_itself_or_the_fastest_that_has_the_baseline(
    slower_provider: str, speedup: float, tmp_path: Path
) -> None:
    made_up = MadeUpRun()
    for provider, seconds in (("cublaslt", 4e-6), (slower_provider, 8e-6)):
        made_up.measure(product(64, 64, 64, "bf16", provider=provider), seconds)
    made_up.measure(product(64, 64, 64, "fp8_tensorwise", provider="triton"), 2e-6)

    table = speedups(load_run(made_up.write(tmp_path)).points("gemm").table, "bf16")

    assert list(zip(table["provider"], table["speedup"], strict=True)) == [("triton", speedup)]


def test_peak_memory_is_compared_where_points_know_it(tmp_path: Path) -> None:
    made_up = MadeUpRun()
    made_up.measure(product(64, 64, 64, "bf16"), 4e-6, peak_bytes=200)
    made_up.measure(product(64, 64, 64, "fp8_tensorwise"), 2e-6, peak_bytes=150)
    made_up.measure(product(64, 64, 64, "fp8_axiswise"), 2e-6)

    frame = load_run(made_up.write(tmp_path)).points("gemm").table

    assert frame["peak_bytes"].dropna().tolist() == [200, 150]
    ratios = speedups(frame, "bf16").set_index("recipe")["memory_ratio"]
    assert ratios["fp8_tensorwise"] == 0.75
    assert pd.isna(ratios["fp8_axiswise"])


def test_a_pair_on_few_shapes_is_not_the_fastest() -> None:
    rows = [("often", 1.5)] * 4 + [("half", 2.0)] * 2 + [("once", 3.0)]
    table = pd.DataFrame(rows, columns=["recipe", "speedup"]).assign(provider="made")
    assert fastest_pair(table) == ("half", "made", 2.0)


def test_the_recipes_that_save_bits() -> None:
    assert "fp8_axiswise" in narrower_recipes("gemm")
    assert not {"bf16", "fp32"} & set(narrower_recipes("gemm"))
    assert narrower_recipes("cast") == []
    assert narrower_recipes("linear") == []
    assert "int8" not in narrower_recipes("gemm")


def test_where_the_baseline_is_faster_it_is_called_the_fastest() -> None:
    best = pd.DataFrame(
        [("fp8_axiswise", "made", "decode", 0.9), ("fp8_axiswise", "made", "large", 1.5)],
        columns=["recipe", "provider", "regime", "speedup"],
    )
    said = best_text(best, "bf16").replace("\N{MULTIPLICATION SIGN}", "x")
    assert said == "bf16 at decode (fp8_axiswise: 0.90x); fp8_axiswise at large (1.50x)"
