"""Take away the locks that a killed Snakemake left on this folder, once no study runs here.

Snakemake notes in .snakemake/locks which files it makes, and refuses to start while they are there.
`kill -9` leaves them behind, and they do not say whose they are. So every Snakemake that runs a
study shares a flock, which ends with its process; where nobody else has it, the locks are stale.
Measurements that a killed one left running are waited for by `measure` itself
(roofcal.measure.journal).
"""

import fcntl
import os
import socket
from pathlib import Path

from roofcal.core.machine.locks import NO_FILE_LOCKS

# It holds the name of the machine that made the locks: some file systems keep flock to one machine.
_STUDY_LOCK = Path(".snakemake/roofcal_study.lock")
_LOCKS = Path(".snakemake/locks")
_UNLOCK = "`snakemake --unlock` lets the study go on"


def hold_study_lock() -> str | None:
    """Share the lock of the current folder's studies until this process ends.

    Whoever finds no other study removes the locks that a killed Snakemake left. Returns what to
    tell: that they were removed, or why they may be stale and stay; None where there are none, or
    where Snakemake itself says what to do: another study runs, or nobody noted who made the locks.
    Raises OSError where the file of the lock cannot be written, or is a link.
    """
    _STUDY_LOCK.parent.mkdir(exist_ok=True)
    descriptor = os.open(_STUDY_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        message = _remove_stale_locks(descriptor)
    except BlockingIOError:
        message = None
    except OSError as error:
        os.close(descriptor)
        if error.errno not in NO_FILE_LOCKS:
            raise
        has_locks = any(_LOCKS.glob("*"))
        return f"{_LOCKS}: if no other study runs here, {_UNLOCK}" if has_locks else None
    # Only who starts holds it alone, and not for long. Whoever comes between has made no locks yet.
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return message


def _remove_stale_locks(descriptor: int) -> str | None:
    """Remove Snakemake's locks where this machine made them, and note it as the one that runs."""
    host = socket.gethostname().encode()
    noted_host = os.pread(descriptor, 256, 0)
    locks = [path for path in _LOCKS.glob("*") if path.is_file()]
    if locks and not noted_host:
        return None
    if locks and noted_host != host:
        name = ascii(noted_host.decode(errors="replace"))
        return f"{_LOCKS}: Snakemake ran on {name}; if it is dead, {_UNLOCK}"
    for lock in locks:
        lock.unlink(missing_ok=True)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, host, 0)
    return f"{_LOCKS}: removed the locks of a Snakemake that was killed" if locks else None
