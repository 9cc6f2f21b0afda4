"""Do published claims hold? Each claim of the ledger against the records of one run.

A claim does not hold if the whole 95 % interval of our number lies outside of what the claim allows
(its value and tolerance, see roofcal.claims.schema); otherwise it holds. It cannot be tested if
records, a datasheet or a calibration are missing, and the reason names what is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Literal

from roofcal.claims.ledgers import Entry
from roofcal.claims.schema import Expression
from roofcal.points.columns import INTERVAL_HOLDS
from roofcal.report.data.evidence import Evidence, OwnNumber, Untestable, own_number

Word = Literal["holds", "does not hold", "cannot be tested"]
WORDS: Final[tuple[Word, ...]] = ("holds", "does not hold", "cannot be tested")
UNITS: Final = {"time_us": "us", "tflops": "TFLOP/s", "speedup": "x"}
_SIGNS: Final = {"about": "", ">=": "at least ", "<=": "at most "}
_MARGINS: Final = {"about": "+-", ">=": "-", "<=": "+"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the records of one device say of a claim.

    ours       our number, None for a claim that cannot be tested
    as_source  our number timed as the source timed it, if the claim says how and it was measured
    reason     why the claim cannot be tested, "" for one that can
    """

    entry: Entry
    word: Word
    ours: OwnNumber | None = None
    as_source: OwnNumber | None = None
    reason: str = ""


def judge(entries: Iterable[Entry], evidence: Evidence) -> list[Verdict]:
    """A verdict on every claim, in their order; raises what reading the tables raises."""
    return [_verdict(entry, evidence) for entry in entries]


def _verdict(entry: Entry, evidence: Evidence) -> Verdict:
    test = entry.test
    if test is None or entry.value is None:
        return Verdict(entry=entry, word="cannot be tested", reason=str(entry.untestable))
    try:
        base = {**entry.points, **(test.against or {})}
        ours = own_number(entry, test, evidence, entry.points, base)
    except Untestable as reason:
        return Verdict(entry=entry, word="cannot be tested", reason=str(reason))
    # it holds if any part of our interval lies within what the claim allows
    enough = test.relation == "<=" or ours.high >= entry.value * (1 - test.tolerance)
    not_too_much = test.relation == ">=" or ours.low <= entry.value * (1 + test.tolerance)
    word: Word = "holds" if enough and not_too_much else "does not hold"
    as_source = _as_source(entry, test, evidence)
    return Verdict(entry=entry, word=word, ours=ours, as_source=as_source)


def _as_source(entry: Entry, test: Expression, evidence: Evidence) -> OwnNumber | None:
    """Our number timed as the source timed it.

    What `as_source.points` changes holds for the points alone: the points of `against` change only
    as `as_source.against` says.
    """
    source = test.as_source
    if source is None:
        return None
    base = {**entry.points, **(test.against or {}), **source.against}
    try:
        return own_number(entry, test, evidence, {**entry.points, **source.points}, base)
    except Untestable:
        return None


def counts(verdicts: Iterable[Verdict]) -> dict[Word, int]:
    """How many claims hold, do not hold, and cannot be tested."""
    words = [verdict.word for verdict in verdicts]
    return {word: words.count(word) for word in WORDS}


def counts_text(verdicts: Sequence[Verdict]) -> str:
    """'3 hold, 1 does not hold, 2 cannot be tested here'."""
    number = counts(verdicts)
    holds, fails, untested = (number[word] for word in WORDS)
    return (
        f"{holds} {'holds' if holds == 1 else 'hold'}, "
        f"{fails} {'does' if fails == 1 else 'do'} not hold, {untested} cannot be tested here"
    )


def source_text(verdict: Verdict) -> str:
    """The source's number with its unit, `at least` or `at most` for a bound, and its tolerance."""
    test, value = verdict.entry.test, verdict.entry.value
    if value is None:
        return "-"
    number = _with_unit(value, verdict)
    if test is None:
        return number
    margin = f" {_MARGINS[test.relation]}{test.tolerance:.0%}" if test.tolerance else ""
    return f"{_SIGNS[test.relation]}{number}{margin}"


def own_text(number: OwnNumber | None, verdict: Verdict) -> str:
    """A number of ours with its unit and interval, '-' without one."""
    if number is None:
        return "-"
    low, high = (f"{end:.4g}" for end in (number.low, number.high))
    return f"{_with_unit(number.value, verdict)} ({low} to {high})"


def _with_unit(value: float, verdict: Verdict) -> str:
    unit = UNITS.get(verdict.entry.test.quantity if verdict.entry.test else "", "")
    return f"{value:.4g}{'' if unit in ('', 'x') else ' '}{unit}"


def as_row(verdict: Verdict) -> Mapping[str, Any]:
    """A verdict as a row of a table: numbers in the unit of the quantity, None if missing."""
    entry, ours, other = verdict.entry, verdict.ours, verdict.as_source
    test = entry.test
    quantity = test.quantity if test else None
    return {
        "claim": entry.id,
        "says": entry.says,
        "verdict": verdict.word,
        "theirs": entry.value,
        "ours": ours.value if ours else None,
        "ours_low": ours.low if ours else None,
        "ours_high": ours.high if ours else None,
        INTERVAL_HOLDS: ours.holds if ours else None,
        "quantity": quantity,
        "unit": UNITS.get(quantity or "", ""),
        "ours_over_theirs": ours.value / entry.value if ours and entry.value else None,
        "as_source": other.value if other else None,
        "as_source_low": other.low if other else None,
        "as_source_high": other.high if other else None,
        "as_source_how": test.as_source.label if other and test and test.as_source else None,
        "relation": test.relation if test else None,
        "tolerance": test.tolerance if test else None,
        "basis": ours.basis if ours else None,
        "reason": verdict.reason or None,
        "note": entry.note or None,
        "source": entry.ledger.title,
        "url": entry.ledger.url,
        "date": str(entry.ledger.date),
        "hardware": entry.hardware,
        "printed": "; ".join(f"{key} {number:g}" for key, number in entry.printed.items()) or None,
    }


def as_text(device: str, environment: str, verdicts: Sequence[Verdict]) -> str:
    """The verdicts of one device by source, for the terminal."""
    lines = [f"{device}, {environment}", f"  {counts_text(verdicts)}"]
    for ledger, group in groupby(verdicts, key=lambda verdict: verdict.entry.ledger):
        lines += ["", f"{ledger.title} ({ledger.date})"]
        lines.append(f"  {ledger.url or 'no public address'}; made on {ledger.hardware}")
        of_source = list(group)
        width = max(len(source_text(verdict)) for verdict in of_source)
        for verdict in of_source:
            number = f"{source_text(verdict):>{width}}"
            lines.append(f"  {verdict.word:<16}  {number}  {verdict.entry.says}")
            # Our number, also timed as the source timed it, or why there is none
            text = verdict.reason or f"ours {own_text(verdict.ours, verdict)}"
            test = verdict.entry.test
            if verdict.as_source and test and test.as_source:
                text += f"; {test.as_source.label}: {own_text(verdict.as_source, verdict)}"
            lines.append(f"  {'':<16}  {'':>{width}}    {text}")
    return "\n".join(lines)


def as_document(device: str, environment: str, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The same for programs: JSON values alone."""
    return {
        "device": device,
        "environment_id": environment,
        "counts": dict(counts(verdicts)),
        "claims": [
            dict(as_row(verdict)) | {"printed": dict(verdict.entry.printed)} for verdict in verdicts
        ],
    }
