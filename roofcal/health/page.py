"""Verdicts on cards for a person, the worst first, as text and as the page of a fleet."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from roofcal.ask.answers import Answer
from roofcal.core.files import write_bytes
from roofcal.core.statistics import MATTERS
from roofcal.core.visits.differences import spread_between_cards
from roofcal.health.comparison import (
    FEWEST,
    Cards,
    CardVerdict,
    Deviation,
    slowdown_of_jobs,
    timed_points,
)
from roofcal.report.kit.numbers import percent
from roofcal.report.kit.templates import render

_DARKEST: Final = 0.2  # a deviation that gets the full colour of the map
_STATE: Final = (("clock_hz", "MHz", 1e-6), ("power_w", "W", 1.0), ("temperature_c", "°C", 1.0))

Verdicts = Sequence[CardVerdict]


def ops_of(verdicts: Verdicts) -> list[str]:
    """The ops that any card was compared on, in the order of the panel."""
    return list(dict.fromkeys(one.op for verdict in verdicts for one in verdict.deviations))


def deviations_on(verdicts: Verdicts, op: str) -> list[float]:
    """The deviation of each card that was compared on an op."""
    return [one.deviation for verdict in verdicts for one in verdict.deviations if one.op == op]


def counted_cards(verdicts: Verdicts) -> str:
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


@dataclass(frozen=True)
class JudgedCards(Answer):
    """Verdicts on cards, the worst first."""

    verdicts: Verdicts
    indent = 1

    @property
    def answer(self) -> list[dict[str, Any]]:
        """An object per card, with every op."""
        return [asdict(verdict) for verdict in self.verdicts]

    def parts(self) -> Iterator[list[str]]:
        """The table, points and ops without a verdict, the spread of cards, and what jobs lose."""
        yield list(_table(self.verdicts))
        yield [
            f"{verdict.card} fails {failure['point']}: {failure['status']}"
            f"{f' ({reason})' if (reason := failure['reason']) else ''}"
            for verdict in self.verdicts
            for failure in verdict.failures
        ]
        yield [
            f"{verdict.card}: {op} is not compared: {why}"
            for verdict in self.verdicts
            for op, why in verdict.uncompared.items()
        ]
        yield list(_spreads_and_costs(self.verdicts))


def _table(verdicts: Verdicts) -> Iterator[str]:
    """Two rows per card: its deviations (! beyond the limit), and the limits that decide them.

    `-` where a card has no such point.
    """
    ops = ops_of(verdicts)
    width = max(len("  its limit"), *(len(verdict.card) for verdict in verdicts))
    yield f"{'card':{width}}  " + "".join(f"{op:>14}" for op in ops) + "  slower by"
    for verdict in verdicts:
        by_op = {one.op: one for one in verdict.deviations}
        cells, limits = "", ""
        for one in map(by_op.get, ops):
            mark = "!" if one and one.is_slower else " "
            cells += f"{f'{100 * math.expm1(one.deviation):+.1f}%{mark}' if one else '- ':>14}"
            limits += f"{f'{100 * math.expm1(one.limit):+.1f}% ' if one else '- ':>14}"
        other = "-" if by_op else verdict.word
        yield f"{verdict.card:{width}}  {cells}  {verdict.cause or other}"
        if by_op:
            yield f"{'  its limit':{width}}  {limits}"


def _spreads_and_costs(verdicts: Verdicts) -> Iterator[str]:
    """Standard deviation between cards, slow ones among them, and what jobs lose by op."""
    for op in ops_of(verdicts):
        values = deviations_on(verdicts, op)
        if len(values) >= FEWEST:
            spread = spread_between_cards(op, values)
            value, low, high = (
                f"{100 * part:.1f}%" for part in (spread.spread, spread.low, spread.high)
            )
            yield f"spread between {len(values)} cards, {op}: {value} ({low} to {high})"
    if len(verdicts) < FEWEST:
        return
    yield counted_cards(verdicts)
    for op in ops_of(verdicts):
        cards = len(deviations_on(verdicts, op))
        sizes = [2**power for power in range(1, 20) if 2**power <= cards]
        costs = ", ".join(
            f"{100 * slowdown_of_jobs(verdicts, op, size):.1f}% on {size}" for size in sizes
        )
        yield f"a job that waits for its slowest card loses, {op}: {costs}"


def write_page(out: Path, folder: Path, cards: Cards, verdicts: Verdicts) -> None:
    """Write the page; equal records give equal bytes.

    folder: <device>/<environment_id> are its last two parts.
    cards, verdicts: of the same cards, the verdicts with the slowest card first.
    """
    causes: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.cause is not None:
            causes.setdefault(verdict.cause, []).append(verdict.card)
    page = render(
        "fleet.html.j2",
        device=folder.parent.name,
        environment=folder.name,
        summary=summary_sentence(verdicts),
        causes=causes,
        ops=ops_of(verdicts),
        state_units=[f"{name.partition('_')[0]}, {unit}" for name, unit, _ in _STATE],
        rows=list(_rows(cards, verdicts)),
        failures=[(v.card, failure) for v in verdicts for failure in v.failures],
        uncompared=[(v.card, op, why) for v in verdicts for op, why in v.uncompared.items()],
        heat_map=heat_map(verdicts),
        costs=list(_costs(verdicts)),
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
    return (
        f"{counted} The slowest is {worst.card}: {one.op} takes {slower} longer than on healthy "
        f"cards, cause: {worst.cause}."
    )


def _place(card: str) -> tuple[str, str, str]:
    """(node, slot by the address on the bus or cpu, uuid) of <node>/<slot>_<uuid>."""
    node, _, name = card.partition("/")
    slot, _, uuid = name.partition("_")
    return node, slot, uuid


def _rows(cards: Cards, verdicts: Verdicts) -> Iterator[dict[str, Any]]:
    """A row per card in the order of the verdicts."""
    states = timed_points(cards).groupby("card")[[name for name, *_ in _STATE]].median()
    for verdict in verdicts:
        by_op = {one.op: one for one in verdict.deviations}
        node, slot, card = _place(verdict.card)
        has_state = verdict.card in states.index
        state: list[float] = (
            states.loc[[verdict.card]].iloc[0].tolist() if has_state else [math.nan] * len(_STATE)
        )
        yield {
            "node": node,
            "slot": slot,
            "card": card,
            "cells": [_cell(by_op[op]) if op in by_op else None for op in ops_of(verdicts)],
            "state": [
                "" if math.isnan(value) else f"{value * factor:,.0f}"
                for value, (_, _, factor) in zip(state, _STATE, strict=True)
            ],
            "cause": verdict.word,
        }


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


def _costs(verdicts: Verdicts) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """(op, (cards of a job, what it loses)) for jobs of 2, 4, 8 ... and of all cards."""
    for op in ops_of(verdicts):
        count = len(deviations_on(verdicts, op))
        sizes = sorted({*(2**power for power in range(1, 20) if 2**power < count), count})
        yield op, [(size, percent(slowdown_of_jobs(verdicts, op, size))) for size in sizes]
