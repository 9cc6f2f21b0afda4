"""Sessions, sources of the datasheet, and the commands that make the numbers again."""

import json
from collections.abc import Callable, Iterator
from typing import Final

import pandas as pd

from roofcal.core.names import is_commit
from roofcal.core.records import Session
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.provenance import commands
from roofcal.report.kit.blocks import Column, Commands, Prose, Table
from roofcal.report.kit.columns import code, text, wide
from roofcal.report.section import Item, Section

_DIRTY: Final = {True: "yes", False: "no", None: "unknown"}
# Each column of the table of sessions, and its value
SESSION: Final[dict[Column, Callable[[Session], str | None]]] = {
    text("op", "op"): lambda s: s.op,
    text("started_utc", "started, UTC"): lambda s: _readable_time(s.started_utc),
    text("finished_utc", "finished, UTC"): lambda s: _readable_time(s.finished_utc),
    text("host", "host"): lambda s: s.host,
    code("commit", "commit", "the first digits of its hash"): lambda s: _commit(s.git_commit),
    text("dirty", "uncommitted"): lambda s: _DIRTY[s.git_dirty],
    code("code", "code", "first digits of the measuring code's hash"): lambda s: s.code_hash[:12],
    code("session_id", "session"): lambda s: s.session_id,
    code("device_uuid", "device"): lambda s: s.device_uuid,
    code("command", "command"): lambda s: s.command,
    code("timing", "timing"): lambda s: json.dumps(dict(s.timing), sort_keys=True),
}
SOURCES: Final = (text("figure", "figure"), wide("source", "source"))


def _commit(recorded: str | None) -> str | None:
    """What git can check out, or the recorded name and that it is none."""
    if recorded is None or is_commit(recorded):
        return recorded and recorded[:12]
    return f"{recorded} (a name, no commit)"


def _readable_time(utc: str | None) -> str | None:
    """'2026-11-21T04:00:06+00:00' -> '2026-11-21 04:00:06'."""
    return utc.replace("T", " ").removesuffix("+00:00") if utc else None


def show(analysis: Analysis) -> Iterator[Item]:
    """When, where and of which code each session ran, what the datasheet says, and commands."""
    sessions = pd.DataFrame(
        {column.key: value(session) for column, value in SESSION.items()}
        for session in analysis.all_sessions
    )
    title = "Sessions: when, where, of which code, by which command"
    yield Table("sessions", title, sessions, list(SESSION))
    sources = sorted(analysis.spec.sources.items()) if analysis.spec else []
    figures = pd.DataFrame(sources, columns=["figure", "source"])
    yield Table("sources", "Sources of the datasheet", figures, SOURCES)
    yield Prose(text="From the records to this chapter again, in a checkout of roofcal:")
    yield Commands(lines=commands(analysis))


SECTION = Section("Provenance", "how", show)
