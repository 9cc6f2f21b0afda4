"""Narrow weights in the report: who wins and how surely, which roof binds, the two errors."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.numbers import scaled
from roofcal.report.sections.mixed import roof_curves
from tests.roofcal.report.chapters import Shown, plain, shown_of
from tests.roofcal.report.narrow import G64, G128, SIZES, TOKENS, narrow, narrow_run, true_time


@pytest.fixture(scope="module")
def shown(narrowed: Analysis) -> Shown:
    return shown_of(narrowed, "mixed")


def winners_of(shown: Shown, kind: str, mode: str) -> pd.DataFrame:
    winners = shown.files["mixed_winners.csv"]
    return winners[(winners["kind"] == kind) & (winners["mode"] == mode)]


def test_each_shape_has_its_fastest_format_and_uncertain_ones_are_marked(shown: Shown) -> None:
    measured = winners_of(shown, "measured", "plain")
    small = measured[measured["n"] == 3584].set_index("m")
    assert small["format"].to_dict() == {1: "int4", 16: "int4", 64: "fp8", 256: "fp8"}
    assert small["class"].to_dict() == {1: "sure", 16: "sure", 64: "uncertain", 256: "sure"}
    assert tuple(small.loc[1, ["recipe", "next_recipe"]]) == (G128, "fp8_tensorwise")
    assert small.loc[1, "ratio"] == pytest.approx(3 / 1.8)
    assert shown.answer.startswith("Of 8 measured shapes with few tokens, the fastest weights are ")


def test_chained_launches_are_a_mode_of_their_own(shown: Shown) -> None:
    assert "triton_chained" not in set(winners_of(shown, "measured", "plain")["provider"])
    chained = winners_of(shown, "measured", "chained")
    assert len(chained) == len(SIZES) * len(TOKENS)
    int4 = chained[chained["format"] == "int4"]
    assert set(int4["provider"]) == {"triton_chained"}
    assert set(int4["m"]) == {1, 16, 64}


def test_overlapping_predictions_are_uncertain(shown: Shown) -> None:
    predicted = winners_of(shown, "predicted", "plain").set_index(["n", "m"])
    assert set(predicted["class"].xs(64, level="m")) == {"uncertain"}
    assert set(predicted["class"].xs(1, level="m")) == {"sure"}
    assert predicted.loc[(3584, 1), "seconds"] == pytest.approx(1.05 * 1.8e-6 * 3584 * 8192 / 1e7)


def test_a_cell_says_its_format_in_words_and_marks_doubt_twice(shown: Shown) -> None:
    chart = shown.figures["mixed_crossover"]
    assert "measured, plain launches: fp8 50 %, int4 50 % of 8 shapes, 25 %" in plain(chart.facts)
    launches = ("plain launches", "int4 chained, others plain")
    titles = {f"{kind}, {how}" for kind in ("measured", "predicted") for how in launches}
    assert {panel.title for panel in chart.panels} == titles
    cells = chart.rows_of("points", chart.panels[0])
    assert list(cells["label"])[:4] == ["int4", "int4", "fp8?", "fp8"]
    assert list(chart.rows_of("uncertain", chart.panels[0])["m"]) == [64, 64]


def test_each_roof_has_its_range_of_tokens(shown: Shown) -> None:
    roofs = shown.files["mixed_roofs.csv"]
    large = roofs[roofs["n"] == 28672].groupby("provider", sort=False)["bound_by"].agg(list)
    assert (large["triton"][0], large["triton"][-1]) == ("memory", "matrix unit and activations")
    assert large["tinygemm"] == ["issue slots"]
    for _, spans in roofs.groupby(["provider", "n"]):
        assert (spans["m_from"].iloc[0], spans["m_to"].iloc[-1]) == (1, 256)
        assert list(spans["m_from"])[1:] == [m + 1 for m in spans["m_to"]][:-1]
    assert plain(shown.figures["mixed_roofs"].facts).startswith(f"{G64}, 16 measured points")


def test_roofs_begin_with_the_tokens_that_a_provider_takes() -> None:
    run = narrow_run()
    for name, constant in list(run.constants.items()):
        if name.startswith(f"mixed_gemm.triton.{G64}."):
            last = name.rpartition(".")[2]
            run.constants[f"mixed_gemm.triton_specialised.{G128}.{last}"] = constant
    tokens = roof_curves(run.calibration(), SIZES).groupby("provider")["m"]
    assert tokens.min().to_dict() == {"tinygemm": 1, "triton": 1, "triton_specialised": 17}
    assert set(tokens.max()) == {256}


def test_kernel_and_format_have_errors_of_their_own(shown: Shown) -> None:
    table = shown.files["mixed_errors.csv"]
    assert list(table["recipe"].drop_duplicates()) == ["bf16", "fp8_tensorwise", G64, G128]
    row = table[(table["recipe"] == G64) & (table["provider"] == "triton")].iloc[0]
    assert (row["points"], row["kernel_worst"]) == (8, 0.256)
    assert row["kernel_median"] == pytest.approx(0.04)
    assert (row["quantisation_median"], row["quantisation_worst"]) == (0.1, 0.1)


def test_a_line_per_recipe_and_provider_is_bytes_over_time(
    narrowed: Analysis, shown: Shown
) -> None:
    chart = shown.figures["mixed_bandwidth"]
    (panel,) = [one for one in chart.panels if plain(one.title) == "weights 3,584 x 8,192"]
    curves = dict(list(chart.rows_of("points", panel).groupby("series")))
    assert len(curves) == 3  # bf16, fp8 and the int4 of the largest groups
    assert all(list(curve["m"]) == list(TOKENS) for curve in curves.values())
    point, frame = narrow(1, 3584, 8192, G128), narrowed.frames["mixed_gemm"]
    (moved,) = frame.loc[frame["point_id"] == point.point_id, "dram_bytes"]
    rate = float(moved) / true_time(point)
    assert curves[f"{G128} by triton"]["achieved_bytes_per_s"].iloc[0] == pytest.approx(rate)
    assert G128 in chart.facts


def test_the_sentences_hold_the_records_of_the_point(shown: Shown) -> None:
    def time_of(recipe: str, provider: str) -> str:
        return plain(scaled(true_time(narrow(16, 3584, 8192, recipe, provider)), "s"))

    question, first, second, third = shown.prose
    assert question == "Why is int4 x bf16 decode slower than fp8?"
    for recipe, provider in (
        ("fp8_tensorwise", "cublaslt"),
        (G64, "tinygemm"),
        ("bf16", "cublaslt"),
    ):
        assert time_of(recipe, provider) in first
    assert "3.00x as long" in first
    assert "int4 moves 0.54x the bytes of fp8" in first
    assert "at the calibrated copy bandwidth" in first
    assert "tinygemm is bound by the issue slots of dequantisation" in second
    assert plain(scaled(3584 * 8192 / 8e11, "s")) in second
    assert f"{time_of(G64, 'triton')} (1.25x as fast as fp8) by a plain launch" in third
    assert f"apart from that, {time_of(G64, 'triton_chained')}" in third
    assert "the plain launch is bound by " in third


@pytest.mark.parametrize(
    ("without", "says"),
    [
        ("cublaslt", {1: "Not measured: fp8_tensorwise at 16 tokens"}),
        (
            "tinygemm",
            {
                1: "int4 by another library was not measured",
                2: "none was both measured at this point and calibrated",
            },
        ),
        ("triton", {3: "Not measured: kernels.int4_gemm"}),
        ("triton_chained", {3: "was not measured by chained launches"}),
    ],
)
def test_what_the_records_lack_is_said(
    tmp_path: Path, h200: DeviceSpec, without: str, says: dict[int, str]
) -> None:
    prose = shown_of(narrow_run((without,)).analysed(tmp_path, h200), "mixed").prose
    for number, text in says.items():
        assert text in prose[number]


def test_without_roofs_and_other_formats_the_section_says_so(
    tmp_path: Path, h200: DeviceSpec
) -> None:
    shown = shown_of(narrow_run(("cublaslt",), roofs=False).analysed(tmp_path, h200), "mixed")
    assert shown.quiet == [
        "No shape has a time in int4 and in another format: no crossover map.",
        "No roofs of narrow weights: probe_mixed_gemm was not calibrated.",
    ]
    assert shown.prose[2].startswith("Which roof other int4 kernels meet is not known here")
    assert "bound by" not in shown.prose[3]
    assert "mixed_roofs" not in shown.figures
    assert shown.answer.startswith("Cannot be told here: no shape has a time in int4")


def test_without_a_calibration_no_roof_is_told(narrowed: Analysis) -> None:
    shown = shown_of(replace(narrowed, run=replace(narrowed.run, calibration=None)), "mixed")
    assert len(shown.quiet) == 1
    assert shown.prose[1].endswith("int4 moves 0.54x the bytes of fp8.")


def test_points_without_a_standard_time_are_no_curves(narrowed: Analysis) -> None:
    frame = narrowed.frames["mixed_gemm"]
    for rows in (frame.assign(cache="hot"), frame[frame["recipe"] == "bf16"]):
        shown = shown_of(narrowed, "mixed", mixed_gemm=rows)
        assert not set(shown.figures) - {"mixed_roofs"}
