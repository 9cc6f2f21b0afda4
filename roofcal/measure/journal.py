"""The journal of an op on a device: every measurement ever taken there, in the order it was taken.

It is appended line by line and never rewritten, so a kill loses at most the line in flight, and a
restart measures only what is missing. A measurement is taken over as long as the code that took it
(ops/<op>, its kernels, measure/) and the timing protocol are the same.
"""

from collections.abc import Callable, Collection
from pathlib import Path

from roofcal.records import (
    Measurement,
    Record,
    Session,
    append_record,
    salvage_records,
    write_records,
)


class Journal:
    """Records of earlier sessions, and a place to append."""

    def __init__(self, path: Path, tell: Callable[[str], None]) -> None:
        """Read `path` if it is there. Bad lines (a kill, a full disk) are set aside, and told of."""
        self.path = path
        self.records: list[Record] = []
        if path.is_file():
            self.records, bad = salvage_records(path)
            if bad:
                self._set_aside(tell, [str(error) for error in bad])

    def _set_aside(self, tell: Callable[[str], None], errors: list[str]) -> None:
        damaged = self.path.with_suffix(".damaged.jsonl")
        self.path.replace(damaged)
        write_records(self.path, self.records)
        tell("\n".join(errors))
        tell(f"kept {len(self.records)} good lines; the damaged file is {damaged}")

    @property
    def sessions(self) -> dict[str, Session]:
        """Sessions by id; the last line of a session (with its end) wins."""
        return {r.session_id: r for r in self.records if isinstance(r, Session)}

    def append(self, record: Record) -> None:
        """Add a record to the file and to memory; raises OSError when the disk is full."""
        append_record(self.path, record)
        self.records.append(record)

    def reusable(
        self, environment_id: str, code_hash: str, retry: Collection[str] = ()
    ) -> dict[str, Measurement]:
        """Latest measurement per point taken in this environment by this code; `retry`: statuses
        that are to be measured again."""
        sessions = self.sessions
        found: dict[str, Measurement] = {}
        for record in self.records:
            if not isinstance(record, Measurement) or record.session_id not in sessions:
                continue
            same_code = sessions[record.session_id].code_hash == code_hash
            if same_code and record.environment_id == environment_id:
                found[record.point_id] = record
        return {key: m for key, m in found.items() if m.status not in retry}
