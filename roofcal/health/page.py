"""Verdicts on cards for a person, the worst first, as text and as the page of a fleet."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from roofcal.ask.answers import Answer, Column, Part, Record, Table, Verdict
from roofcal.core.files import write_bytes
from roofcal.core.statistics import MATTERS
from roofcal.core.visits.differences import spread_between_cards
from roofcal.health.comparison import FEWEST, Cards, CardVerdict, Deviation, timed_points
from roofcal.report.kit.numbers import percent
from roofcal.report.kit.templates import render

_DARKEST: Final = 0.2  # a deviation that gets the full colour of the map
_STATE: Final = (("clock_hz", "MHz", 1e-6), ("power_w", "W", 1.0), ("temperature_c", "°C", 1.0))

# Cause, or the beginning of one -> what to do about it.
_WHAT_TO_DO: Final = {
    "temperature": "look at its fans, its air and the cards beside it",
    "power cap": "compare its power limit with that of the others (`nvidia-smi -q -d POWER`)",
    "throttle": "look what holds its clock down (`nvidia-smi -q -d PERFORMANCE`)",
    "clock": "compare its clock settings with those of the others (`nvidia-smi -q -d CLOCK`)",
    "memory": "look for errors of its memory (`nvidia-smi -q -d ECC`, `dcgmi diag -r 3`)",
    "link": "look at its links (`nvidia-smi nvlink -s`); the card at their other end shows it, too",
    "unexplained": "measure it again with nothing beside it; if it stays slow, give it no jobs",
}

Verdicts = Sequence[CardVerdict]


def _by_op(verdicts: Verdicts) -> dict[str, list[float]]:
    """Op -> the deviation of each card that was compared on it, in the order of the panel."""
    values: dict[str, list[float]] = {}
    for one in (one for verdict in verdicts for one in verdict.deviations):
        values.setdefault(one.op, []).append(one.deviation)
    return values


def slowdown_of_jobs(deviations: Sequence[float], size: int) -> float:
    """By how much a synchronous job on `size` random cards is slower than its median card.

    A job waits for its slowest card: the mean of the largest deviation over all choices of cards.
    """
    ways = math.comb(len(deviations), size)
    chosen = ((math.comb(place, size - 1), value) for place, value in enumerate(sorted(deviations)))
    return sum(count * math.expm1(value) for count, value in chosen) / ways


def _losses_of_jobs(verdicts: Verdicts) -> Iterator[tuple[str, dict[int, float]]]:
    """(op, cards of a job -> what it loses) for jobs of 2, 4, 8 ... and of all cards."""
    for op, values in _by_op(verdicts).items():
        powers = (2**power for power in range(1, 20))
        sizes = [*(size for size in powers if size < len(values)), len(values)]
        yield op, {size: slowdown_of_jobs(values, size) for size in sizes}


def counted_cards(verdicts: Verdicts) -> str:
    """'1 of 7 cards is slower than the others; 1 could not be compared', and the like."""
    compared = [verdict for verdict in verdicts if verdict.deviations]
    slow = sum(verdict.cause is not None for verdict in compared)
    undecided = sum(
        verdict.cause is None
        and any(math.expm1(one.deviation) > MATTERS for one in verdict.deviations)
        for verdict in compared
    )
    is_one = len(verdicts) == 1
    counts = {
        f"{'is ' * is_one}beyond {MATTERS:.0%} yet within the limit": undecided,
        "failed a point": sum(bool(verdict.failures) for verdict in verdicts),
        "could not be compared": 0 if is_one else len(verdicts) - len(compared),
    }
    said = f"{slow} of {len(compared)} cards {'is' if slow == 1 else 'are'} slower than the others"
    if is_one:
        said = f"{verdicts[0].card} could not be compared"
        if compared:
            said = f"{verdicts[0].card} is {'' if slow else 'not '}slower than healthy cards"
    others = (f"; {'it' if is_one else count} {what}" for what, count in counts.items() if count)
    return f"{said}{''.join(others)}"


@dataclass(frozen=True)
class JudgedCards(Answer):
    """Verdicts on cards, the worst first."""

    verdicts: Verdicts
    indent = 1

    @property
    def answer(self) -> list[dict[str, Any]]:
        """An object per card, with every op."""
        return [asdict(verdict) for verdict in self.verdicts]

    def parts(self) -> Iterator[Part]:
        """The verdict, what to do, the table, what has no verdict, the spread, what jobs lose."""
        yield Verdict(summary_sentence(self.verdicts))
        for cause in dict.fromkeys(verdict.cause for verdict in self.verdicts if verdict.cause):
            yield f"{cause}: {_WHAT_TO_DO[cause.partition(' reason')[0]]}"
        yield ""
        yield _table(self.verdicts)
        for verdict in self.verdicts:
            for failure in verdict.failures:
                reason = f" ({failure['reason']})" if failure["reason"] else ""
                yield f"{verdict.card} fails {failure['point']}: {failure['status']}{reason}"
        for verdict in self.verdicts:
            for op, why in verdict.uncompared.items():
                yield f"{verdict.card}: {op} is not compared: {why}"
        for op, values in _by_op(self.verdicts).items():
            if len(values) >= FEWEST:
                found = spread_between_cards(op, values)
                ends = (found.spread, found.low, found.high)
                value, low, high = (f"{100 * end:.1f}%" for end in ends)
                yield f"spread between {len(values)} cards, {op}: {value} ({low} to {high})"
        if len(self.verdicts) >= FEWEST:
            for op, losses in _losses_of_jobs(self.verdicts):
                costs = ", ".join(f"{100 * loss:.1f}% on {size}" for size, loss in losses.items())
                yield f"a job that waits for its slowest card loses, {op}: {costs}"


def _table(verdicts: Verdicts) -> Table:
    """Two rows per card: its deviations (! beyond the limit), and the limits that decide them.

    `-` where a card has no such point.
    """
    ops = list(_by_op(verdicts))
    rows: list[Record] = []
    for verdict in verdicts:
        by_op = {one.op: one for one in verdict.deviations}
        of_card = {"card": verdict.card, "cause": verdict.cause or ("-" if by_op else verdict.word)}
        limits = {"card": "  its limit", "cause": ""}
        for op in ops:
            of_card[op], limits[op] = "- ", "- "
            if one := by_op.get(op):
                mark = "!" if one.is_slower else " "
                of_card[op] = f"{100 * math.expm1(one.deviation):+.1f}%{mark}"
                limits[op] = f"{100 * math.expm1(one.limit):+.1f}% "
        rows += [of_card, limits] if by_op else [of_card]
    first, last = Column("card", "{card}", left=True), Column("cause", "{cause}", left=True)
    return Table(rows, (first, *(Column(op, itemgetter(op)) for op in ops), last))


def write_page(out: Path, folder: Path, cards: Cards, verdicts: Verdicts) -> None:
    """Write the page; equal records give equal bytes.

    folder: <device>/<environment_id> are its last two parts.
    cards, verdicts: of the same cards, the verdicts with the slowest card first.
    """
    causes: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.cause is not None:
            causes.setdefault(verdict.cause, []).append(verdict.card)
    names = [verdict.card for verdict in verdicts]
    sensors = [sensor for sensor, *_ in _STATE]
    states = timed_points(cards).groupby("card")[sensors].median().reindex(names)
    rows = []
    for verdict, state in zip(verdicts, states.itertuples(index=False), strict=True):
        by_op = {one.op: _cell(one) for one in verdict.deviations}
        node, slot, card = _place(verdict.card)
        readings = [
            "" if math.isnan(value) else f"{value * factor:,.0f}"
            for value, (_, _, factor) in zip(state, _STATE, strict=True)
        ]
        row = {"node": node, "slot": slot, "card": card, "cause": verdict.word, "state": readings}
        rows.append(row | {"cells": [by_op.get(op) for op in _by_op(verdicts)]})
    page = render(
        "fleet.html.j2",
        device=folder.parent.name,
        environment=folder.name,
        summary=summary_sentence(verdicts),
        causes=causes,
        ops=list(_by_op(verdicts)),
        state_units=[f"{name.partition('_')[0]}, {unit}" for name, unit, _ in _STATE],
        rows=rows,
        failures=[(v.card, failure) for v in verdicts for failure in v.failures],
        uncompared=[(v.card, op, why) for v in verdicts for op, why in v.uncompared.items()],
        heat_map=heat_map(verdicts),
        costs=[
            (op, [(size, percent(loss)) for size, loss in losses.items()])
            for op, losses in _losses_of_jobs(verdicts)
        ],
    )
    write_bytes(out, (page + "\n").encode())


def summary_sentence(verdicts: Verdicts) -> str:
    """How many cards are slow, and which is the slowest."""
    slow = [verdict for verdict in verdicts if verdict.cause is not None]
    counted = f"{counted_cards(verdicts)}."
    if not slow:
        return counted
    worst = max(slow, key=lambda verdict: verdict.excess)
    one = max(worst.deviations, key=lambda deviation: deviation.excess)
    slower = percent(math.expm1(one.deviation))
    limit = percent(math.expm1(one.limit))
    which = "" if len(verdicts) == 1 else f"The slowest is {worst.card}: "
    return (
        f"{counted} {which}{one.op} takes {slower} longer than on healthy cards, beyond the limit "
        f"of {limit}; cause: {worst.cause}."
    )


def _place(card: str) -> tuple[str, str, str]:
    """(node, slot by the address on the bus or cpu, uuid) of <node>/<slot>_<uuid>."""
    node, _, name = card.partition("/")
    slot, _, uuid = name.partition("_")
    return node, slot, uuid


def _cell(one: Deviation) -> dict[str, Any]:
    return {
        "op": one.op,
        "text": percent(math.expm1(one.deviation), signed=True),
        "limit": percent(math.expm1(one.limit)),
        "is_slower": one.is_slower,
        "shade": round(min(1.0, abs(one.deviation) / _DARKEST), 3),
        "is_above": one.deviation > 0,
    }


def heat_map(verdicts: Verdicts) -> dict[str, Any]:
    """Nodes by slots; in each cell the op that is furthest beyond its limit.

    A card that was compared on none has `word` there, which says why.
    """
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    # Of two cards that were in one slot, the slower one comes last and is shown.
    for verdict in sorted(verdicts, key=lambda verdict: verdict.excess):
        worst = max(verdict.deviations, key=lambda one: one.excess, default=None)
        cells[_place(verdict.card)[:2]] = _cell(worst) if worst else {"word": verdict.word}
    slots = sorted({slot for _, slot in cells})
    nodes = sorted({node for node, _ in cells})
    rows = [(node, [cells.get((node, slot)) for slot in slots]) for node in nodes]
    return {"slots": slots, "rows": rows}
