"""Do published claims hold? The verdicts of one device, source by source."""

from collections.abc import Iterator
from itertools import groupby
from typing import Final

import pandas as pd

from roofcal.report.data.analysis import Analysis
from roofcal.report.data.claims import FIELDS, VERDICT_CLASSES, counts_text
from roofcal.report.kit.blocks import Column, Prose, Table
from roofcal.report.kit.columns import named, ratio, wide, written_number
from roofcal.report.kit.numbers import count_of
from roofcal.report.section import Answer, CsvTable, Item, Section

FILE: Final = "claims.csv"
COLUMNS: Final = (
    Column(key="verdict", label="verdict", kind="verdict", signs=VERDICT_CLASSES),
    wide("says", "claim"),
    written_number("theirs_shown", "theirs", "theirs"),
    written_number(
        "ours_shown",
        "ours",
        "ours",
        "and its 95 % interval; a claim holds if all of it lies within what the claim allows, and "
        "does not hold if all of it lies outside",
    ),
    *named("interval_holds"),
    ratio("ours_over_theirs", "ours / theirs"),
    written_number(
        "as_source_shown", "as the source", "as_source", "ours, timed as the source timed it"
    ),
    wide("remark", "note"),
)


def show(analysis: Analysis) -> Iterator[Item]:
    """How many claims hold, then the claims of each source."""
    claims, name = analysis.claims, analysis.device_name
    if not claims:
        way_out = "`roofcal claims` tests them on the records."
        yield Answer(f"Not judged on this page; {way_out}", is_open=True)
        return
    yield Answer(f"Of {count_of(len(claims), 'published claim')}, {counts_text(claims)}.")
    table = pd.DataFrame(claims, columns=list(FIELDS))
    table["printed"] = table["printed"].map(
        lambda printed: "; ".join(f"{key} {value:g}" for key, value in printed.items()) or None
    )
    yield CsvTable(FILE, table)
    yield Prose(
        text=f"Of {len(claims)} published claims: {counts_text(claims)}. A claim is tested on the "
        f"records of this {name}, also if it was made on other hardware: the verdict says "
        "whether to argue from it here, not whether it was true there."
    )
    for ledger, group in groupby(claims, key=lambda row: row["entry"].ledger):
        verdicts = list(group)
        other = "" if ledger.device == analysis.device else ": other hardware than this"
        caveat = f" {ledger.caveat.strip()}" if ledger.caveat else ""
        # the paragraph begins with a link of the title, if there is an address
        about = f"{'' if ledger.url else f'{ledger.title}. '}Made on {ledger.hardware}, "
        about += f"{ledger.date}{other}.{caveat}"
        yield Prose(text=about, link=ledger.title, url=ledger.url or "")
        made = (row["hardware"] for row in verdicts)
        elsewhere = ["" if card == ledger.hardware else f"made on {card}" for card in made]
        texts = [[row[name] for row in verdicts] for name in ("reason", "basis", "note")]
        remarks = zip(*texts, elsewhere, strict=True)
        frame = pd.DataFrame(verdicts)
        frame["remark"] = ["; ".join(text.strip() for text in of if text) for of in remarks]
        title = f"{ledger.ledger}: {counts_text(verdicts)}"
        yield Table(f"claims-{ledger.ledger}", title, frame, COLUMNS, FILE)


SECTION = Section("Do published claims hold?", "ledger", show)
