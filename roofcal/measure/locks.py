"""A lock per GPU, so that two jobs never time on one card, even if Snakemake dies.

flock on a file named by the GPU's uuid; the descriptor is inherited by the worker, so that the card
stays locked for as long as any process of the measurement lives.
"""

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A held lock; close the descriptor (or die) to release it."""

    name: str
    descriptor: int

    def release(self) -> None:
        """Give the device back, unless a worker still holds the inherited descriptor."""
        os.close(self.descriptor)


def lock_folder() -> Path:
    """Folder of the lock files: local to the machine, shared by its users."""
    folder = Path(tempfile.gettempdir()) / "roofcal-locks"
    if not folder.is_dir():
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)  # not sticky: protected_regular would keep other users from the files
    return folder


def try_lock(name: str) -> Lock | None:
    """The lock of a device, or None while someone else holds it; raises OSError without access."""
    path = lock_folder() / f"{name}.lock"
    # Reading is enough for flock, and is what another user may do.
    descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    os.set_inheritable(descriptor, True)
    return Lock(name=name, descriptor=descriptor)


def wait_for_locks(names: Sequence[str], count: int, tell: Callable[[str], None]) -> list[Lock]:
    """Locks of the first `count` free devices of `names`, in their order.

    While too few are free, tells so once and waits, holding none: whoever needs fewer may go first,
    and two who need all of them never wait for each other.
    """
    told = False
    while True:
        held: list[Lock] = []
        for name in names:
            lock = try_lock(name) if len(held) < count else None
            held += [lock] if lock is not None else []
        if len(held) == count:
            return held
        for lock in held:
            lock.release()
        if not told:
            tell(f"waiting: {', '.join(names)} in use (locks in {lock_folder()})")
            told = True
        time.sleep(1)
