"""Verdicts on cards for a person: one row per card, worst first, and what slow cards cost."""

import math
from collections.abc import Iterator, Sequence
from itertools import chain

from roofcal.core.statistics import MATTERS
from roofcal.fitting.panel_factors import spread_between_cards
from roofcal.health.comparison import FEWEST, CardVerdict, slowdown_of_jobs


def as_text(verdicts: Sequence[CardVerdict]) -> str:
    """The table, points and ops without a verdict, the spread of cards, and what jobs lose."""
    failures = (
        f"{verdict.card} fails {failure.point}: {failure.status}"
        f"{f' ({failure.reason})' if failure.reason else ''}"
        for verdict in verdicts
        for failure in verdict.failures
    )
    uncompared = (
        f"{verdict.card}: {op} is not compared: {why}"
        for verdict in verdicts
        for op, why in verdict.uncompared.items()
    )
    lines = (_table(verdicts), failures, uncompared, _spreads(verdicts), _costs(verdicts))
    return "\n".join(chain(*lines)) + "\n"


def _table(verdicts: Sequence[CardVerdict]) -> Iterator[str]:
    """Two rows per card: its deviations (! beyond the limit), and the limits that decide them.

    `-` where a card has no such point.
    """
    ops = ops_of(verdicts)
    width = max(len("  its limit"), *(len(verdict.card) for verdict in verdicts))
    yield f"{'card':{width}}  " + "".join(f"{op:>14}" for op in ops) + "  slower by"
    for verdict in verdicts:
        by_op = {
            one.op: f"{100 * math.expm1(one.deviation):+.1f}%{'!' if one.is_slower else ' '}"
            for one in verdict.deviations
        }
        cells = "".join(f"{by_op.get(op, '- '):>14}" for op in ops)
        other = "-" if verdict.deviations else verdict.word
        yield f"{verdict.card:{width}}  {cells}  {verdict.cause or other}"
        limits = {one.op: f"{100 * math.expm1(one.limit):+.1f}% " for one in verdict.deviations}
        if limits:
            cells = "".join(f"{limits.get(op, '- '):>14}" for op in ops)
            yield f"{'  its limit':{width}}  {cells}".rstrip()


def _spreads(verdicts: Sequence[CardVerdict]) -> Iterator[str]:
    """Standard deviation between cards, slow ones among them, with its 95 % interval."""
    for op in ops_of(verdicts):
        values = [one.deviation for v in verdicts for one in v.deviations if one.op == op]
        if len(values) >= FEWEST:
            spread = spread_between_cards(op, values)
            value, *ends = (
                f"{100 * part:.1f}%" for part in (spread.spread, spread.low, spread.high)
            )
            yield f"spread between {len(values)} cards, {op}: {value} ({' to '.join(ends)})"


def _costs(verdicts: Sequence[CardVerdict]) -> Iterator[str]:
    if len(verdicts) < FEWEST:
        return
    yield counted_cards(verdicts)
    for op in ops_of(verdicts):
        cards = sum(one.op == op for verdict in verdicts for one in verdict.deviations)
        sizes = [2**power for power in range(1, 20) if 2**power <= cards]
        costs = ", ".join(
            f"{100 * slowdown_of_jobs(verdicts, op, size):.1f}% on {size}" for size in sizes
        )
        yield f"a job that waits for its slowest card loses, {op}: {costs}"


def counted_cards(verdicts: Sequence[CardVerdict]) -> str:
    """'1 of 7 cards are slower than the others; 1 could not be compared', and the like."""
    compared = [verdict for verdict in verdicts if verdict.deviations]
    slow = sum(verdict.cause is not None for verdict in compared)
    undecided = sum(
        verdict.cause is None
        and any(math.expm1(one.deviation) > MATTERS for one in verdict.deviations)
        for verdict in compared
    )
    counts = {
        f"beyond {MATTERS:.0%} yet within the limit": undecided,
        "failed a point": sum(bool(verdict.failures) for verdict in verdicts),
        "could not be compared": len(verdicts) - len(compared),
    }
    others = "".join(f"; {count} {what}" for what, count in counts.items() if count)
    return f"{slow} of {len(compared)} cards are slower than the others{others}"


def ops_of(verdicts: Sequence[CardVerdict]) -> list[str]:
    """The ops that any card was compared on, in the order of the panel."""
    return list(dict.fromkeys(one.op for verdict in verdicts for one in verdict.deviations))
