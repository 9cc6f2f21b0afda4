"""Every format writes the H200, gives equal bytes again, and says what it lacks."""

from dataclasses import replace

import pytest

from roofcal.export.formats import FORMATS, check_format, export
from roofcal.export.subject import ExportError, Rate
from tests.roofcal.export.subjects import h200, without, without_link, without_sheet

TABLES = ["csv", "json", "yaml", "markdown", "latex"]
TOOLS = ["torchao", "calculon", "aiconfigurator", "llm-analysis", "genz"]


@pytest.mark.parametrize("name", FORMATS)
def test_equal_calibrations_give_equal_bytes_that_say_where_they_come_from(name: str) -> None:
    """Also where the constants come in another order."""
    calibration = h200().calibration
    constants = dict(reversed(list(calibration.constants.items())))
    errors = dict(reversed(list(calibration.probe_errors.items())))
    other = replace(calibration, constants=constants, probe_errors=errors)
    text = export(name, h200())
    assert export(name, replace(h200(), calibration=other)) == text
    assert text.endswith("\n")
    if name not in ("csv", "llm-analysis"):  # which have no room for it
        assert h200().command(name) in text.replace("\n ", "")
        assert calibration.environment_id in text


@pytest.mark.parametrize("name", TABLES)
def test_a_table_needs_no_datasheet(name: str) -> None:
    assert export(name, replace(without_sheet(), environment=None))


@pytest.mark.parametrize("name", TOOLS)
def test_the_file_of_a_tool_needs_the_datasheet_and_mostly_a_link(name: str) -> None:
    says = rf"^format {name}: needs the datasheet of nvidia-h200.*/nvidia-h200\.yaml; write it"
    with pytest.raises(ExportError, match=says):
        export(name, without_sheet())
    if name != "torchao":
        with pytest.raises(ExportError, match=rf"^format {name}: needs a link.* no link_gb_per_s"):
            export(name, without_link())


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("torchao", "dram_copy_bytes_per_s"),
        ("calculon", "gemm.cublaslt.bf16.ceiling_flops_per_s"),
        ("aiconfigurator", "launch_graph_s"),
        ("llm-analysis", "dram_read_bytes_per_s"),
        ("genz", "gemm.cublaslt.bf16.ceiling_flops_per_s"),
    ],
)
def test_a_constant_that_is_not_there_is_named_with_the_way_out(name: str, lost: str) -> None:
    name_in_message = lost.replace("cublaslt.bf16", "<provider>.<recipe>")
    with pytest.raises(ExportError, match="measure and fit that probe again") as caught:
        export(name, without(lost))
    assert f"format {name}: the calibration of nvidia-h200 in driver580" in str(caught.value)
    assert f"no constant '{name_in_message}'" in str(caught.value)


def test_a_rate_that_the_datasheet_does_not_print_is_named() -> None:
    with pytest.raises(ExportError, match=r"rate of fp4, which config/devices/nvidia-h200\.yaml"):
        h200().datasheet_rate("fp4")


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("LLM_analysis", r"did you mean 'llm-analysis'\? there are torchao, .*latex"),
        ("7", "unknown format '7'; there are torchao"),
    ],
)
def test_a_typo_gets_the_nearest_name_and_all_that_there_are(typed: str, says: str) -> None:
    with pytest.raises(ExportError, match=says):
        check_format(typed)


def test_a_rate_is_peak_times_fraction_and_above_the_datasheet_its_own_peak() -> None:
    for printed, expected in ((4.0, (4.0, 0.75)), (2.0, (3.0, 1.0)), (None, (3.0, 1.0))):
        rate = Rate(name="r", value=3.0, printed=printed)
        assert (rate.peak, rate.fraction) == expected


def test_name_and_memory_are_those_of_the_card_or_else_of_the_datasheet() -> None:
    assert (h200().device_name, h200().memory_bytes) == ("NVIDIA H200", 150754820096)
    bare = replace(h200(), environment=None)
    assert (bare.device_name, bare.memory_bytes) == ("NVIDIA H200", 141 * 10**9)
