"""The journal of an op on a device: every measurement ever taken there, in the order it was taken.

It is appended line by line, so a kill loses at most the line in flight. What it holds is taken over
while the code that measured it and the timing protocol are the same.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path

from roofcal.core.jsonl import append_record, salvage_records, write_records
from roofcal.core.machine.locks import NO_FILE_LOCKS
from roofcal.core.records import Record, Session

_POLL_S = 1.0


class Journal:
    """Records of earlier sessions, and a place to append."""

    def __init__(self, path: Path, tell: Callable[[str], None]) -> None:
        """Read `path` if it is there; bad lines (a kill, a full disk) are set aside and told."""
        self.path = path
        self.records: list[Record] = []
        self._tell = tell
        self._size_read = 0
        self.read_again()

    def read_again(self) -> None:
        """Read the file if it has grown since: another session may have measured meanwhile."""
        if self._size() == self._size_read:
            return
        self.records, errors = salvage_records(self.path)
        # The next line would be glued to one without an end.
        with self.path.open("rb") as stream:
            stream.seek(max(0, self._size() - 1))
            is_cut_off = stream.read() not in (b"\n", b"")
        if errors or is_cut_off:
            # The damaged file is kept under another name, and its good lines are written anew.
            numbers = chain([""], count(2))
            names = (self.path.with_suffix(f".damaged{number}.jsonl") for number in numbers)
            damaged = next(path for path in names if not path.exists())
            self.path.replace(damaged)
            write_records(self.path, self.records)
            said = [str(error) for error in errors] or [f"{self.path}: the last line has no end"]
            self._tell("\n".join(said))
            self._tell(f"kept {len(self.records)} good lines; the damaged file is {damaged}")
        self._size_read = self._size()

    def _size(self) -> int:
        """Bytes of the file, 0 without one."""
        return self.path.stat().st_size if self.path.is_file() else 0

    @property
    def sessions(self) -> dict[str, Session]:
        """Sessions by id; the last line of a session (with its end) wins."""
        return {r.session_id: r for r in self.records if isinstance(r, Session)}

    def append(self, record: Record) -> None:
        """Add a record to the file and to memory.

        A session stands in the file twice: without its line no point of it could be taken over, and
        one bad byte there once cost 40 of 40 points.
        Raises OSError, naming the file, when the disk is full; half a line is taken back.
        """
        size = self._size()
        try:
            for _ in range(2 if isinstance(record, Session) else 1):
                append_record(self.path, record)
        except OSError as error:
            if self.path.is_file():
                os.truncate(self.path, size)
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        self.records.append(record)
        self._size_read = self._size()


@contextmanager
def lock_journal(path: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Let one session at a time use a journal; others wait, and are told so.

    The lock is flock on a file beside the journal. It ends with the process, however that ends. It
    holds between processes of one machine, and between machines on NFS (version 4, or 3 with
    lockd), where Linux makes a byte-range lock at the server of it. On a file system that has no
    locks the session says so and goes on: there, one session per journal is up to its user.
    """
    lock_file = path.with_name(f".{path.name}.lock")
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _locked_descriptor(lock_file, path, tell)
    try:
        yield
    finally:
        # Whoever waits for the removed file notices that another one is in its place.
        lock_file.unlink(missing_ok=True)
        os.close(descriptor)


def _locked_descriptor(lock_file: Path, journal: Path, tell: Callable[[str], None]) -> int:
    """A descriptor that holds the lock of the file that is at `lock_file` now."""
    has_told = False
    while True:
        descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Else who held it has removed it, and another file may be in its place.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), lock_file.stat()):
                    return descriptor
        except BlockingIOError:
            if not has_told:
                tell(f"waiting: another session measures into {journal}")
                has_told = True
            time.sleep(_POLL_S)
        except OSError as error:
            if error.errno in NO_FILE_LOCKS:
                tell(f"{journal}: its file system has no locks; start no second session on it")
                return descriptor
            os.close(descriptor)
            raise
        os.close(descriptor)
