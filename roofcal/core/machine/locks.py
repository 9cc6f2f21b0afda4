"""A lock per device, so that two jobs never time on one card, even if Snakemake dies.

A lock is a Unix socket with an abstract name, "@roofcal/device/<uuid of the card>": Linux lets one
socket have it at a time. It is no file, so it follows no TMPDIR, nobody can delete it under a
holder, no permissions keep another user from waiting for it, and nothing is left behind. Workers
inherit the descriptor: the card stays locked for as long as any process of the measurement lives.
Processes in containers with a network of their own do not see each other's locks.
"""

import errno
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

# What flock says on a file system that has no locks, such as Lustre mounted without -o flock.
NO_FILE_LOCKS: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
HOST_CLOCK: Final = "host-clock"  # lock of whoever times something by the clock of the host
_POLL_S = 0.1  # an attempt takes microseconds, and the device idles until the next one


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A held lock; release it, or die, to give the device back."""

    name: str
    socket: socket.socket

    @property
    def descriptor(self) -> int:
        """The file descriptor to hand to workers."""
        return self.socket.fileno()

    def release(self) -> None:
        """Give the device back, unless a worker still holds the inherited descriptor."""
        self.socket.close()


def lock_name(device: str) -> str:
    """The name of a device's socket, as /proc/net/unix and `ss -x` list it.

    ROOFCAL_LOCKS names another space of locks: tests neither wait for a study nor hold it up.
    """
    return f"@roofcal/{os.environ.get('ROOFCAL_LOCKS', 'device')}/{device}"


def lock_socket() -> socket.socket:
    """A socket without a name, for a worker to inherit before its device is free."""
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    held.set_inheritable(True)
    return held


def try_lock(device: str, inherited: socket.socket | None = None) -> Lock | None:
    """The lock of a device, or None while another process holds it; with that socket, if given."""
    held = inherited or lock_socket()
    try:
        held.bind("\0" + lock_name(device).removeprefix("@"))
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        if inherited is None or not is_taken:
            held.close()
        if is_taken:
            return None
        raise
    return Lock(name=device, socket=held)


def is_locked(device: str) -> bool:
    """Whether a process holds the lock of a device."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
        return asking.connect_ex("\0" + lock_name(device).removeprefix("@")) == 0


def wait_for_locks(
    devices: Sequence[str],
    count: int,
    tell: Callable[[str], None],
    inherited: socket.socket | None = None,
) -> list[Lock]:
    """Locks of the first `count` free devices of `devices`, in their order.

    While too few are free, tells so once and waits, holding none: whoever needs fewer may go first,
    and two who need all of them never wait for each other.

    inherited: the socket to lock a single device with, which a worker has inherited: the name that
    it gets here is the worker's too, so that both have to end before the device is free.
    """
    has_told = False
    while True:
        locks: list[Lock] = []
        for device in devices:
            lock = try_lock(device, inherited) if len(locks) < count else None
            locks += [lock] if lock is not None else []
        if len(locks) == count:
            return locks
        for lock in locks:
            lock.release()
        if not has_told:
            tell(f"waiting: another measurement uses {', '.join(devices)}")
            has_told = True
        time.sleep(_POLL_S)


@contextmanager
def lock_held(name: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Within it this process holds a lock, for which it waits before as `wait_for_locks` does."""
    (lock,) = wait_for_locks([name], 1, tell)
    try:
        yield
    finally:
        lock.release()
