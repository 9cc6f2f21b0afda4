"""Published claims, judged on the newest environment of every measured device."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from roofcal.claims import Entry, Ledger
from roofcal.publish.site.devices import site_table
from roofcal.publish.site.publications import Publication
from roofcal.report.data.claims import counts_text, evidence_of_run, judge
from roofcal.report.kit.blocks import Column, Table
from roofcal.report.kit.columns import text, wide

_SIGNS: Final = {"holds": "yes", "does not hold": "no", "cannot be tested": "none"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerVerdicts:
    """The claims of one source with their verdicts on every device.

    counts  (device, how many hold, do not hold and cannot be tested) of each device
    """

    ledger: Ledger
    counts: Sequence[tuple[str, str]]
    grid: Table


def judged_ledgers(
    publications: Sequence[Publication], entries: Sequence[Entry]
) -> Iterator[LedgerVerdicts]:
    """Every ledger with its claims, one column of verdicts for each device."""
    newest = [publication for publication in publications if not publication.analysis.is_earlier]
    verdicts = {}
    for publication in newest:
        analysis = publication.analysis
        evidence = evidence_of_run(analysis.run, analysis.spec, analysis.frames)
        verdicts[publication.key] = judge(entries, evidence)
    columns = [wide("says", "claim"), text("theirs", "theirs")]
    for publication in newest:
        name = publication.device_name
        columns.append(Column(key=publication.key, label=name, kind="verdict", signs=_SIGNS))
        columns.append(wide(f"ours {publication.key}", "ours, or why it cannot be tested"))
    ledgers = {entry.ledger.ledger: entry.ledger for entry in entries}
    for name, ledger in ledgers.items():
        own = {
            key: [row for row in of_all if row["entry"].ledger.ledger == name]
            for key, of_all in verdicts.items()
        }
        rows = []
        for of_claim in zip(*own.values(), strict=True):
            row: dict[str, Any] = {}
            for key, verdict in zip(own, of_claim, strict=True):
                row |= {"says": verdict["says"], "theirs": verdict["theirs_shown"]}
                row |= {key: verdict["verdict"]}
                row[f"ours {key}"] = verdict["reason"] or verdict["ours_shown"]
            rows.append(row)
        yield LedgerVerdicts(
            ledger=ledger,
            counts=[(p.device_name, counts_text(own[p.key])) for p in newest],
            grid=site_table(rows, columns, f"claims-{name}", f"{ledger.title} ({name})"),
        )
