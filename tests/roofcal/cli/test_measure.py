"""`measure`: refuses what it must not measure before it touches a device."""

from pathlib import Path

import pytest

from roofcal.cli.main import main
from roofcal.core.jsonl import write_records
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT

ARGUMENTS = ["measure", "--plan", "p.jsonl", "--journal", "j.jsonl", "--out", "m.jsonl"]


def test_a_plan_of_another_machine_is_refused(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_records(checkout / "environment.jsonl", [ENVIRONMENT])
    arguments = [*ARGUMENTS, "--environment", "environment.jsonl", "--timing", "{}"]
    assert main(arguments) == 2
    assert ENVIRONMENT.device in capsys.readouterr().err
    assert not (checkout / "m.jsonl").exists()


def test_only_a_status_that_exists_can_be_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*ARGUMENTS, "--environment", "e.jsonl", "--timing", "{}", "--retry", "okay"])
    assert caught.value.code == 2
    assert "out_of_memory" in capsys.readouterr().err
