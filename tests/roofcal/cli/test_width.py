"""Answers are as wide as the terminal that shows them, and at most 120 columns elsewhere."""

import fcntl
import os
import re
import struct
import sys
import termios
from threading import Thread

import pytest

from roofcal.cli.main import main
from tests.roofcal.cli.conftest import Shell

pytestmark = pytest.mark.usefixtures("published_alone")
ADVISE = "advise --device h200 4096x28672x8192"
COMMANDS = [
    ADVISE,
    "advise --device h200 64x8192x8192 --pass forward_backward --energy",
    "advise --device h100 16x4096x4096",  # whose name is not whole: a note
    "predict --device h200 --recipe rowwise 4096x28672x8192",
    "breakeven --device h200 --recipe fp8_axiswise 28672x8192",
    "llm --device h200 --model llama3-8b",
    "llm --device h200 --model llama3-8b --curve",
    "llm --device h200 --model llama3-8b --compare",
    "llm --device h200 --model llama3-8b --by datasheet --sweep --all",
    "compare docs/update/torch2.13.0 docs/update/torch2.14.1",
    "devices",
    "doctor",
    "claims --device nvidia-h200",
    "predict --device h200 --recipe rowwise 4096x28671x8190",  # refused
    "advise --device h200 16x4096x4096 --recipes fp9",
]
_COLOUR = re.compile("\x1b\\[[0-9]+m")


class Terminal:
    """A pseudo-terminal that commands print to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def run(self, command: str, columns: int) -> list[str]:
        """The lines that a command prints, notes, mistakes, colours and all."""
        master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        said: list[bytes] = []

        def read() -> None:
            try:
                while chunk := os.read(master, 4096):
                    said.append(chunk)
            except OSError:  # EIO: nobody writes to it any more
                os.close(master)

        reader = Thread(target=read)
        reader.start()
        with os.fdopen(slave, "w") as stream, self._monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            patch.setattr(sys, "__stdout__", stream)  # which shutil asks for its size
            patch.setattr(sys, "stderr", stream)
            assert main(command.split()) in (0, 1, 2)  # `compare` has a verdict; a mistake
        reader.join()
        return b"".join(said).decode().splitlines()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return Terminal(monkeypatch)


def widest(lines: list[str]) -> int:
    """Of the lines that could be broken: those of one word cannot."""
    return max(len(line) for line in lines if len(line.split()) > 1)


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_line_is_wider_than_the_terminal(command: str, columns: int, terminal: Terminal) -> None:
    shown = [_COLOUR.sub("", line) for line in terminal.run(command, columns)]
    assert shown
    assert widest(shown) <= columns


def test_a_wide_terminal_shows_what_a_pipe_gets_and_all_words_stay(
    terminal: Terminal, shell: Shell
) -> None:
    piped = shell.text(ADVISE)
    assert "\x1b" not in piped
    assert widest(piped.splitlines()) <= 120
    assert [_COLOUR.sub("", line) for line in terminal.run(ADVISE, 200)] == piped.splitlines()
    narrow = _COLOUR.sub("", " ".join(terminal.run(ADVISE, 80)))
    assert set(piped.split()) <= set(narrow.split())


def test_the_winner_is_green_in_a_terminal_that_wants_colours(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = terminal.run(ADVISE, 120)[0]
    assert first.startswith("\x1b[32mUse ")
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert "\x1b" not in "".join(terminal.run(ADVISE, 120))
