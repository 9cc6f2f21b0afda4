"""A comparison as the answer to a question: its JSON values, and text for a person."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from roofcal.ask.answers import Answer, Column, Part, Table
from roofcal.compare.point_changes import MOVED
from roofcal.core.names import short_kernel_name
from roofcal.core.records import CODE
from roofcal.core.units import format_seconds
from roofcal.core.visits.intervals import MEANINGS

Row = Mapping[str, Any]
_SHOWN: Final = 10
_TOLD: Final = 20  # points of a provider whose differences between cards are told
_NAMED: Final = 3  # cards of a run
_FEW: Final = "too few points"


@dataclass(frozen=True)
class Comparison(Answer):
    """What `compare` found; of each list the text has the first _SHOWN lines."""

    answer: Mapping[str, Any]
    indent = 1

    def parts(self) -> Iterator[Part]:
        """Runs, common shifts, then what moved; the last line says what follows.

        Of other cards of one model, how these differ comes first.
        """
        answer = self.answer
        of_cards = pd.DataFrame([row for row in answer["points"] if row["other_card"]])
        shifts: Part = "common shifts: none, too few points"
        if answer["shifts"]:
            shifts = Table(answer["shifts"], _SHIFTS)
        if len(of_cards):
            sides = []
            for end, cards in answer["other_cards"].items():
                names = ", ".join(card[:12] for card in cards)
                many = f"{len(cards)} cards"
                sides.append(f"{end.upper()} ({names if len(cards) <= _NAMED else many})")
            yield (
                f"{' and '.join(sides)} are cards of one model with the same libraries; "
                f"they differ on {_points(len(of_cards))} by:"
            )
            yield shifts
            yield from _card_lines(answer, of_cards)
            yield ""
        for name in ("a", "b"):
            run = answer[name]
            yield f"{name.upper()}: {run['device']} {run['environment']}"
            if not run["points"]:
                yield "   no samples: only fitted constants are compared"
            for holds, count in run["intervals"].items():
                yield f"   intervals of {_points(count)} cover {MEANINGS[holds]}"
            if run["cards"]:
                yield f"   on {', '.join(card[:12] for card in run['cards'])}"
        for row in answer["environment"]:
            yield f"{row['field']}: {row['a']} -> {row['b']}"
        if not answer["environment"]:
            yield "the environments are the same"
        if same := answer["same_measurements"]:
            yield f"not compared, because the records are the same in both runs: {_points(same)}"
        yield ""
        if not len(of_cards):
            yield shifts
            yield ""
        yield from _change_lines(answer)


def _card_lines(comparison: Row, of_cards: pd.DataFrame) -> Iterator[str]:
    """By how much points differ beyond the common shifts: by the card, or by our kernels, too."""
    of_kernels = of_cards["other_code"]
    yield (
        "beyond these shifts, one point in ten differs by more than: "
        f"{_tenths(of_cards[~of_kernels])}"
    )
    if of_kernels.any():
        yield (
            f"on {_points(sum(of_kernels))} the code of our kernels differs, too, and these are "
            "judged by how far libraries differ; one in ten differs by more than: "
            f"{_tenths(of_cards[of_kernels])}"
        )
    large = of_cards["change"].abs() > comparison["threshold"]
    count = sum(large & ~of_cards["verdict"].isin(MOVED))
    yield (
        f"{_points(count)} changed by more than {comparison['threshold']:.1%}, but no more than "
        "points of two such cards often do: not listed"
    )


def _change_lines(comparison: Row) -> Iterator[str]:
    counts, raw = comparison["counts"], comparison["counts_raw"]
    parts = ", ".join(f"{count} {name}" for name, count in counts.items())
    beyond = f"beyond {comparison['threshold']:.1%}"
    yield f"{sum(counts.values())} points after the common shifts, {beyond}: {parts}"
    yield f"(with the common shifts in it: {raw['SLOWER']} SLOWER, {raw['FASTER']} FASTER)"
    moved = [row for row in comparison["points"] if row["verdict"] in MOVED]
    yield from _first_rows(moved, _point_line)
    for title, key, line in _LISTS:
        rows = comparison[key]
        if key == "constants" and rows:
            rows = [row for row in rows if None not in (row["a"], row["b"])]
            yield f"constants in only one calibration: {len(comparison[key]) - len(rows)}"
        if rows is None:
            yield f"{title}: unknown, because one run has none"
        else:
            clear = [row for row in rows if row.get("clear", True)]
            close = (
                f", and {len(rows) - len(clear)} not certain (intervals overlap)"
                if rows != clear
                else ""
            )
            yield f"{title}: {len(clear) or 'none'}{close}"
            yield from _first_rows(clear, line)
    for op, count in comparison["left_out"].items():
        yield f"B does not plan {op}, of which {count} points are ok in A"
    yield ""
    yield comparison["conclusion"]


def _points(count: int) -> str:
    return f"{count:,} point{'s' * (count != 1)}"


def _tenths(points: pd.DataFrame) -> str:
    """The change that a tenth of the points exceeds, of the providers that differ most."""
    kinds = points["change"].abs().groupby(points["op"] + " " + points["provider"])
    tenths = kinds.quantile(0.9)[kinds.size() >= _TOLD].nlargest(_SHOWN)
    return ", ".join(f"{kind} {change:.1%}" for kind, change in tenths.items()) or _FEW


def _cause_of_shift(row: Row) -> str:
    if row["cause"] == "state":
        before, after = map(format_seconds, row["shortest_s"])
        return f"state: shortest {before} -> {after}"
    return row["cause"] or "-"


def _interval(row: Row) -> str:
    return f"{row['low']:+.1%} to {row['high']:+.1%}"


_SHIFTS: Final = (
    Column("common shift of", "{group}", left=True),
    Column("points", "{points}"),
    Column("B over A", "{shift:+.1%}"),
    Column("95 %", _interval),
    Column("clock", lambda row: "-" if row["clock"] is None else f"{row['clock']:+.1%}"),
    Column("resolved", "{resolved:.0%}"),
    Column("cause", _cause_of_shift, left=True),
)


def _first_rows(rows: Sequence[Row], line: Callable[[Row], str]) -> Iterator[str]:
    for row in rows[:_SHOWN]:
        yield f"  {line(row)}"
    if len(rows) > _SHOWN:
        yield f"  ... and {len(rows) - _SHOWN} more (--json has all)"


def _point_line(row: Row) -> str:
    names = "" if row["same_names"] else ", other kernel names"
    code = ", other code of ours" if row["other_code"] else ""
    return (
        f"{row['verdict']} {row['change']:+.1%} ({_interval(row)}), {row['cause']}{names}{code}: "
        f"{_name(row)}, {row['median_a_s'] * 1e6:.4g} -> {row['median_b_s'] * 1e6:.4g} us"
    )


def _name(row: Row) -> str:
    who = [row[key] for key in ("op", "provider", "recipe") if key in row]
    sizes = "x".join(str(size) for size in row["shape"].values())
    protocol = "" if row["protocol"] == "graph cold normal" else f" ({row['protocol']})"
    repeat = f" #{row['repeat']}" if row["repeat"] else ""
    return f"{' '.join(who)} {sizes}{protocol}{repeat}"


def _constant_line(row: Row) -> str:
    ends = [
        row[f"choice_{end}"]
        or f"{row[end]:.4g} ({row[f'{end}_low']:.4g} to {row[f'{end}_high']:.4g})"
        for end in ("a", "b")
    ]
    change = "" if row["change"] is None else f", {row['change']:+.1%}"
    unit = "" if row["unit"] == CODE else f" {row['unit']}"
    return f"{row['constant']}: {ends[0]} -> {ends[1]}{unit}{change}"


def _kernels_line(row: Row) -> str:
    """What is launched in one run alone, in the order of its launch there."""
    names: Sequence[Sequence[str]] = (row["kernels_a"], row["kernels_b"])
    a, b = map(Counter, names)
    gone, new = _kernels(a - b), _kernels(b - a)
    same = (a & b).total()
    if gone == new:
        what = f"{gone} of another build or template" if gone else "the same in another order"
        return f"{_name(row)}: {what} (--json has them)"
    beside = f" (in both: {same} more)" if same else ""
    return f"{_name(row)}: {gone or 'none'} -> {new or 'none'}{beside}"


def _kernels(launches: Counter[str]) -> str:
    short = Counter(short_kernel_name(name) for name in launches.elements())
    return "; ".join(f"{count} x {name}" if count > 1 else name for name, count in short.items())


def _breakeven_line(row: Row) -> str:
    linear = f"{row['recipe']} {row['pass']}, casts {row['casts']}, n={row['n']} k={row['k']}"
    return f"{linear}: {row['m_a'] or 'never'} -> {row['m_b'] or 'never'}"


_LISTS: Final[Sequence[tuple[str, str, Callable[[Row], str]]]] = (
    ("status changed", "statuses", lambda r: f"{_name(r)}: {r['status_a']} -> {r['status_b']}"),
    ("kernels with other names", "kernels", _kernels_line),
    ("winner changed", "winners", lambda r: f"{_name(r)}: {r['winner_a']} -> {r['winner_b']}"),
    ("constants that moved", "constants", _constant_line),
    ("break-even points that moved", "breakeven", _breakeven_line),
    ("only in B", "appeared", lambda r: f"{_name(r)}: {r['status']}"),
    ("only in A", "disappeared", lambda r: f"{_name(r)}: {r['status']}"),
)
