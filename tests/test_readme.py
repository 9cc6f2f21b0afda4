"""What the README shows is what the commands print, and it keeps its promise of two commands."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from roofcal.cli import COMMANDS, main

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
OF_THIS_MACHINE = ("doctor",)


def examples() -> Iterator[tuple[str, list[str]]]:
    """(command, what the README says it prints) of every example of the command line."""
    pattern = r"^    \$ python -m roofcal (.*)\n((?:    (?!\$ ).*\n|\n(?=    (?!\$ )))+)"
    for command, shown in re.findall(pattern, TEXT, re.MULTILINE):
        if command.split()[0] not in OF_THIS_MACHINE:
            yield command, [line.removeprefix("    ") for line in shown.splitlines()]


@pytest.mark.parametrize(("command", "shown"), list(examples()), ids=lambda found: str(found)[:40])
def test_an_example_prints_what_the_readme_shows(
    command: str,
    shown: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("roofcal.commands.places.RESULTS", Path("no-results-of-this-machine"))
    assert main(shlex.split(command)) == 0
    assert capsys.readouterr().out.splitlines() == shown


def test_there_are_examples() -> None:
    assert len(list(examples())) >= 3


def test_setting_up_takes_exactly_two_commands() -> None:
    section = TEXT.split("## Set up and run")[1].split("Python 3.11")[0]
    assert re.findall(r"^    (make \w+)", section, re.MULTILINE) == ["make study", "make test"]


def test_every_command_is_documented() -> None:
    for command in COMMANDS:
        assert f"`python -m roofcal {command.__name__.rpartition('.')[2]}" in TEXT
