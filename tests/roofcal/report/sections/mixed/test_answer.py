"""The three sentences: their numbers come from records, and what is not there is said."""

from pathlib import Path

import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.kit.numbers import scaled
from roofcal.report.sections.mixed import answer_sentences
from tests.roofcal.report.narrow import G64, narrow, narrow_run, true_time


def answered(folder: Path, spec: DeviceSpec, *without: str, roofs: bool = True) -> list[str]:
    analysis: Analysis = analyse(load_run(narrow_run(without, roofs=roofs).write(folder)), spec)
    return answer_sentences(analysis.frames["mixed_gemm"], analysis.run.calibration)


def shown(recipe: str, provider: str) -> str:
    return scaled(true_time(narrow(16, 3584, 8192, recipe, provider)), "s")


def test_the_sentences_hold_the_records_of_the_point(tmp_path: Path, h200: DeviceSpec) -> None:
    first, second, third = answered(tmp_path, h200)
    for recipe, provider in (
        ("fp8_tensorwise", "cublaslt"),
        (G64, "tinygemm"),
        ("bf16", "cublaslt"),
    ):
        assert shown(recipe, provider) in first
    assert "3.00\N{MULTIPLICATION SIGN} as long" in first
    assert "0.54\N{MULTIPLICATION SIGN} the bytes of fp8" in first
    assert "at the calibrated copy bandwidth" in first
    assert "tinygemm is bound by the issue slots of dequantisation" in second
    assert scaled(3584 * 8192 / 8e11, "s") in second
    assert "by a plain launch" in third
    assert shown(G64, "triton") in third
    assert f"apart from that, {shown(G64, 'triton_chained')}" in third
    assert "1.25\N{MULTIPLICATION SIGN} as fast as fp8" in third


@pytest.mark.parametrize(
    ("without", "number", "says"),
    [
        ("cublaslt", 0, "Not measured: fp8_tensorwise at weights"),
        ("tinygemm", 0, "int4 by another library was not measured"),
        ("tinygemm", 1, "none was both measured at this point and calibrated"),
        ("triton", 2, "Not measured: kernels.int4_gemm"),
        ("triton_chained", 2, "was not measured by chained launches"),
    ],
)
def test_what_the_records_lack_is_said(
    tmp_path: Path, h200: DeviceSpec, without: str, number: int, says: str
) -> None:
    assert says in answered(tmp_path, h200, without)[number]


def test_without_roofs_no_cause_is_given(tmp_path: Path, h200: DeviceSpec) -> None:
    _, second, third = answered(tmp_path, h200, roofs=False)
    assert second.startswith("Which roof other int4 kernels meet is not known here")
    assert "bound by" not in third
