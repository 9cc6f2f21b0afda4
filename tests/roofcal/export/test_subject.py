"""What a subject knows, and what it says where something is missing."""

from dataclasses import replace

import pytest

from roofcal.export.subject import COPY, ExportError, Rate, Subject, comment_lines, python_literal
from tests.roofcal.export.subjects import h200, measured, without, without_link, without_sheet


def test_a_rate_is_the_product_of_its_peak_and_its_fraction() -> None:
    rate = Rate(name="r", value=3.0, printed=4.0)
    assert (rate.peak, rate.fraction) == (4.0, 0.75)


@pytest.mark.parametrize("printed", [None, 2.0])
def test_a_rate_above_the_datasheet_is_its_own_peak(printed: float | None) -> None:
    rate = Rate(name="r", value=3.0, printed=printed)
    assert (rate.peak, rate.fraction) == (3.0, 1.0)


def test_the_fastest_product_is_that_over_the_recipes_of_a_dtype() -> None:
    rate = h200().fastest_product("fp8")
    assert rate is not None
    assert rate.name == "gemm.cublaslt.fp8_axiswise.ceiling_flops_per_s"
    assert (rate.value, rate.printed) == (measured(rate.name), 1979e12)


def test_a_dtype_that_no_probe_ran_has_no_fastest_product() -> None:
    assert h200().fastest_product("fp4") is None
    assert h200().fastest_product("int8") is None


def test_name_and_memory_are_those_of_the_card_or_else_of_the_datasheet() -> None:
    assert (h200().device_name, h200().memory_bytes) == ("NVIDIA H200", 150754820096)
    bare = replace(h200(), environment=None)
    assert (bare.device_name, bare.memory_bytes) == ("NVIDIA H200", 141 * 10**9)


def test_provenance_names_environment_seed_and_command() -> None:
    device, fit, command = h200().provenance("csv")
    assert "a51dd0fa" in device
    assert fit == f"fitted on {h200().calibration.probe_points} probe points, seed 0"
    assert command == f"made by: {h200().command('csv')}"
    assert h200().command("csv").endswith("a51dd0fa --format csv")


def test_comments_stand_behind_their_mark() -> None:
    assert comment_lines(["a", "b"], mark="%") == "% a\n% b\n"


@pytest.mark.parametrize(
    ("subject", "missing", "message"),
    [
        (without_sheet(), "sheet", "config/devices/nvidia-h200.yaml; write it"),
        (without_link(), "link_bytes_per_s", "has no link_gb_per_s"),
    ],
)
def test_what_is_not_written_down_is_named(subject: Subject, missing: str, message: str) -> None:
    with pytest.raises(ExportError, match=message):
        getattr(subject, missing)


def test_a_constant_that_was_not_fitted_is_named_with_the_way_out() -> None:
    with pytest.raises(ExportError, match=r"no constant 'dram_copy_bytes_per_s'; measure and fit"):
        without("dram_copy").constant(COPY)
    with pytest.raises(ExportError, match=r"of a recipe in bf16"):
        without("gemm.cublaslt.bf16.").required_product("bf16")


def test_a_rate_that_the_datasheet_does_not_print_is_named() -> None:
    assert h200().datasheet_rate("fp32") == 67e12
    with pytest.raises(ExportError, match=r"rate of fp4, which config/devices/nvidia-h200\.yaml"):
        h200().datasheet_rate("fp4")


def test_a_python_literal_stands_below_its_comments() -> None:
    text = python_literal({"b": {"x": 1.5}, "a": True}, ["why"])
    assert text == "# why\n{'b': {'x': 1.5}, 'a': True}\n"
