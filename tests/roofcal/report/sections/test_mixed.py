"""Narrow weights in the report: who wins and how surely, which roof binds, the two errors."""

from dataclasses import replace
from pathlib import Path

import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.report.data.analysis import Analysis
from tests.roofcal.report.chapters import Shown, shown_of
from tests.roofcal.report.narrow import G128, narrow_run


@pytest.fixture(scope="module")
def shown(narrowed: Analysis) -> Shown:
    return shown_of(narrowed, "mixed")


def test_each_shape_has_its_fastest_format_and_uncertain_ones_are_marked(shown: Shown) -> None:
    winners = shown.files["mixed_winners.csv"]
    is_measured = (winners["kind"] == "measured") & (winners["mode"] == "plain")
    small = winners[is_measured & (winners["n"] == 3584)].set_index("m")
    assert small["format"].to_dict() == {1: "int4", 16: "int4", 64: "fp8", 256: "fp8"}
    assert small["class"].to_dict() == {1: "sure", 16: "sure", 64: "uncertain", 256: "sure"}
    assert tuple(small.loc[1, ["recipe", "next_recipe"]]) == (G128, "fp8_tensorwise")
    assert small.loc[1, "ratio"] == pytest.approx(3 / 1.8)
    assert shown.answer.startswith("Of 8 measured shapes with few tokens, the fastest weights are ")


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
