"""A comparison as the answer to a question: its JSON values, and text for a person."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from roofcal.ask.answers import Answer, Column, Part, Table, Verdict
from roofcal.compare.comparison import points_text
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
        """The verdict and what to do, the runs, common shifts, then all that moved.

        Of other cards of one model, how these differ comes before the runs.
        """
        answer = self.answer
        verdict = answer["conclusion"]
        yield Verdict(f"{verdict[0].upper()}{verdict[1:]}.")
        yield from _what_to_do(answer)
        yield ""
        of_cards = pd.DataFrame([row for row in answer["points"] if row["other_card"]])
        shifts: list[Part] = ["common shifts: none, too few points"]
        if answer["shifts"]:
            resolved = (
                f"resolved: points whose change is known to {answer['threshold']:.1%} or better"
            )
            cycles = "cause cycles: more or fewer of them at the same clock"
            shifts = [Table(answer["shifts"], _SHIFTS), f"{resolved}; {cycles}"]
        if len(of_cards):
            sides = []
            for end, cards in answer["other_cards"].items():
                names = ", ".join(card[:12] for card in cards)
                many = f"{len(cards)} cards"
                sides.append(f"{end.upper()} ({names if len(cards) <= _NAMED else many})")
            yield (
                f"{' and '.join(sides)} are cards of one model with the same libraries; "
                f"they differ on {points_text(len(of_cards))} by:"
            )
            yield from shifts
            yield from _card_lines(answer, of_cards)
            yield ""
        for name in ("a", "b"):
            run = answer[name]
            yield f"{name.upper()}: {run['device']} {run['environment']}"
            if not run["points"]:
                yield "   no samples: only fitted constants are compared"
            for holds, count in run["intervals"].items():
                yield f"   intervals of {points_text(count)} cover {MEANINGS[holds]}"
            if run["cards"]:
                yield f"   on {', '.join(card[:12] for card in run['cards'])}"
        for row in answer["environment"]:
            yield f"{row['field']}: {row['a']} -> {row['b']}"
        if not answer["environment"]:
            yield "the environments are the same"
        if same := answer["same_measurements"]:
            yield f"not compared, because both runs have the same records: {points_text(same)}"
        yield ""
        if not len(of_cards):
            yield from shifts
            yield ""
        yield from _change_lines(answer)


def _what_to_do(comparison: Row) -> Iterator[str]:
    """What a reader can do about slower points, lost ones, and such as nobody can tell."""
    counts, ids = comparison["counts"], {*comparison["regressions"]}
    slower = [row["cause"] for row in comparison["points"] if row["point_id"] in ids]
    slower += [
        row["cause"]
        for row in comparison["shifts"]
        if row["group"] in comparison["regressed_groups"]
    ]
    if slower and any(comparison["other_cards"].values()):
        yield (
            "To tell card from software, measure both environments on one card."
            if comparison["environment"]
            else "The versions are the same: `roofcal health` says whether the card of B is slow."
        )
    elif slower:
        of_kernel = sum(cause in ("kernel", "cycles") for cause in slower)
        more = f"{of_kernel} of {len(slower)} slower points and groups take more cycles than before"
        yield (
            f"{more if of_kernel else 'No cause is known'}: look below for changed versions and "
            "kernels of other names, and run B's study again to see whether it stays."
        )
    if comparison["lost"]:
        yield "Why a point is not ok in B, B's report says in its table of points that are not ok."
    if counts["AMBIGUOUS"] > sum(counts.values()) / 2:
        yield (
            "To be surer, measure both again with more visits of each point, in turns, with "
            "nothing beside them (docs/compare.md shows how)."
        )


def _card_lines(comparison: Row, of_cards: pd.DataFrame) -> Iterator[str]:
    """By how much points differ beyond the common shifts: by the card, or by our kernels, too."""
    of_kernels = of_cards["other_code"]
    yield (
        "beyond these shifts, one point in ten differs by more than: "
        f"{_tenths(of_cards[~of_kernels])}"
    )
    if of_kernels.any():
        yield (
            f"on {points_text(sum(of_kernels))} the code of our kernels differs, too, and these "
            "are judged by how far libraries differ; one in ten differs by more than: "
            f"{_tenths(of_cards[of_kernels])}"
        )
    large = of_cards["change"].abs() > comparison["threshold"]
    count = sum(large & ~of_cards["verdict"].isin(MOVED))
    yield (
        f"{points_text(count)} changed by more than {comparison['threshold']:.1%}, but no more "
        "than points of two such cards often do: not listed"
    )


def _change_lines(comparison: Row) -> Iterator[str]:
    counts, raw = comparison["counts"], comparison["counts_raw"]
    count = sum(counts.values())
    yield (
        f"of {points_text(count)}, after the common shifts: {counts['SLOWER']} slower and "
        f"{counts['FASTER']} faster by more than {comparison['threshold']:.1%}, {counts['SAME']} "
        f"the same within it, {counts['AMBIGUOUS']} too uncertain to tell"
    )
    yield f"with the common shifts in it: {raw['SLOWER']} slower, {raw['FASTER']} faster"
    moved = [row for row in comparison["points"] if row["verdict"] in MOVED]
    yield from _first_rows(moved, _point_line)
    if moved:
        yield "up to one in twenty of these may have moved by chance"
    unmoved, unknown = list[str](), list[str]()
    for title, key, line in _LISTS:
        rows = comparison[key]
        if key == "constants" and rows:
            rows = [row for row in rows if None not in (row["a"], row["b"])]
            yield f"constants in only one calibration: {len(comparison[key]) - len(rows)}"
        if not rows:
            (unknown if rows is None else unmoved).append(title)
            continue
        clear = [row for row in rows if row.get("clear", True)]
        unsure = len(rows) - len(clear)
        close = f", and {unsure} not certain (intervals overlap)" if unsure else ""
        yield f"{title}: {len(clear) or 'none'}{close}"
        yield from _first_rows(clear, line)
    if unmoved:
        yield f"none of these: {'; '.join(unmoved)}"
    if unknown:
        yield f"unknown, because one run has none: {'; '.join(unknown)}"
    for op, lost in comparison["left_out"].items():
        yield f"B does not plan {op}, of which {lost} points are ok in A"


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


_CAUSES: Final = {
    "kernel": "at the same clock",
    "clock": "as its clock moved",
    "unclear": "cause unclear",
    "unknown": "no clock was read",
    None: "cause unknown",
}
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
    cause = f"{_CAUSES[row['cause']]}{names}{code}"
    return (
        f"{row['verdict'].lower()} {row['change']:+.1%} (95 %: {_interval(row)}), {cause}: "
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
    (
        "points with another result",
        "statuses",
        lambda r: f"{_name(r)}: {r['status_a']} -> {r['status_b']}",
    ),
    ("points whose kernels have other names", "kernels", _kernels_line),
    (
        "shapes with another fastest provider or recipe",
        "winners",
        lambda r: f"{_name(r)}: {r['winner_a']} -> {r['winner_b']}",
    ),
    ("constants that moved", "constants", _constant_line),
    ("break-even points that moved", "breakeven", _breakeven_line),
    ("points that B alone has", "appeared", lambda r: f"{_name(r)}: {r['status']}"),
    ("points that A alone has", "disappeared", lambda r: f"{_name(r)}: {r['status']}"),
)
