"""Do published claims hold? Each claim of the ledger against the tidy tables of one run.

A claim does not hold where the whole 95 % interval of our number lies outside of what the claim
allows (its value and tolerance, see roofcal.claims.schema); else it holds. Where records, a
datasheet or a calibration are missing it cannot be tested, and the reason says what is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from roofcal.claims.ledgers import Entry
from roofcal.claims.schema import Expression
from roofcal.report.data.own_numbers import Known, NotHere, Ours, our_number

Word = Literal["holds", "does not hold", "cannot be tested"]
WORDS: Final[tuple[Word, ...]] = ("holds", "does not hold", "cannot be tested")
UNITS: Final = {"time_us": "us", "tflops": "TFLOP/s", "speedup": "x"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the records of one device say of a claim.

    reason     why it cannot be tested; "" where it can
    as_source  the number timed as the source timed it, where the claim says how and it was measured
    """

    entry: Entry
    word: Word
    ours: Ours | None = None
    as_source: Ours | None = None
    reason: str = ""


def judge(entries: Iterable[Entry], known: Known) -> list[Verdict]:
    """A verdict on every claim, in their order; raises what reading the tables raises."""
    return [_verdict(entry, known) for entry in entries]


def counts(verdicts: Iterable[Verdict]) -> dict[Word, int]:
    """How many claims hold, do not hold, and cannot be tested."""
    words = [verdict.word for verdict in verdicts]
    return {word: words.count(word) for word in WORDS}


def _verdict(entry: Entry, known: Known) -> Verdict:
    test = entry.test
    if test is None or entry.value is None:
        return Verdict(entry=entry, word="cannot be tested", reason=str(entry.untestable))
    try:
        base = {**entry.points, **(test.against or {})}
        ours = our_number(entry, test, known, entry.points, base)
    except NotHere as reason:
        return Verdict(entry=entry, word="cannot be tested", reason=str(reason))
    word: Word = "holds" if _allows(test, entry.value, ours) else "does not hold"
    return Verdict(entry=entry, word=word, ours=ours, as_source=_as_source(entry, test, known))


def _allows(test: Expression, value: float, ours: Ours) -> bool:
    """Whether some of our interval lies in what the claim allows."""
    enough = test.relation == "<=" or ours.high >= value * (1 - test.tolerance)
    not_too_much = test.relation == ">=" or ours.low <= value * (1 + test.tolerance)
    return enough and not_too_much


def _as_source(entry: Entry, test: Expression, known: Known) -> Ours | None:
    """The number timed as the source timed it.

    What its points alone differ in is not carried over to what they are compared with.
    """
    other = test.as_source
    if other is None:
        return None
    base = {**entry.points, **(test.against or {}), **other.against}
    try:
        return our_number(entry, test, known, {**entry.points, **other.points}, base)
    except NotHere:
        return None


def as_row(verdict: Verdict) -> Mapping[str, Any]:
    """A verdict as a row of a table: numbers in the unit of the quantity, None where missing."""
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
