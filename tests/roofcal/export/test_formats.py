"""Every format writes the H200, gives equal bytes again, and says what it lacks."""

from dataclasses import replace

import pytest

from roofcal.export.formats import FORMATS, check_format, export
from roofcal.export.subject import ExportError
from tests.roofcal.export.subjects import h200, without, without_link, without_sheet

TABLES = ["csv", "json", "yaml", "markdown", "latex"]
TOOLS = ["torchao", "calculon", "aiconfigurator", "llm-analysis", "genz"]


def test_these_are_the_formats() -> None:
    assert list(FORMATS) == TOOLS + TABLES


@pytest.mark.parametrize("name", TOOLS + TABLES)
def test_equal_calibrations_give_equal_bytes(name: str) -> None:
    """Also where the constants come in another order."""
    calibration = h200().calibration
    constants = dict(reversed(list(calibration.constants.items())))
    errors = dict(reversed(list(calibration.probe_errors.items())))
    other = replace(calibration, constants=constants, probe_errors=errors)
    text = export(name, h200())
    assert export(name, replace(h200(), calibration=other)) == text
    assert text.endswith("\n")


@pytest.mark.parametrize("name", [n for n in TOOLS + TABLES if n not in ("csv", "llm-analysis")])
def test_formats_with_room_for_it_say_where_they_come_from(name: str) -> None:
    text = export(name, h200())
    assert h200().command(name) in text.replace("\n ", "")
    assert h200().calibration.environment_id in text


@pytest.mark.parametrize("name", TABLES)
def test_a_table_needs_no_datasheet(name: str) -> None:
    assert export(name, replace(without_sheet(), environment=None))


@pytest.mark.parametrize("name", TOOLS)
def test_the_file_of_a_tool_needs_the_datasheet(name: str) -> None:
    with pytest.raises(ExportError, match=rf"^format {name}: needs the datasheet of nvidia-h200"):
        export(name, without_sheet())


@pytest.mark.parametrize("name", [n for n in TOOLS if n != "torchao"])
def test_a_tool_that_models_links_needs_one(name: str) -> None:
    with pytest.raises(ExportError, match=rf"^format {name}: needs a link"):
        export(name, without_link())


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("torchao", "dram_copy_bytes_per_s"),
        ("torchao", "gemm.cublaslt.bf16.ceiling_flops_per_s"),
        ("calculon", "dram_copy_bytes_per_s"),
        ("calculon", "gemm.cublaslt.bf16.ceiling_flops_per_s"),
        ("aiconfigurator", "launch_graph_s"),
        ("aiconfigurator", "dram_copy_bytes_per_s"),
        ("llm-analysis", "dram_read_bytes_per_s"),
        ("genz", "dram_read_bytes_per_s"),
        ("genz", "gemm.cublaslt.bf16.ceiling_flops_per_s"),
    ],
)
def test_a_constant_that_is_not_there_is_named(name: str, lost: str) -> None:
    name_in_message = lost.replace("cublaslt.bf16", "<provider>.<recipe>")
    with pytest.raises(ExportError) as caught:
        export(name, without(lost))
    assert f"format {name}: the calibration of nvidia-h200 in driver580" in str(caught.value)
    assert f"no constant '{name_in_message}'" in str(caught.value)


@pytest.mark.parametrize(
    ("typed", "meant"), [("torcha", "torchao"), ("llm_analysis", "llm-analysis"), ("JSON", "json")]
)
def test_a_typo_gets_the_nearest_name_and_all_that_there_are(typed: str, meant: str) -> None:
    with pytest.raises(ExportError, match=rf"did you mean '{meant}'\? there are torchao, .*latex"):
        check_format(typed)


def test_what_is_near_nothing_gets_all_that_there_are() -> None:
    with pytest.raises(ExportError, match=r"unknown format '7'; there are torchao"):
        check_format("7")
