"""Workers forked from a process that has imported torch, in place of new interpreters.

A new interpreter imports torch in 2 s of CPU, and the tests of measuring start 40 workers that need
it; one that is forked has it (tests/forked.py). What it imports of roofcal it imports itself, so
that stand-ins take the place of modules as in a new interpreter. Sessions in processes of their own
still start new interpreters.

A worker must be a child of the process that asks for it, which waits for it and with which it dies.
So it is forked once more, the process between ends, and Linux gives the orphan to the nearest
ancestor that is a subreaper: while it starts a worker, that is the process that asks.
"""

import ctypes
import fcntl
import os
import runpy
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from tests.forked import start_process

STARTED_AS = {"stdin": subprocess.PIPE, "stdout": 2, "start_new_session": True, "text": True}
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_FREE_FROM = 200  # descriptors from here on are in nobody's way


class ForkedWorker:
    """What roofcal.measure.workers needs of subprocess.Popen; a child of this process."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        descriptors, environment = options.pop("pass_fds"), dict(options.pop("env"))
        assert command[:3] == [sys.executable, "-m", "roofcal.measure.worker"]
        assert options == STARTED_AS
        end, mine = os.pipe()
        number, answer = os.pipe()
        # multiprocessing hands a Connection on, and closes ours; its numbers there are `names`.
        passed = [Connection(os.dup(one)) for one in (end, 2, 2, *descriptors, answer)]
        names = [0, 1, 2, *descriptors]
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        try:
            arguments = (command[3:], environment, passed, names)
            between = start_process(_fork_worker, *arguments, log=Path(os.devnull))
            os.close(answer)
            passed.clear()
            self.pid = int(os.read(number, 100))
            between.join()
            between.close()
        finally:
            libc.prctl(_PR_SET_CHILD_SUBREAPER, 0)
            os.close(end)
            os.close(number)
        self.stdin: IO[str] = os.fdopen(mine, "w")
        self.returncode: int | None = None

    def wait(self) -> int:
        """Wait for its end; its exit code, negative for a signal."""
        if self.returncode is None:
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def _fork_worker(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    passed: Sequence[Connection],
    names: Sequence[int],
) -> None:
    """Be, as an orphan, what a new interpreter would be with these arguments and descriptors."""
    between = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == between:
        time.sleep(0.0005)
    os.write(passed[-1].fileno(), str(os.getpid()).encode())
    os.setsid()
    free = [fcntl.fcntl(one.fileno(), fcntl.F_DUPFD, _FREE_FROM) for one in passed[:-1]]
    for connection in passed:
        connection.close()
    for descriptor, name in zip(free, names, strict=True):
        os.dup2(descriptor, name)
        os.close(descriptor)
    sys.stdin = os.fdopen(0)  # multiprocessing has closed the one that there was
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = arguments
    folders = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [folder for folder in folders if folder and folder not in sys.path]
    sys.modules.pop("sitecustomize", None)
    import_module("sitecustomize")  # the one of stand_ins
    assert not any(name.startswith("roofcal.") for name in sys.modules)
    runpy.run_module("roofcal.measure.worker", run_name="__main__", alter_sys=True)
