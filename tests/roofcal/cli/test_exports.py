"""`table`: frames as CSV and JSON. `export`: constants for other tools."""

import csv
import io
import json
from pathlib import Path

import pytest

from roofcal.cli.main import main
from tests.paths import ROOT

EXPORT = ["export", "--device", "nvidia-h200", "--format"]


@pytest.fixture
def published(checkout: Path) -> Path:
    device = checkout / "reports/published/nvidia-h200"
    device.symlink_to(ROOT / "reports/published/nvidia-h200")
    return checkout


def printed(capsys: pytest.CaptureFixture[str], style: str) -> str:
    assert main(["table", "--device", "nvidia-h200", "--op", "cast", "--format", style]) == 0
    return capsys.readouterr().out


@pytest.mark.usefixtures("published")
def test_every_format_has_the_same_rows(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "csv"))))
    assert {row["provider"] for row in rows} == {"torch_compile", "triton"}
    assert all(float(row["median_s"]) > 0 for row in rows if row["status"] == "ok")
    assert len(json.loads(printed(capsys, "json"))) == len(rows)
    lines = [line for line in printed(capsys, "markdown").splitlines() if line.startswith("|")]
    assert len(lines) == len(rows) + 2  # its header and the rule below it


@pytest.mark.usefixtures("published")
def test_it_prints_the_file_and_says_whose_constants_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*EXPORT, "json"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["environment"]["device_name"] == "NVIDIA H200"
    assert f"from: reports/published/nvidia-h200/{found['environment_id']}" in said.err


def test_the_command_in_the_file_makes_the_same_bytes(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*EXPORT, "json", "--out", "a/first.json"]) == 0
    assert capsys.readouterr().out == ""
    first = (published / "a/first.json").read_bytes()
    command = json.loads(first)["made_by"].removeprefix("python -m roofcal ").split()
    assert main([*command, "--out", "second.json"]) == 0
    assert (published / "second.json").read_bytes() == first


@pytest.mark.usefixtures("checkout")
def test_tables_of_a_device_without_a_datasheet_and_a_record(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["export", "--device", "made-up", "--format", "csv"]) == 0
    assert "made-up,e1,dram_copy_bytes_per_s,4000000000000.0," in capsys.readouterr().out


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([*EXPORT, "torcha"], "unknown format 'torcha'; did you mean 'torchao'?"),
        (["export", "--device", "made-p", "--format", "csv"], "did you mean 'made-up'"),
        ([*EXPORT, "csv", "--environment", "e9"], "nvidia-h200 has no environment 'e9'"),
        (
            ["export", "--device", "made-up", "--format", "torchao"],
            "format torchao: the calibration of made-up in e1 has no constant 'gemm.<provider>",
        ),
        (
            ["export", "--device", "made-up", "--format", "aiconfigurator"],
            "format aiconfigurator: needs the datasheet of made-up",
        ),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert says in said.err
    assert said.out == ""
