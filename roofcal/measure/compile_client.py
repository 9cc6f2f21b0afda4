"""A session's view of the pool that compiles ahead: which of its points are compiled by now.

The session asks which of its groups are compiled, and takes those first, so that it does not wait
for a compiler while cores are idle. Where the pool or its server is gone, all points count as
compiled: the timing process compiles what is missing itself.
"""

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Final

from roofcal.core.jsonl import encode
from roofcal.core.machine.locks import lock_name
from roofcal.core.paths import CHECKOUT
from roofcal.core.records import PlanPoint
from roofcal.measure.compile_pool import PoolSetup
from roofcal.measure.compile_server import peer_user
from roofcal.ops import BY_NAME

_ATTEMPTS: Final = 3  # a server may end, with its last session, while another one connects
_ANSWER_S: Final = 30.0
_SILENCE_S: Final = 900.0  # more than a process may take to start and to compile a point
# Sessions that differ in one of these need kernels, or caches, of their own.
_VARIABLES: Final = (
    "PYTHONPATH",
    "HOME",
    "TMPDIR",
    "TRITON_CACHE_DIR",
    "TRITON_HOME",
    "TORCHINDUCTOR_CACHE_DIR",
)
# Folders of what compiles: benches, kernels, and what prepares and tells of them.
_COMPILING_CODE: Final = ("kernels", "roofcal/core", "roofcal/measure", "roofcal/ops")


