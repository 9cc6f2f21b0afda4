"""`publish`: prints the folder it made, refuses a run that is not finished."""

from pathlib import Path

import pytest

from roofcal.cli import main


def test_the_folder_is_printed(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("roofcal.publish.publish", lambda run, to, _devices: to / run.name)
    assert main(["publish", "--run", "results/made-up/e9"]) == 0
    assert capsys.readouterr().out == "reports/published/e9\n"


def test_a_run_without_records_is_refused(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "results/made-up/e9").mkdir(parents=True)
    assert main(["publish", "--run", "results/made-up/e9"]) == 2
    assert "results/made-up/e9" in capsys.readouterr().err
    assert not (checkout / "reports/published/e9").exists()
