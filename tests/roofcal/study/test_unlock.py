"""The locks of a killed Snakemake go away once no study runs, and those of a running one stay."""

import errno
import fcntl
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from roofcal.study.unlock import hold_study_lock
from tests.paths import ROOT

NOTE = Path(".snakemake/roofcal_study.lock")
LOCK = Path(".snakemake/locks/0.output.lock")
_STUDY = "from roofcal.study.unlock import hold_study_lock; print(hold_study_lock(), flush=True)"


class StartedStudy:
    """A process that starts as a study does, and lives until it is killed."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"import sys; {_STUDY}; sys.stdin.read()"],
            env={"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.message = self.process.stdout.readline().strip()

    def kill(self) -> None:
        """`kill -9`."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], StartedStudy]]:
    """Starts a study in a folder of this test, where the test is too."""
    monkeypatch.chdir(tmp_path)
    LOCK.parent.mkdir(parents=True)
    with ExitStack() as stack:

        def start_study() -> StartedStudy:
            study = StartedStudy()
            stack.callback(study.kill)
            return study

        yield start_study


def assert_that_comers_keep_the_locks(start: Callable[[], StartedStudy]) -> None:
    """Two studies that start, say nothing, and are killed leave the locks where they are."""
    for _ in range(2):
        study = start()
        assert study.message == "None"
        study.kill()
        assert LOCK.exists()


def test_locks_that_nobody_noted_are_left_to_snakemake(start: Callable[[], StartedStudy]) -> None:
    LOCK.touch()
    assert_that_comers_keep_the_locks(start)
    assert NOTE.read_text() == ""


def test_the_start_after_kill_9_removes_the_locks(start: Callable[[], StartedStudy]) -> None:
    study = start()
    LOCK.touch()
    study.kill()
    assert "was killed" in start().message
    assert not LOCK.exists()


def test_a_living_study_keeps_its_locks_whoever_comes_and_goes(
    start: Callable[[], StartedStudy],
) -> None:
    first = start()
    living = start()
    LOCK.touch()
    first.kill()
    assert_that_comers_keep_the_locks(start)
    living.kill()
    assert "was killed" in start().message


def test_locks_of_another_machine_stay_and_the_one_command_is_told(
    start: Callable[[], StartedStudy], monkeypatch: pytest.MonkeyPatch
) -> None:
    start().kill()
    LOCK.touch()
    monkeypatch.setattr(socket, "gethostname", lambda: "login2")
    message = str(hold_study_lock())
    assert repr(NOTE.read_text()) in message
    assert "snakemake --unlock" in message
    assert LOCK.exists()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_without_locks_of_files_nothing_is_removed_and_the_one_command_is_told(
    number: int, start: Callable[[], StartedStudy], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(number, "no locks")

    start().kill()
    monkeypatch.setattr(fcntl, "flock", refuse)
    assert hold_study_lock() is None
    LOCK.touch()
    assert "snakemake --unlock" in str(hold_study_lock())
    assert LOCK.exists()


def test_a_link_in_place_of_the_lock_is_not_written_through(
    start: Callable[[], StartedStudy],
) -> None:
    Path("precious").write_text("as it was")
    NOTE.symlink_to(Path("precious").resolve())
    with pytest.raises(OSError, match=NOTE.name):
        hold_study_lock()
    assert Path("precious").read_text() == "as it was"
