"""One measurement per device: between processes, and behind a dead parent."""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from roofcal.core.machine.locks import is_locked, lock_held, try_lock, wait_for_locks
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


def test_a_lock_is_held_by_one_process_at_a_time_and_by_one_owner_within_it() -> None:
    with lock_held("card", pytest.fail):
        assert is_locked("card")
        assert try_lock("card") is None
    with lock_held("another card", pytest.fail), other_process(
        "print(lock is not None, flush=True); input()"
    ) as other:  # fmt: skip
        assert first_line(other) == "True"
        assert try_lock("card") is None
        other.kill()
        other.wait()
        assert not is_locked("card"), "kill -9 of the holder frees the card"


def test_an_inherited_descriptor_keeps_the_lock_behind_a_dead_parent() -> None:
    """The worker is such a child: the card is busy until it, too, has ended."""
    with other_process(DIE_BEFORE_CHILD) as parent:
        child = int(first_line(parent))
        assert parent.wait() == 0
        assert try_lock("card") is None
        assert os.path.exists(f"/proc/{child}")  # noqa: PTH110 (a process, not a file)
        assert parent.stdin is not None
        parent.stdin.close()
        with lock_held("card", lambda _: None):
            pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_waits_for_a_lock() -> None:
    code = "import os; os.setuid(65534); print(try_lock('card'))"
    with lock_held("card", pytest.fail), other_process(code, head=IMPORT) as other:
        assert first_line(other) == "None"


def test_waiting_takes_the_first_free_device_and_is_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = try_lock("one"), try_lock("two")
    assert one is not None
    assert two is not None
    told, naps = list[str](), list[float]()

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            two.release()

    monkeypatch.setattr(time, "sleep", nap)
    (lock,) = wait_for_locks(["one", "two"], 1, told.append)
    assert os.readlink(f"/proc/self/fd/{lock.descriptor}").startswith("socket:")  # noqa: PTH115
    assert (lock.name, len(naps)) == ("two", 3)
    assert told == ["waiting: another measurement uses one, two"]
    lock.release()
    one.release()


def test_several_devices_are_taken_at_once_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is held while waiting: two who need both cards would wait for each other."""
    busy, held_meanwhile = try_lock("b"), list[bool]()
    assert busy is not None

    def nap(_: float) -> None:
        held_meanwhile.append(is_locked("a"))
        busy.release()

    monkeypatch.setattr(time, "sleep", nap)
    locks = wait_for_locks(["a", "b", "c", "d"], 4, lambda _: None)
    assert [lock.name for lock in locks] == ["a", "b", "c", "d"]
    assert held_meanwhile == [False]
    for lock in locks:
        lock.release()
