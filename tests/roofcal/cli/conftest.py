"""A shell in which tests run commands."""

import json
import shlex
from typing import Any

import pytest

from roofcal.cli.main import main


class Shell:
    """Runs commands; `out` and `err` are what the last one printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys, self.out, self.err = capsys, "", ""

    def run(self, command: str) -> int:
        """The exit code."""
        try:
            code = main(shlex.split(command))
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        self.out, self.err = self._capsys.readouterr()
        return code

    def text(self, command: str) -> str:
        """What a command prints that succeeds."""
        assert self.run(command) == 0, self.err
        return self.out

    def json(self, command: str) -> Any:
        """As `text`, for programs."""
        return json.loads(self.text(f"{command} --json"))

    def refused(self, command: str) -> str:
        """The one message of a mistake."""
        assert (self.run(command), self.out) == (2, "")
        assert self.err.startswith("error: ")
        assert "Traceback" not in self.err
        return self.err


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)
