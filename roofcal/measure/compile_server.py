"""The process that keeps a pool of compiling processes for all sessions of a study.

A session measures one op. A pool of its own would import torch anew in every process, and what it
compiled for the ops to come would be lost half-way when the session ends: on an H200 that was
a third of a quick study. So the first session starts this process, and those that follow connect to
it. It ends with the last connection, that is with the last session, however that ends.

A line is a JSON object. A session sends {"number": n} with "points": [[key, record], ...], with
"first": [key, ...] while its device waits for one of them, or with "pause": true or false. It gets
{"answer": n} with "open": [key, ...] or "processes": [pid, ...], and what the pool reports:
{"closed": key}, {"tell": line} and {"dead": line}. {} greets it.
"""

import json
import os
import selectors
import socket
import struct
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from roofcal.core.machine.locks import bind_name
from roofcal.measure.compile_pool import CompilePool, PoolSetup, Task

_SEND_S: Final = 10.0  # a session that reads nothing for so long gets no more
_FIRST_S: Final = 60.0  # a server to which nobody connected for so long ends


@dataclass(slots=True, eq=False)
class _Session:
    """A connection: what was read of its unfinished line, and what it asked for.

    A session that sent no points only keeps the server running, and is told nothing.
    """

    socket: socket.socket
    unread: bytes = b""
    has_points: bool = False
    pauses: bool = False
    sending: threading.Lock = field(default_factory=threading.Lock)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a line; a session that is gone, or reads nothing, is forgotten in `serve`."""
        try:
            with self.sending:
                self.socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)


class CompileServer:
    """Serves sessions from one pool, until none is connected."""

    def __init__(self, listener: socket.socket, setup: PoolSetup) -> None:
        self._listener = listener
        self._sessions: list[_Session] = []
        self._setup = setup
        self._pool = CompilePool(setup, self._report)

    def serve(self) -> None:
        """Serve until the last session has gone."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            has_served = False
            while not has_served or self._sessions:
                events = selector.select(None if has_served else _FIRST_S)
                if not events:  # the session that started it was killed
                    break
                for key, _ in events:
                    if key.fileobj is self._listener:
                        session = self._accepted()
                        if session is not None:
                            has_served = True
                            selector.register(session.socket, selectors.EVENT_READ, session)
                    elif not self._read(key.data):
                        selector.unregister(key.fileobj)
                        self._forget(key.data)
        self._listener.close()
        self._pool.stop()

    def _accepted(self) -> _Session | None:
        """A new session, if it is one of this user: names of sockets have no permissions."""
        connection, _ = self._listener.accept()
        if peer_user(connection) != os.getuid():
            connection.close()
            return None
        connection.settimeout(_SEND_S)
        session = _Session(connection)
        self._sessions = [*self._sessions, session]
        session.send({})
        return session

    def _read(self, session: _Session) -> bool:
        """Read what a session sent and do it; False where it has gone."""
        try:
            part = session.socket.recv(1 << 20)
        except OSError:
            return False
        *lines, session.unread = (session.unread + part).split(b"\n")
        for line in lines:
            self._do(session, json.loads(line))
        return bool(part)

    def _do(self, session: _Session, message: Mapping[str, Any]) -> None:
        answer: dict[str, Any] = {"answer": message["number"]}
        if "points" in message:
            session.has_points = True
            if self._pool.death:  # those that it served know; this session has a new one
                self._pool.stop()
                self._pool = CompilePool(self._setup, self._report)
            answer["open"] = self._pool.add(Task(key, point) for key, point in message["points"])
        if "first" in message:
            self._pool.prefer(message["first"])
        if "pause" in message:
            session.pauses = message["pause"]
            self._pause()
            answer["processes"] = self._pool.process_ids
        session.send(answer)

    def _pause(self) -> None:
        self._pool.pause(paused=any(session.pauses for session in self._sessions))

    def _forget(self, session: _Session) -> None:
        self._sessions = [other for other in self._sessions if other is not session]
        session.socket.close()
        if session.pauses:
            self._pause()

    def _report(self, message: dict[str, Any]) -> None:
        for session in self._sessions:
            if session.has_points:
                session.send(message)


def peer_user(connection: socket.socket) -> int:
    """The user id of the process at the other end of a Unix socket."""
    size = struct.calcsize("3i")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    _pid, user, _group = struct.unpack("3i", credentials)
    return int(user)


def main() -> None:
    """Entry of the process: argv[1] names its socket, argv[2] is the set-up of the pool as JSON.

    Ends at once where another one has the name. What starts it waits for the end of the process
    that it started: by then somebody listens.
    """
    name, setup = sys.argv[1], PoolSetup(**json.loads(sys.argv[2]))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if not bind_name(listener, name):
        return
    listener.listen()
    if os.fork():
        os._exit(0)
    os.setsid()
    CompileServer(listener, setup).serve()


if __name__ == "__main__":
    main()
