"""One measurement per device: between processes, and behind a dead parent."""

import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from roofcal.core.machine.locks import try_lock, wait_for_locks
from tests.paths import ROOT

IMPORT = "from roofcal.core.machine.locks import try_lock; "
HOLD = f"{IMPORT}lock = try_lock('card'); "
# Takes the lock, starts a child that inherits it and waits for the end of its input, and dies.
DIE_BEFORE_CHILD = """
import os, subprocess, sys
child = subprocess.Popen(["cat"], pass_fds=[lock.descriptor])
print(child.pid, flush=True)
os._exit(0)
"""


@pytest.fixture(autouse=True)
def own_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks of this test alone, here and in child processes."""
    monkeypatch.setenv("ROOFCAL_LOCKS", uuid.uuid4().hex)


@contextmanager
def other_process(code: str, *, head: str = HOLD) -> Iterator["subprocess.Popen[str]"]:
    """A process that runs `head` and `code`; its input ends with the block."""
    command = [sys.executable, "-c", head + code]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        yield process


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_lock_is_held_by_one_process_at_a_time() -> None:
    with other_process("print(lock is not None, flush=True); input()") as other:
        assert first_line(other) == "True"
        assert try_lock("card") is None
        other.kill()
        other.wait()
        lock = try_lock("card")
    assert lock is not None, "kill -9 of the holder frees the card"
    lock.release()


def test_a_lock_is_refused_within_one_process_too() -> None:
    lock = try_lock("card")
    assert lock is not None
    assert try_lock("card") is None
    lock.release()


def test_a_released_lock_can_be_taken_elsewhere() -> None:
    lock = try_lock("card")
    assert lock is not None
    lock.release()
    with other_process("print(lock is not None, flush=True)") as other:
        assert first_line(other) == "True"


def test_locks_of_two_devices_do_not_meet() -> None:
    one, two = try_lock("card one"), try_lock("card two")
    assert one is not None
    assert two is not None
    one.release()
    two.release()


def test_an_inherited_descriptor_keeps_the_lock_behind_a_dead_parent() -> None:
    """The worker is such a child: the card is busy until it, too, has ended."""
    with other_process(DIE_BEFORE_CHILD) as parent:
        child = int(first_line(parent))
        assert parent.wait() == 0
        assert try_lock("card") is None
        assert os.path.exists(f"/proc/{child}")  # noqa: PTH110 (a process, not a file)
        assert parent.stdin is not None
        parent.stdin.close()
        (lock,) = wait_for_locks(["card"], 1, lambda _: None)
    lock.release()


def test_waiting_takes_the_first_free_device() -> None:
    busy = try_lock("card one")
    assert busy is not None
    (lock,) = wait_for_locks(["card one", "card two"], 1, pytest.fail)
    assert lock.name == "card two"
    lock.release()
    busy.release()


def test_waiting_for_busy_devices_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    held, told, naps = [try_lock("a"), try_lock("b")], list[str](), list[float]()

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3 and held[1] is not None:
            held[1].release()

    monkeypatch.setattr(time, "sleep", nap)
    (lock,) = wait_for_locks(["a", "b"], 1, told.append)
    assert (lock.name, len(naps), len(told)) == ("b", 3, 1)
    assert told == ["waiting: another measurement uses a, b"]
    lock.release()
    assert held[0] is not None
    held[0].release()


def test_a_lock_is_the_same_wherever_temporary_files_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with other_process("print(lock is not None, flush=True); input()") as other:
        assert first_line(other) == "True"
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        monkeypatch.setattr(tempfile, "tempdir", None)
        assert try_lock("card") is None
        other.kill()


def test_a_lock_is_no_file_that_could_be_deleted_under_its_holder() -> None:
    lock = try_lock("card")
    assert lock is not None
    assert os.readlink(f"/proc/self/fd/{lock.descriptor}").startswith("socket:")  # noqa: PTH115
    lock.release()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_waits_for_the_same_lock() -> None:
    lock = try_lock("card")
    assert lock is not None
    code = "import os; os.setuid(65534); print(try_lock('card'))"
    with other_process(code, head=IMPORT) as other:
        assert first_line(other) == "None"
    lock.release()


def test_several_devices_are_taken_at_once_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is held while waiting: two who need both cards would wait for each other."""
    busy, free_meanwhile = try_lock("b"), list[bool]()

    def nap(_: float) -> None:
        other = try_lock("a")
        free_meanwhile.append(other is not None)
        assert other is not None
        assert busy is not None
        other.release()
        busy.release()

    monkeypatch.setattr(time, "sleep", nap)
    locks = wait_for_locks(["a", "b", "c", "d"], 4, lambda _: None)
    assert [lock.name for lock in locks] == ["a", "b", "c", "d"]
    assert free_meanwhile == [True]
    for lock in locks:
        lock.release()
