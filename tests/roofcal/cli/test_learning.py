"""`learning`: the curves of a run folder to a file, or to the terminal."""

from pathlib import Path

import pytest

from roofcal.cli.main import main
from roofcal.core.jsonl import read_records, write_records
from roofcal.core.records import Measurement
from tests.roofcal.calibrate.probe_runs import write_run


def test_the_file_holds_what_is_printed(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(checkout / "results/made-up/e1")
    path = run / "measurements/probe_math.jsonl"
    write_records(path, read_records(path, Measurement)[:22])
    assert main(["learning", "--run", str(run), "--out", "deep/learning.csv"]) == 0
    assert main(["learning", "--run", str(run)]) == 0
    printed = capsys.readouterr().out
    assert (checkout / "deep/learning.csv").read_text() == printed
    assert "\ngemm,bf16,made,12,4,10," in printed


def test_a_folder_without_records_is_one_message(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["learning", "--run", "no"]) == 2
    assert "no/environment.jsonl: no such records file" in capsys.readouterr().err
