"""The page of a fleet: a row per card, cards by cause, nodes by slots, and what slow cards cost."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from roofcal.core.files import write_bytes
from roofcal.health.as_text import counted_cards, ops_of
from roofcal.health.comparison import CardVerdict, slowdown_of_jobs
from roofcal.health.readings import Card, median_by_card
from roofcal.report.kit.numbers import percent
from roofcal.report.kit.templates import render

_DARKEST: Final = 0.2  # a deviation that gets the full colour of the map
_STATE: Final = (("clock_hz", "MHz", 1e-6), ("power_w", "W", 1.0), ("temperature_c", "°C", 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a card is: its node, and its slot by the address on the bus (cpu for a CPU)."""

    node: str
    slot: str

    @classmethod
    def of(cls, card: str) -> "Place":
        """The place by the name of a card, <node>/<slot>_<uuid>."""
        node, _, name = card.partition("/")
        return cls(node=node, slot=name.partition("_")[0])


def write_page(
    out: Path, folder: Path, cards: Sequence[Card], verdicts: Sequence[CardVerdict]
) -> None:
    """Write the page; equal records give equal bytes.

    folder: <device>/<environment_id> are its last two parts.
    cards, verdicts: of the same cards, the verdicts with the slowest card first.
    """
    ops = ops_of(verdicts)
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
        ops=ops,
        state_units=[f"{name.partition('_')[0]}, {unit}" for name, unit, _ in _STATE],
        rows=list(_rows(cards, verdicts, ops)),
        failures=[(v.card, failure) for v in verdicts for failure in v.failures],
        uncompared=[(v.card, op, why) for v in verdicts for op, why in v.uncompared.items()],
        heat_map=heat_map(verdicts),
        costs=list(_costs(verdicts, ops)),
    )
    write_bytes(out, (page + "\n").encode())


def summary_sentence(verdicts: Sequence[CardVerdict]) -> str:
    """How many cards are slow, and which is the slowest."""
    slow = [verdict for verdict in verdicts if verdict.cause is not None]
    counted = f"{counted_cards(verdicts)}."
    if not slow:
        return counted
    worst = max(slow, key=lambda verdict: verdict.excess)
    one = max(worst.deviations, key=lambda deviation: deviation.deviation - deviation.limit)
    slower = percent(math.expm1(one.deviation))
    return (
        f"{counted} The slowest is {worst.card}: {one.op} takes {slower} longer than on healthy "
        f"cards, cause: {worst.cause}."
    )


def _rows(
    cards: Sequence[Card], verdicts: Sequence[CardVerdict], ops: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """A row per card in the order of the verdicts."""
    readings = [reading for card in cards for reading in card.readings]
    state = [(median_by_card(readings, name), factor) for name, _, factor in _STATE]
    for verdict in verdicts:
        by_op = {one.op: one for one in verdict.deviations}
        place = Place.of(verdict.card)
        yield {
            "node": place.node,
            "slot": place.slot,
            "card": verdict.card.partition("/")[2].partition("_")[2],
            "cells": [
                _cell(by_op[op].deviation, by_op[op].limit) if op in by_op else None for op in ops
            ],
            "state": [
                f"{values[verdict.card] * factor:,.0f}" if verdict.card in values else ""
                for values, factor in state
            ],
            "cause": verdict.word,
        }


def _cell(deviation: float, limit: float) -> dict[str, Any]:
    return {
        "text": percent(math.expm1(deviation), signed=True),
        "limit": percent(math.expm1(limit)),
        "is_slower": deviation > limit,
        "shade": round(min(1.0, abs(deviation) / _DARKEST), 3),
        "is_above": deviation > 0,
    }


def heat_map(verdicts: Sequence[CardVerdict]) -> dict[str, Any]:
    """Nodes by slots; in each cell the op that is furthest beyond its limit.

    A card that was compared on none has `word` there, which says why.
    """
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    places = []
    # Of two cards that stood in one slot the slower one comes last and is shown.
    for verdict in sorted(verdicts, key=lambda verdict: verdict.excess):
        place = Place.of(verdict.card)
        places.append(place)
        if verdict.deviations:
            worst = max(verdict.deviations, key=lambda one: one.deviation - one.limit)
            cells[place.node, place.slot] = _cell(worst.deviation, worst.limit) | {"op": worst.op}
        else:
            cells[place.node, place.slot] = {"word": verdict.word}
    slots = sorted({place.slot for place in places})
    nodes = sorted({place.node for place in places})
    rows = [(node, [cells.get((node, slot)) for slot in slots]) for node in nodes]
    return {"slots": slots, "rows": rows}


def _costs(
    verdicts: Sequence[CardVerdict], ops: Sequence[str]
) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """(op, (cards of a job, what it loses)) for jobs of 2, 4, 8 ... and of all cards."""
    for op in ops:
        count = sum(one.op == op for verdict in verdicts for one in verdict.deviations)
        sizes = sorted({*(2**power for power in range(1, 20) if 2**power < count), count})
        yield op, [(size, percent(slowdown_of_jobs(verdicts, op, size))) for size in sizes]
