"""Sessions, sources of the datasheet, and the commands that make the numbers again."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

import pandas as pd

from roofcal.core.records import Session
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.provenance import commands
from roofcal.report.kit.blocks import Block, Commands, Prose
from roofcal.report.kit.columns import code, named, text, wide
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Section, whole_run

SESSIONS: Final = (
    *named("op"),
    text("started_utc", "started, UTC"),
    text("finished_utc", "finished, UTC"),
    *named("host"),
    code("commit", "commit"),
    text("dirty", "uncommitted"),
    code("code", "code", about="first digits of the measuring code's hash"),
    code("session_id", "session"),
    code("device_uuid", "device"),
    code("command", "command"),
    code("timing", "timing"),
)
SOURCES: Final = (text("figure", "figure"), wide("source", "source"))
_DIRTY: Final = {True: "yes", False: "no", None: "unknown"}


def sessions_table(sessions: Sequence[Session]) -> pd.DataFrame:
    """One row per session: when, where, of which code, by which command."""
    rows = [
        {
            "op": session.op,
            "started_utc": _readable_time(session.started_utc),
            "finished_utc": _readable_time(session.finished_utc),
            "host": session.host,
            "commit": session.git_commit[:12] if session.git_commit else None,
            "dirty": _DIRTY[session.git_dirty],
            "code": session.code_hash[:12],
            "session_id": session.session_id,
            "device_uuid": session.device_uuid,
            "command": session.command,
            "timing": json.dumps(dict(session.timing), sort_keys=True),
        }
        for session in sessions
    ]
    return pd.DataFrame(rows)


def _readable_time(utc: str | None) -> str | None:
    """'2026-11-21T04:00:06+00:00' -> '2026-11-21 04:00:06'."""
    return utc.replace("T", " ").removesuffix("+00:00") if utc else None


def _blocks(analysis: Analysis, writer: SectionWriter) -> Iterator[Block]:
    sessions = analysis.all_sessions
    if sessions:
        name = "Sessions: when, where, of which code, by which command"
        yield writer.table("sessions", name, sessions_table(sessions), SESSIONS)
    if analysis.spec is not None and analysis.spec.sources:
        sources = pd.DataFrame(sorted(analysis.spec.sources.items()), columns=["figure", "source"])
        yield writer.table("sources", "Sources of the datasheet", sources, SOURCES)
    yield Prose(text="From the records to this chapter again, in a checkout of roofcal:")
    yield Commands(lines=commands(analysis))


SECTION = Section("Provenance", "how", whole_run, _blocks)
