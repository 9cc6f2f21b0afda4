"""Ratios between recipes and between methods of timing."""

from pathlib import Path

import pytest

from roofcal.core.records import Protocol
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.comparisons import method_panel, protocol_name, speedups
from roofcal.report.data.loading import load_run
from roofcal.report.data.tidy import tidy_frame
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
    made = MadeUpRun()
    made.measure(product(64, 64, 64, "fp8_tensorwise"))
    made.fail(product(64, 64, 64, "bf16"), "failed", "x")

    assert speedups(tidy_frame(load_run(made.write(tmp_path)), "gemm", None), "bf16").empty


def test_providers_are_compared_with_themselves(tmp_path: Path) -> None:
    made = MadeUpRun()
    for provider, seconds in (("cublaslt", 4e-6), ("triton", 8e-6)):
        made.measure(product(64, 64, 64, "bf16", provider=provider), seconds)
    made.measure(product(64, 64, 64, "fp8_tensorwise", provider="triton"), 2e-6)

    table = speedups(tidy_frame(load_run(made.write(tmp_path)), "gemm", None), "bf16")

    assert list(zip(table["provider"], table["speedup"], strict=True)) == [("triton", 4.0)]


def test_a_provider_without_the_baseline_is_compared_with_the_fastest_that_has_it(
    tmp_path: Path,
) -> None:
    made = MadeUpRun()
    for provider, seconds in (("cublaslt", 4e-6), ("torch_compile", 8e-6)):
        made.measure(product(64, 64, 64, "bf16", provider=provider), seconds)
    made.measure(product(64, 64, 64, "fp8_tensorwise", provider="triton"), 2e-6)

    table = speedups(tidy_frame(load_run(made.write(tmp_path)), "gemm", None), "bf16")

    assert list(zip(table["provider"], table["speedup"], strict=True)) == [("triton", 2.0)]


def test_the_panel_holds_each_method_against_graph_replay(analysis: Analysis) -> None:
    ratios = {protocol_name(row): row["ratio"] for row in analysis.panel.to_dict("records")}

    assert ratios == pytest.approx(
        {
            "graph, hot": 1.0,
            "graph, cold, zeros": 0.9,
            "events + flush, cold": 1.5,
            "profiler, cold": 1.2,
            "wall, cold": 3.0,
            "graph, cold": 1.0,
        }
    )


def test_a_panel_point_without_its_standard_time_has_no_ratio(tmp_path: Path) -> None:
    made = MadeUpRun()
    made.measure(product(64, 64, 64, protocol=Protocol(method="wall"), sweeps=("panel_cpu",)))
    made.fail(product(64, 64, 64, sweeps=("panel_cpu",)), "failed", "x")

    panel = method_panel(tidy_frame(load_run(made.write(tmp_path)), "gemm", None))

    assert len(panel) == 1
    assert panel["ratio"].isna().all()


@pytest.mark.parametrize(
    ("method", "distribution", "words"),
    [
        ("graph", "normal", "graph, cold"),
        ("events_flush", "zeros", "events + flush, cold, zeros"),
        ("graph", "heavy_tails", "graph, cold, heavy tails"),
        ("accuracy", "normal", "not timed"),
        ("accuracy", "outlier_channels", "not timed, outlier channels"),
    ],
)
def test_a_protocol_has_words(method: str, distribution: str, words: str) -> None:
    row = {"method": method, "cache": "cold", "distribution": distribution}
    assert protocol_name(row) == words
