"""Do published claims hold? The verdicts of one device, by source, as the report shows them."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import pandas as pd

from roofcal.report.data.analysis import Analysis
from roofcal.report.data.claims import Verdict, as_row
from roofcal.report.data.verdicts import ours, summary, theirs
from roofcal.report.kit.blocks import Block, Column, Prose, Table, make_table
from roofcal.report.kit.columns import ratio, wide

TITLE: Final = "Do published claims hold?"
SOURCE: Final = "claims.csv"
COLUMNS: Final = (
    Column(key="verdict", label="verdict", kind="verdict"),
    wide("says", "claim"),
    Column(key="theirs_shown", label="theirs", kind="number", by="theirs"),
    Column(
        key="ours_shown",
        label="ours",
        kind="number",
        by="ours",
        about="and its 95 % interval; a claim does not hold where all of it is outside of what the "
        "claim allows",
    ),
    ratio("ours_over_theirs", "ours / theirs"),
    Column(
        key="as_source_shown",
        label="as the source",
        kind="number",
        by="as_source",
        about="ours, timed as the source timed it",
    ),
    wide("remark", "note"),
)


def blocks(a: Analysis, anchor: str) -> Iterator[Block]:
    """Counts, then each source with its link and its claims; nothing without a ledger."""
    if not a.claims:
        return
    name = a.run.environment.device_name
    yield Prose(
        text=f"Of {len(a.claims)} published claims: {summary(a.claims)}. A claim is tested on the "
        f"records of this {name}, also where it was made on other hardware: the verdict says "
        "whether to argue from it here, not whether it was true there."
    )
    for ledger, group in groupby(a.claims, key=lambda verdict: verdict.entry.ledger):
        found = list(group)
        yield Prose(text=_about(found, a.device), link=ledger.title, url=ledger.url or "")
        yield _table(found, anchor)


def claims_table(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Every claim with its verdict, their numbers and ours: the CSV beside the page."""
    return pd.DataFrame([as_row(verdict) for verdict in verdicts])


def _about(verdicts: Sequence[Verdict], device: str) -> str:
    ledger = verdicts[0].entry.ledger
    other = "" if ledger.device == device else ": other hardware than this"
    named = "" if ledger.url else f"{ledger.title}. "
    caveat = f" {ledger.caveat.strip()}" if ledger.caveat else ""
    return f"{named}Made on {ledger.hardware}, {ledger.date}{other}.{caveat}"


def _table(verdicts: Sequence[Verdict], anchor: str) -> Table:
    ledger = verdicts[0].entry.ledger
    frame = pd.DataFrame([dict(as_row(verdict)) | _shown(verdict) for verdict in verdicts])
    title = f"{ledger.ledger}: {summary(verdicts)}"
    name = f"{anchor}-claims-{ledger.ledger}"
    return make_table(frame, COLUMNS, id=name, caption=title, source=SOURCE)


def _shown(verdict: Verdict) -> dict[str, Any]:
    entry = verdict.entry
    other = "" if entry.hardware == entry.ledger.hardware else f"made on {entry.hardware}"
    remarks = (verdict.reason, verdict.ours.basis if verdict.ours else "", entry.note, other)
    return {
        "theirs_shown": theirs(verdict),
        "ours_shown": ours(verdict.ours, verdict) if verdict.ours else None,
        "as_source_shown": ours(verdict.as_source, verdict) if verdict.as_source else None,
        "remark": "; ".join(remark.strip() for remark in remarks if remark),
    }
