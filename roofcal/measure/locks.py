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


def wait_for_lock(names: Sequence[str], tell: Callable[[str], None]) -> Lock:
    """The lock of the first free device of `names`; while all are busy, tells so once and waits."""
    told = False
    while True:
        for name in names:
            lock = try_lock(name)
            if lock is not None:
                return lock
        if not told:
            tell(f"waiting: {', '.join(names)} in use (locks in {lock_folder()})")
            told = True
        time.sleep(1)
