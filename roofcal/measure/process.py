"""A worker process, and the pipe of its events."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from roofcal.core.records import Status

_EXIT_S = 10.0  # between closing its pipe and leaving an exit code, a large process unmaps memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a worker sends no more events.

    last  of several ranks: the id of the point that the rank at fault was working on
    """

    status: Status
    reason: str
    last: str | None = None


class WorkerProcess:
    """A worker process with its own process group, and the pipe of its events.

    It imports what the op needs at once, and touches a device only after `begin`.

    `open`: whether the worker still holds its end of the pipe.
    """

    def __init__(self, op: str, visible: str | None, descriptors: Sequence[int]) -> None:
        """Start the process.

        Args:
            op: what it is to measure.
            visible: the devices, as CUDA_VISIBLE_DEVICES names them; None leaves the variable.
            descriptors: of the locks of the devices, which it inherits.
        """
        reader, writer = os.pipe()
        environment = dict(os.environ)
        if visible is not None:
            environment["CUDA_VISIBLE_DEVICES"] = visible
        start = json.dumps({"op": op, "supervisor_pid": os.getpid()})
        command = [sys.executable, "-m", "roofcal.measure.worker", start, str(writer)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=2,  # what a library prints is no event
            pass_fds=(writer, *descriptors),
            start_new_session=True,
            env=environment,
            text=True,
        )
        os.close(writer)
        self.open = True
        self._events: IO[bytes] = os.fdopen(reader, "rb", buffering=0)
        self._buffer = b""

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def fileno(self) -> int:
        """Descriptor of the pipe of its events: what a selector waits for."""
        return self._events.fileno()

    def begin(self, setup: Mapping[str, Any]) -> None:
        """Let the worker take its device, whose lock it holds by now."""
        self.send(json.dumps(setup))

    def send(self, line: str) -> None:
        """Give the worker a group; a dead worker is noticed by the next next_event."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def next_event(self, timeout: float) -> dict[str, Any] | None:
        """The next event; None after `timeout` seconds of silence or when the worker has ended."""
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            selector.register(self, selectors.EVENT_READ)
            while (event := self.buffered_event()) is None:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                self.read_pipe()
                if not self.open:
                    return None
        return event

    def buffered_event(self) -> dict[str, Any] | None:
        """The next event of which the whole line has been read; None without one."""
        line, end, rest = self._buffer.partition(b"\n")
        if not end:
            return None
        self._buffer = rest
        event: dict[str, Any] = json.loads(line)
        return event

    def read_pipe(self) -> None:
        """Read what is in the pipe; nothing means that the worker has closed it."""
        part = os.read(self.fileno(), 1 << 20)
        self.open = bool(part)
        self._buffer += part

    def fault(self, timeout: float) -> Fault:
        """Why it was silent for so long: it hangs, or it is dead."""
        if self.open and self.is_running():
            reason = f"no sign of life for {timeout:g} s; the worker was killed"
            return Fault(status="timeout", reason=reason)
        return Fault(status="failed", reason=self.describe_end(_EXIT_S))

    def describe_end(self, seconds: float) -> str:
        """How it ended, in words. A worker that does not end in so many seconds is killed."""
        self._wait_for_exit(seconds)
        if self.is_running():
            self.kill()
            return f"the worker fell silent, did not end in {seconds:g} s, and was killed"
        return f"the worker died ({describe_exit(self.kill())})"

    def is_running(self) -> bool:
        """Whether the process lives. Its exit code stays unread, so that its pid is not reused."""
        if self._process.returncode is not None:
            return False
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.pid, how) is None

    def _wait_for_exit(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self.is_running() and time.monotonic() < end:
            time.sleep(0.02)

    def kill(self) -> int:
        """End the whole process group; the exit code, negative for a signal."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        code = self._process.wait()
        self._events.close()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # what a dead worker has not read
            self._process.stdin.close()
        return code


def describe_exit(code: int) -> str:
    """An exit code in words; negative ones are signals."""
    if code == -signal.SIGKILL:
        return "signal SIGKILL; the kernel sends it when memory runs out"
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
