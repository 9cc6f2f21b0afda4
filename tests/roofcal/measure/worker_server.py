"""Workers forked from a process that has imported torch, in place of new interpreters.

A new interpreter imports torch in 2 s of CPU, and the tests of measuring start 40 workers that need
it; one that is forked has it. What it imports of measuring and of ops it imports itself, so that
stand-ins take the place of modules as in a new interpreter. Sessions in processes of their own
still start new interpreters.

The server and `ForkedWorker` talk through a socket. A worker must be a child of the process that
asks for it, which waits for it and with which it dies. So it is forked twice, the process between
ends, and Linux gives the orphan to the nearest ancestor that is a subreaper: while it starts a
worker, that is the process that asks.
"""

import array
import ctypes
import fcntl
import gc
import json
import os
import runpy
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import IO, Any

from tests.paths import ROOT

# None of them has a stand-in.
IMPORTED = (
    "torch.distributed",
    "torch._inductor.compile_fx",
    "numpy",
    "roofcal.core.jsonl",
    "roofcal.core.timing_protocol",
)
STARTED_AS = {"stdin": subprocess.PIPE, "stdout": 2, "start_new_session": True, "text": True}
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_FREE_FROM = 200  # descriptors from here on are in nobody's way
_MOST_BYTES = 1 << 20  # of a request: arguments and environment
_MOST_DESCRIPTORS = 64


@dataclass(frozen=True)
class Server:
    """The process that forks, and the socket on which it is asked to."""

    process: subprocess.Popen[bytes]
    asked: socket.socket


@cache
def server() -> Server:
    """The server of this process. It ends with it."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        command = [sys.executable, "-m", "tests.roofcal.measure.worker_server", str(its.fileno())]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            pass_fds=(its.fileno(),),
            start_new_session=True,
            cwd=ROOT,
        )
    return Server(process, ours)


class ForkedWorker:
    """What roofcal.measure.workers needs of subprocess.Popen; a child of this process."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        descriptors, environment = options.pop("pass_fds"), dict(options.pop("env"))
        assert command[:3] == [sys.executable, "-m", "roofcal.measure.worker"]
        assert options == STARTED_AS
        end, mine = os.pipe()
        request = {"arguments": command[3:], "env": environment, "as": [0, 1, 2, *descriptors]}
        try:
            self.pid = _child([end, 2, 2, *descriptors], request)
        finally:
            os.close(end)
        self.stdin: IO[str] = os.fdopen(mine, "w")
        self.returncode: int | None = None

    def wait(self) -> int:
        """Wait for its end; its exit code, negative for a signal."""
        if self.returncode is None:
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def _child(descriptors: Sequence[int], request: Mapping[str, Any]) -> int:
    """Have a worker forked that becomes a child of this process; its number."""
    libc, asked = ctypes.CDLL(None), server().asked
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        rights = array.array("i", descriptors)
        asked.sendmsg(
            [json.dumps(request).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
        )
        answer = asked.recv(100)
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0)
    assert answer, "the server of workers is gone"
    return int(answer)


def main() -> None:
    """Fork a worker for each request until the other side is gone."""
    for module in IMPORTED:
        import_module(module)
    gc.freeze()  # looking through what was imported would copy its pages in each worker
    asked = socket.socket(fileno=int(sys.argv[1]))
    while request := _request(asked):
        reader, writer = os.pipe()
        between = os.fork()
        if between == 0:
            between = os.getpid()
            if os.fork():
                os._exit(0)
            while os.getppid() == between:
                time.sleep(0.0005)
            os.write(writer, str(os.getpid()).encode())
            for descriptor in (reader, writer, asked.detach()):
                os.close(descriptor)
            return _become_worker(request)
        os.waitpid(between, 0)
        for descriptor in (writer, *request["descriptors"]):
            os.close(descriptor)
        asked.send(os.read(reader, 100))
        os.close(reader)
    return None


def _request(asked: socket.socket) -> dict[str, Any]:
    """The next request, with its descriptors; empty when the other side is gone."""
    text, descriptors, _, _ = socket.recv_fds(asked, _MOST_BYTES, _MOST_DESCRIPTORS)
    return json.loads(text) | {"descriptors": descriptors} if text else {}


def _become_worker(request: Mapping[str, Any]) -> None:
    """Do as a new interpreter would with these arguments, descriptors and environment."""
    os.setsid()
    passed = [fcntl.fcntl(one, fcntl.F_DUPFD, _FREE_FROM) for one in request["descriptors"]]
    for descriptor in request["descriptors"]:
        os.close(descriptor)
    for descriptor, number in zip(passed, request["as"], strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv[1:] = request["arguments"]
    folders = request["env"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [folder for folder in folders if folder and folder not in sys.path]
    sys.modules.pop("sitecustomize", None)
    import_module("sitecustomize")  # the one of stand_ins
    assert not set(json.loads(os.environ["ROOFCAL_STAND_INS"])) & set(sys.modules)
    runpy.run_module("roofcal.measure.worker", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
