"""The journal of an op on a device: every measurement ever taken there, in the order it was taken.

It is appended line by line and never rewritten, so a kill loses at most the line in flight, and a
restart measures only what is missing. A measurement is taken over as long as the code that took it
(ops/<op>, its kernels, measure/) and the timing protocol are the same.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from roofcal.core.jsonl import append_record, salvage_records, write_records
from roofcal.core.records import Measurement, Record, Session


class Journal:
    """Records of earlier sessions, and a place to append."""

    def __init__(self, path: Path, tell: Callable[[str], None]) -> None:
        """Read `path` if it is there; bad lines (a kill, a full disk) are set aside and told."""
        self.path = path
        self.records: list[Record] = []
        if path.is_file():
            self.records, bad = salvage_records(path)
            if bad or not _ends_whole(path):
                self._set_aside(tell, [str(error) for error in bad])

    def _set_aside(self, tell: Callable[[str], None], errors: list[str]) -> None:
        damaged = next(path for path in _damaged_names(self.path) if not path.exists())
        self.path.replace(damaged)
        write_records(self.path, self.records)
        errors = errors or [f"{self.path}: the last line has no end"]
        tell("\n".join(errors))
        tell(f"kept {len(self.records)} good lines; the damaged file is {damaged}")

    @property
    def sessions(self) -> dict[str, Session]:
        """Sessions by id; the last line of a session (with its end) wins."""
        return {r.session_id: r for r in self.records if isinstance(r, Session)}

    def append(self, record: Record) -> None:
        """Add a record to the file and to memory.

        Raises OSError, naming the file, when the disk is full; half a line is taken back.
        """
        size = self.path.stat().st_size if self.path.is_file() else 0
        try:
            append_record(self.path, record)
        except OSError as error:
            if self.path.is_file():
                os.truncate(self.path, size)
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        self.records.append(record)

    def reusable(self, session: Session, retry: Collection[str] = ()) -> dict[str, Measurement]:
        """Latest measurement per point that a new session need not take again.

        It was taken in the same environment, by the same code and timing protocol, and its status
        is none of `retry`.
        """
        same = {key for key, other in self.sessions.items() if _basis(other) == _basis(session)}
        found: dict[str, Measurement] = {}
        for record in self.records:
            if isinstance(record, Measurement) and record.session_id in same:
                found[record.point_id] = record
        return {key: m for key, m in found.items() if m.status not in retry}


def _basis(session: Session) -> tuple[str, str, Mapping[str, Any]]:
    """What a measurement depends on. A longer point_timeout_s changes no number: see --retry."""
    timing = {key: value for key, value in session.timing.items() if key != "point_timeout_s"}
    return session.environment_id, session.code_hash, timing


def _damaged_names(path: Path) -> Iterator[Path]:
    yield path.with_suffix(".damaged.jsonl")
    yield from (path.with_suffix(f".damaged{number}.jsonl") for number in count(2))


def _ends_whole(path: Path) -> bool:
    """Whether the last line ends: the next one would be glued to it otherwise."""
    with path.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        if stream.tell() == 0:
            return True
        stream.seek(-1, os.SEEK_END)
        return stream.read() == b"\n"