class CompileClient:
    """Sends the points of a session to the server; `wait_for_any` says what is compiled.

    waited_s  seconds during which the session had to wait for a compiler
    """

    def __init__(
        self,
        points: Iterable[PlanPoint],
        setup: PoolSetup,
        tell: Callable[[str], None],
        basis_of: Callable[[str], str],
        log: Path,
    ) -> None:
        """Connect to the server of this study, and start it where there is none.

        Args:
            points: what to compile, the first needed first; points of several devices, and those
                whose kernels come with a library, are left out.
            setup: of the pool, if its server is started here.
            tell: takes one line where the pool dies or a compilation takes too long.
            basis_of: op -> text that names the code and the environment that its kernels are for.
            log: file for what the server and its processes print.
        """
        self._tell, self._basis_of = tell, basis_of
        self.waited_s = 0.0
        self._changed = threading.Condition()
        self._open: set[str] = set()
        self._is_alive, self._is_stopped = True, False
        self._asked = self._answered = 0  # numbers of the last question and the last answer
        self._process_ids: list[int] = []
        keys = {self._key(point): point for point in points if _needs_compiler(point)}
        # Open until the server says otherwise: it knows which of them were compiled before.
        self._open.update(keys)
        self._socket = _connected(setup, log)
        if self._socket is None:
            self._die(f"no process compiles ahead ({log} says why)")
            return
        self._reader = threading.Thread(target=self._read, args=(self._socket,), daemon=True)
        self._reader.start()
        self._ask({"points": [[key, encode(point)] for key, point in keys.items()]})

    def _key(self, point: PlanPoint) -> str:
        identity = f"{self._basis_of(point.op)} {point.point_id}"
        return hashlib.sha256(identity.encode()).hexdigest()

    @property
    def process_ids(self) -> list[int]:
        """The processes of the pool, when it was last asked to pause."""
        with self._changed:
            return list(self._process_ids)

    def is_compiled(self, points: Sequence[PlanPoint]) -> bool:
        """Whether none of the points is still to be compiled by the pool."""
        with self._changed:
            return self._all_compiled([self._key(point) for point in points])

    def _all_compiled(self, keys: Iterable[str]) -> bool:
        return not self._is_alive or self._open.isdisjoint(keys)

    def wait_for_any(self, groups: Sequence[Sequence[PlanPoint]]) -> int:
        """The number of the first group that is compiled; waits until there is one."""
        keys = [[self._key(point) for point in points] for points in groups]
        start = time.perf_counter()
        if not any(self.is_compiled(points) for points in groups):
            # What the device waits for comes before what the pool compiles for later ops.
            self._ask({"first": [key for of_group in keys for key in of_group]})
        with self._changed:
            while True:
                for number, of_group in enumerate(keys):
                    if self._all_compiled(of_group):
                        self.waited_s += time.perf_counter() - start
                        return number
                if not self._changed.wait(_SILENCE_S):
                    break
        self._die(f"the processes that compile ahead said nothing for {_SILENCE_S:.0f} s")
        self.waited_s += time.perf_counter() - start
        return 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within it no process compiles, because what the host times would wait for a core."""
        self._ask({"pause": True})
        try:
            yield
        finally:
            self._ask({"pause": False})

    def stop(self) -> None:
        """Leave the server, which ends with its last session."""
        self._is_stopped = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._reader.join()
            self._socket.close()

    def _ask(self, question: dict[str, Any]) -> None:
        """Send a line and wait for its answer, but not for a server that is gone."""
        if self._socket is None or not self._is_alive:
            return
        self._asked += 1
        with suppress(OSError):  # the reader notices a server that is gone
            self._socket.sendall(json.dumps({"number": self._asked} | question).encode() + b"\n")
        with self._changed:
            self._changed.wait_for(
                lambda: self._answered == self._asked or not self._is_alive, timeout=_ANSWER_S
            )

    def _read(self, connection: socket.socket) -> None:
        # ValueError: the last line of a server that was killed while it wrote.
        with suppress(OSError, ValueError), connection.makefile("r") as lines:
            for line in lines:
                self._note(json.loads(line))
        self._die("the process that compiles ahead ended")

    def _note(self, message: dict[str, Any]) -> None:
        with self._changed:
            if "open" in message:
                self._open.intersection_update(message["open"])
            self._process_ids = message.get("processes", self._process_ids)
            self._open.discard(message.get("closed", ""))
            self._answered = message.get("answer", self._answered)
            self._changed.notify_all()
        if "tell" in message:
            self._tell(message["tell"])
        if "dead" in message:
            self._die(message["dead"])

    def _die(self, reason: str) -> None:
        """Say once that nothing is compiled ahead any more, and keep nobody waiting."""
        with self._changed:
            was_alive, self._is_alive = self._is_alive, False
            self._changed.notify_all()
        if was_alive and not self._is_stopped:
            way_out = "points are compiled where they are timed"
            self._tell(reason if way_out in reason else f"{reason}: {way_out}")


def _needs_compiler(point: PlanPoint) -> bool:
    """Whether the pool compiles a point."""
    return point.world_size == 1 and point.provider not in BY_NAME[point.op].precompiled


def running_server(visible: str) -> socket.socket | None:
    """A connection to the server of this study, where one runs; it runs while this is open.

    visible: the device, as CUDA_VISIBLE_DEVICES names it.
    """
    with suppress(OSError):
        return _connection(_server_name(visible))
    return None


def _connected(setup: PoolSetup, log: Path) -> socket.socket | None:
    """A connection to the server of this study, started where there is none; None without one."""
    name = _server_name(setup.visible)
    for _ in range(_ATTEMPTS):
        try:
            if (connection := _connection(name)) is not None:
                return connection
        except ConnectionRefusedError:  # nobody listens: the next attempt finds the new server
            _start_server(name, setup, log)
        except OSError:  # its server ended meanwhile
            pass
    return None


def _connection(name: str) -> socket.socket | None:
    """A connection to the server of that name; None where another user's listens, or it ends.

    Raises OSError where nobody listens.
    """
    with ExitStack() as stack:
        connection = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        connection.settimeout(_ANSWER_S)
        connection.connect("\0" + name.removeprefix("@"))
        if peer_user(connection) == os.getuid() and connection.recv(1, socket.MSG_PEEK):
            connection.settimeout(None)
            stack.pop_all()
            return connection
    return None


def _start_server(name: str, setup: PoolSetup, log: Path) -> None:
    """Start the server and wait until it listens, or another one does.

    It holds no pipe of this session: whoever reads the session's log would wait for its end.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as stream:
        subprocess.run(
            [
                sys.executable,
                "-m",
                "roofcal.measure.compile_server",
                name,
                json.dumps(asdict(setup)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            cwd=CHECKOUT,
            check=False,
        )


def _server_name(visible: str) -> str:
    """The name of the socket that sessions of one user, checkout, code, device and caches share."""
    parts = [sys.executable, str(CHECKOUT), visible, *(os.environ.get(v, "") for v in _VARIABLES)]
    digest = hashlib.sha256("\0".join((*parts, _code_hash(CHECKOUT))).encode()).hexdigest()[:16]
    return lock_name(f"compile/{os.getuid()}/{digest}")


@cache  # a session keeps the code that it started with; 20 ms
def _code_hash(checkout: Path) -> str:
    """SHA-256 of all code that a compiling process runs: one started by older code is of no use."""
    digest = hashlib.sha256()
    for folder in _COMPILING_CODE:
        for path in sorted((checkout / folder).rglob("*.py")):
            digest.update(f"{path.relative_to(checkout)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
