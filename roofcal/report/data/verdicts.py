"""Verdicts on claims as the terminal shows them, and as programs read them."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from roofcal.report.data.claims import WORDS, Verdict, as_row, counts
from roofcal.report.data.own_numbers import Ours

_SIGNS: Final = {"about": "", ">=": "at least ", "<=": "at most "}
_MARGINS: Final = {"about": "+-", ">=": "-", "<=": "+"}


def summary(verdicts: Sequence[Verdict]) -> str:
    """'3 hold, 1 does not hold, 2 cannot be tested here'."""
    number = counts(verdicts)
    holds, fails, untested = (number[word] for word in WORDS)
    return (
        f"{holds} {'holds' if holds == 1 else 'hold'}, "
        f"{fails} {'does' if fails == 1 else 'do'} not hold, {untested} cannot be tested here"
    )


def theirs(verdict: Verdict) -> str:
    """Their number with its unit, the relation where it is a bound, and what is allowed."""
    test, value = verdict.entry.test, verdict.entry.value
    if value is None:
        return "-"
    number = _number(value, verdict)
    if test is None:
        return number
    margin = f" {_MARGINS[test.relation]}{test.tolerance:.0%}" if test.tolerance else ""
    return f"{_SIGNS[test.relation]}{number}{margin}"


def ours(found: Ours | None, verdict: Verdict) -> str:
    """A number of ours with its unit and interval, '-' without one."""
    if found is None:
        return "-"
    low, high = (f"{end:.4g}" for end in (found.low, found.high))
    return f"{_number(found.value, verdict)} ({low} to {high})"


def _number(value: float, verdict: Verdict) -> str:
    quantity = verdict.entry.test.quantity if verdict.entry.test else None
    unit = {"speedup": "x", "time_us": " us", "tflops": " TFLOP/s"}.get(quantity or "", "")
    return f"{value:.4g}{unit}"


def as_text(device: str, environment: str, verdicts: Sequence[Verdict]) -> str:
    """What one device says of claims, by source."""
    lines = [f"{device}, {environment}", f"  {summary(verdicts)}"]
    for _, group in groupby(verdicts, key=lambda verdict: verdict.entry.ledger.ledger):
        lines += ["", *_source(list(group))]
    return "\n".join(lines)


def _source(verdicts: Sequence[Verdict]) -> Iterator[str]:
    ledger = verdicts[0].entry.ledger
    yield f"{ledger.title} ({ledger.date})"
    yield f"  {ledger.url or 'no public address'}; made on {ledger.hardware}"
    width = max(len(theirs(verdict)) for verdict in verdicts)
    for verdict in verdicts:
        number = theirs(verdict)
        yield f"  {verdict.word:<16}  {number:>{width}}  {verdict.entry.says}"
        said = verdict.reason or f"ours {ours(verdict.ours, verdict)}"
        yield f"  {'':<16}  {'':>{width}}    {said}{_zeros(verdict)}"


def _zeros(verdict: Verdict) -> str:
    test = verdict.entry.test
    if verdict.as_source is None or test is None or test.as_source is None:
        return ""
    return f"; {test.as_source.label}: {ours(verdict.as_source, verdict)}"


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
