"""Ratios between recipes and between methods of timing."""

from pathlib import Path

import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.core.statistics import summarise
from roofcal.report.data import comparisons
from roofcal.report.data.analysis import Analysis
from tests.roofcal.report.chapters import plain
from tests.roofcal.report.synthetic import MadeUpRun, product, samples_around, true_seconds


def test_a_speed_up_is_the_ratio_of_the_medians(analysis: Analysis) -> None:
    table = analysis.speedups["gemm"]
    (row,) = table[(table["m"] == 8192) & (table["recipe"] == "fp8_tensorwise")].to_dict("records")

    shape = (8192, 8192, 8192)
    expected = true_seconds(product(*shape)) / true_seconds(product(*shape, "fp8_tensorwise"))
    assert row["speedup"] == pytest.approx(expected)
    assert row["speedup_low"] < row["speedup"] < row["speedup_high"]
    assert set(table["recipe"]) == {"fp8_tensorwise", "fp8_axiswise"}
    assert len(table) == 2 * 16


def test_a_shape_without_the_baseline_has_no_ratio_and_memory_is_compared_where_it_is_known(
    tmp_path: Path,
) -> None:
    made_up = MadeUpRun()
    made_up.measure(product(64, 64, 64, "bf16"), 4e-6, peak_bytes=200)
    made_up.measure(product(64, 64, 64, "fp8_tensorwise"), 2e-6, peak_bytes=150)
    made_up.measure(product(64, 64, 64, "fp8_axiswise"), 2e-6)
    made_up.measure(product(64, 64, 128, "fp8_tensorwise"))
    made_up.fail(product(64, 64, 128, "bf16"), "failed", "x")

    table = comparisons.speedups(made_up.table(tmp_path), "bf16")

    assert set(table["k"]) == {64}
    ratios = table.set_index("recipe")["memory_ratio"]
    assert ratios["fp8_tensorwise"] == 0.75
    assert pd.isna(ratios["fp8_axiswise"])


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

    table = comparisons.speedups(made_up.table(tmp_path), "bf16")

    assert list(zip(table["provider"], table["speedup"], strict=True)) == [("triton", speedup)]


def test_a_pair_on_few_shapes_is_not_the_fastest() -> None:
    rows = [("often", 1.5)] * 4 + [("half", 2.0)] * 2 + [("once", 3.0)]
    table = pd.DataFrame(rows, columns=["recipe", "speedup"]).assign(provider="made")
    assert comparisons.fastest_pair(table) == ("half", "made", 2.0)


def test_where_the_baseline_is_faster_it_is_called_the_fastest() -> None:
    best = pd.DataFrame(
        [("fp8_axiswise", "made", "decode", 0.9), ("fp8_axiswise", "made", "large", 1.5)],
        columns=["recipe", "provider", "regime", "speedup"],
    )
    said = plain(comparisons.best_text(best, "bf16"))
    assert said == (
        "fp8_axiswise products are 1.50x as fast as bf16 at large; "
        "bf16 is the fastest at decode (m or n up to 64), where fp8_axiswise has 0.90x its speed"
    )


STUDY, PROBE = (4096, 4096, 4096), (5120, 24064, 3584)


def seconds_at(rate: float, shape: tuple[int, int, int]) -> float:
    m, n, k = shape
    return 2 * m * n * k / rate


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory, h200: DeviceSpec) -> Analysis:
    """A probe is the fastest; a calibrated rate, a sentinel and zeros are other numbers."""
    made_up = MadeUpRun()
    made_up.measure(product(*STUDY), seconds_at(650e12, STUDY), burst_s=seconds_at(750e12, STUDY))
    made_up.measure(product(*STUDY, repeat=1), seconds_at(800e12, STUDY))
    probe = product(*PROBE, op="probe_math")
    made_up.measure(probe, seconds_at(700e12, PROBE), burst_s=seconds_at(720e12, PROBE))
    made_up.measure(product(*STUDY, "fp8_axiswise"), seconds_at(1300e12, STUDY))
    made_up.constant("gemm.cublaslt.bf16.ceiling_flops_per_s", 600e12, "flop/s")
    return made_up.analysed(tmp_path_factory.mktemp("fastest"), h200)


def test_it_is_the_fastest_of_study_and_probes_with_its_interval(analysed: Analysis) -> None:
    fastest = comparisons.fastest_products(analysed.frames)

    assert list(fastest) == ["fp8_axiswise", "bf16"]
    assert comparisons.fastest_products({"cast": pd.DataFrame()}) == {}
    rate = fastest["bf16"].rate
    times = summarise(samples_around(seconds_at(700e12, PROBE)))
    work = 700e12 * seconds_at(700e12, PROBE)
    ends = (work / times.ci95_high, work / times.ci95_low)
    assert (rate.value, rate.ci95_low, rate.ci95_high) == pytest.approx((700e12, *ends))
    assert plain(fastest["bf16"].shape) == "5,120 x 24,064 x 3,584"
    assert fastest["bf16"].burst == pytest.approx(750e12), "the first turn of another shape"
    assert plain(fastest["bf16"].burst_shape) == "4,096 x 4,096 x 4,096"
