"""What the README shows is what the commands print, and it keeps its promise of two commands."""

import re
import shlex
from pathlib import Path

import pytest

from roofcal.cli import main

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_predict_example_prints_what_the_readme_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("roofcal.commands.places.RESULTS", Path("no-results-of-this-machine"))
    found = re.search(r"    \$ python -m roofcal (predict .*)\n((?:    \S.*\n)+)", TEXT)
    assert found is not None
    assert main(shlex.split(found.group(1))) == 0
    shown = [line.strip() for line in found.group(2).splitlines()]
    assert capsys.readouterr().out.splitlines() == shown


def test_the_llm_example_prints_what_the_readme_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("roofcal.commands.places.RESULTS", Path("no-results-of-this-machine"))
    section = TEXT.split("## Ask it about a language model")[1].split("\n## ")[0]
    found = re.search(r"    \$ python -m roofcal (llm .*)\n((?:    .*\n|\n)+)", section)
    assert found is not None
    assert main(shlex.split(found.group(1))) == 0
    shown = [line.removeprefix("    ") for line in found.group(2).strip("\n").splitlines()]
    assert capsys.readouterr().out.splitlines() == shown


def test_setting_up_takes_exactly_two_commands() -> None:
    section = TEXT.split("## Set up and run")[1].split("Python 3.11")[0]
    assert re.findall(r"^    (make \w+)", section, re.MULTILINE) == ["make study", "make test"]


def test_every_command_is_documented() -> None:
    for name in (
        "doctor",
        "plan",
        "measure",
        "calibrate",
        "predict",
        "llm",
        "table",
        "report",
        "publish",
    ):
        assert f"`python -m roofcal {name}" in TEXT
