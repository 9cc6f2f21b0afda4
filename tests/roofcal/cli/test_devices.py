"""`devices`: what can be asked about, for people and for programs, and what `--device` takes."""

import json
from pathlib import Path

import pytest

from roofcal import api
from roofcal.ask.devices import device_sources
from roofcal.cli.main import main
from roofcal.core.files import write_bytes
from roofcal.core.jsonl import write_records
from tests.paths import ROOT
from tests.roofcal.models.runs import calibration


@pytest.fixture(autouse=True)
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("roofcal.core.paths.RESULTS", Path("no-results-of-this-machine"))


def test_devices_are_listed_with_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices"]) == 0
    measured, described = capsys.readouterr().out.split("described by a datasheet alone:\n")
    assert measured.startswith("measured:\n")
    (environment,) = api.devices()["nvidia-h200"]
    lines = measured.splitlines()
    (place,) = (i for i, line in enumerate(lines) if line.split()[0] == "nvidia-h200")
    assert lines[place].split("  ")[-1] == "--model calibrated, wave, torchao, datasheet"
    assert " 141 GB " in lines[place]
    assert lines[place + 1].startswith(f"    {environment} (published): gemm, cast, mixed_gemm, ")
    assert "probe_" not in measured
    named = {line.split()[0] for line in described.splitlines()}
    assert "nvidia-l40s" in named
    assert "nvidia-h200" not in named
    assert named <= {file.stem for file in (ROOT / "config/devices").glob("*.yaml")}


def test_devices_are_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--json"]) == 0
    rows = {row["device"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == list(api.devices())
    assert rows["nvidia-l40s"]["environments"] == []
    assert rows["nvidia-l40s"]["models"] == ["torchao", "datasheet"]
    (environment,) = rows["nvidia-h100-sxm"]["environments"]
    assert environment["published"]
    assert (Path(environment["folder"]) / "calibration.jsonl").is_file()


def test_what_was_measured_here_comes_first_and_the_latest_of_it(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("roofcal.core.paths.RESULTS", Path("results"))
    for folder in (
        "results/made-up/e1",
        "results/made-up/e2",
        "results/replay/made-up/e3",
        "reports/published/made-up/e1",
        "results/replay/other/e1",
        "reports/published/other/e2",
    ):
        write_bytes(checkout / folder / "environment.jsonl", b"")
        own = calibration(Path(folder).parent.name, Path(folder).name)
        write_records(checkout / folder / "calibration.jsonl", [own])
    assert main(["devices", "--json"]) == 0
    rows = {row["device"]: row for row in json.loads(capsys.readouterr().out)}
    environments = rows["made-up"]["environments"]
    names = [(run["environment"], run["published"]) for run in environments]
    assert names == [("e2", False), ("e1", False), ("e3", True), ("e1", True)]
    for device, first in (("made-up", "e2"), ("other", "e1")):
        _, answering = device_sources(device, None, "calibrated")
        assert rows[device]["environments"][0]["folder"] == answering.as_posix()
        assert api.devices()[device][0] == first == answering.name
    assert (rows["made-up"]["memory_bytes"], rows["made-up"]["models"]) == (None, ["calibrated"])


@pytest.mark.parametrize("command", ["predict", "advise"])
def test_a_part_of_several_ids_is_the_measured_device_and_a_note_says_so(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "64x4096x4096", "--device", "h100"]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("note: 'h100' is taken as nvidia-h100-sxm, which was measured; not ")
    assert "nvidia-h100-sxm, driver" in said.out


@pytest.mark.parametrize("model", ["calibrated", "datasheet", "wave"])
def test_an_unknown_device_is_answered_with_the_nearest_name(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", "4x4x4", "--device", "h2o0", "--model", model]) == 2
    assert "did you mean 'h200'?" in capsys.readouterr().err
