"""What moved since the environment before: the result of `compare` as sentences and tables."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pandas as pd

from roofcal.points.run import Run
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.provenance import ReportError, is_outdated
from roofcal.report.kit.blocks import Column, Commands, Table, paragraphs
from roofcal.report.kit.columns import code, count, fraction, named, seconds, text, wide
from roofcal.report.kit.numbers import count_of, shape_text
from roofcal.report.section import Answer, Item, Section

FILE: Final = "moved.json"
_KEYS: Final = ("a", "b", "threshold", "shifts", "counts", "points", "kernels", "winners")

_POINT: Final = (text("point", "point"), text("protocol", "protocol"))
_INTERVAL: Final = (fraction("low", "95 % from", signed=True), fraction("high", "to", signed=True))
_SHIFTS: Final = (
    *named("group", "points"),
    fraction("shift", "time", signed=True),
    *_INTERVAL,
    fraction("clock", "SM clock", signed=True),
    text("cause", "cause", about="clock, or more or fewer cycles at the same clock"),
    fraction("resolved", "resolved", digits=0),
)
_MOVED: Final = (
    *named("verdict"),
    *_POINT,
    fraction("change", "change", signed=True),
    *_INTERVAL,
    fraction("raw", "with the shift", signed=True),
    *named("cause"),
    seconds("median_a_s", "before"),
    seconds("median_b_s", "now"),
)
_WINNERS: Final = (
    *_POINT,
    text("winner_a", "before"),
    text("winner_b", "now"),
    fraction("lead_a", "lead before"),
    fraction("lead_b", "lead now"),
)
_KERNELS: Final = (*_POINT, wide("kernels_a", "before"), wide("kernels_b", "now"))
_STATUSES: Final = (*_POINT, text("status_a", "before"), text("status_b", "now"))
_CONSTANTS: Final = (
    code("constant", "constant"),
    text("a", "before"),
    text("b", "now"),
    *named("unit"),
    fraction("change", "change", signed=True),
)
_BREAKEVEN: Final = (
    *(text(key, key) for key in ("recipe", "pass", "casts")),
    *named("n", "k"),
    count("m_a", "m before"),
    count("m_b", "m now"),
    text("clear", "intervals apart"),
)

Comparison = Mapping[str, Any]


def show(analysis: Analysis) -> Iterator[Item]:
    """What changed in sentences, and every list of the comparison; nothing without one."""
    comparison = comparison_of_run(analysis.run)
    if comparison is None:
        reason = "this is the only or the first environment of the device."
        yield Answer(f"Nothing to compare with: {reason}", is_open=True)
        return
    yield answer(comparison)
    yield from paragraphs(summary_sentences(comparison))
    for name, title, frame, columns in comparison_tables(comparison):
        yield Table(f"moved-{name}", title, frame, columns)
    folders = f"{comparison['a']['folder']} {comparison['b']['folder']}"
    yield Commands(lines=[f"roofcal compare {folders}"])


def comparison_of_run(run: Run) -> Comparison | None:
    """moved.json of a run, without constants of outdated ops and what follows from them.

    None without the file. Raises ReportError for another content.
    """
    path = run.derived / FILE
    if not path.is_file():
        return None
    try:
        comparison: Comparison = json.loads(path.read_text(encoding="utf-8"))
        missing = [key for key in _KEYS if key not in comparison]
    except (ValueError, TypeError) as error:
        missing = [str(error)]
    if missing:
        raise ReportError(f"{path}: is no comparison ({', '.join(missing)}); delete it, run again")
    if not run.outdated:
        return comparison
    constants = [
        row
        for row in comparison["constants"] or ()
        if row["constant"].partition(".")[0] not in run.outdated
    ]
    maps = None if is_outdated(run, "breakeven.csv") else comparison["breakeven"]
    return {**comparison, "constants": constants, "breakeven": maps}


def summary_sentences(comparison: Comparison) -> Iterator[str]:
    """What changed: versions, the conclusion of `compare`, then how many points moved."""
    changed = [f"{row['field']} {row['a']} to {row['b']}" for row in comparison["environment"]]
    yield (
        f"Compared with {comparison['a']['environment']}, the environment of the versions before: "
        f"{'; '.join(changed) or 'no field of the environment differs'}."
    )
    if conclusion := comparison.get("conclusion"):  # not in a publication of an older version
        yield f"{conclusion[0].upper()}{conclusion[1:]} (A: before, B: now)."
    counted = comparison["counts"]
    yield (
        f"Of {sum(counted.values()):,} points with times in both, {counted['SLOWER']:,} are slower "
        f"and {counted['FASTER']:,} faster by more than {comparison['threshold']:.0%} after the "
        f"shift that most points of their kind share; {counted['SAME']:,} are the same within "
        f"that, and {counted['AMBIGUOUS']:,} are too uncertain to tell."
    )


def comparison_tables(
    comparison: Comparison,
) -> Iterator[tuple[str, str, pd.DataFrame, Sequence[Column]]]:
    """(name, title, rows, columns) of every list of the comparison."""
    shifts = pd.DataFrame(comparison["shifts"])
    yield "shifts", "What most points of a kind share", shifts, _SHIFTS
    points = [row for row in comparison["points"] if row["verdict"] in ("SLOWER", "FASTER")]
    yield "points", "Points that became slower or faster", _with_point(points), _MOVED
    yield "winners", "Other winner", _with_point(comparison["winners"]), _WINNERS
    kernels = [
        dict(row) | {name: "; ".join(row[name]) for name in ("kernels_a", "kernels_b")}
        for row in comparison["kernels"]
    ]
    yield "kernels", "Kernels with other names", _with_point(kernels), _KERNELS
    yield "statuses", "Other status", _with_point(comparison["statuses"]), _STATUSES
    constants = [
        row | {end: row.get(f"choice_{end}") or f"{row[end]:.4g}" for end in ("a", "b")}
        for row in comparison["constants"] or ()
        if row["a"] is not None and row["b"] is not None
    ]
    yield "constants", "Constants that moved", pd.DataFrame(constants), _CONSTANTS
    maps = [
        row | {"clear": "yes" if row["clear"] else "no"} for row in comparison["breakeven"] or ()
    ]
    yield "breakeven", "Break-even points that moved", pd.DataFrame(maps), _BREAKEVEN
    for name, title in (("appeared", "Only measured now"), ("disappeared", "Measured before only")):
        yield name, title, _with_point(comparison[name]), (*_POINT, text("status", "status"))


def _with_point(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows, and in words the op, provider, recipe and shape of each as `point`."""
    names = ("op", "provider", "recipe")
    points = [
        " ".join([*(row[name] for name in names if name in row), shape_text(row["shape"].values())])
        for row in rows
    ]
    return pd.DataFrame(rows).assign(point=points)


def answer(comparison: Comparison) -> Answer:
    """How many points became slower or faster, and which are lost."""
    counted, lost = comparison["counts"], comparison.get("lost", {})
    compared = sum(counted.values())
    moved = (
        f"{counted['SLOWER']:,} of {count_of(compared, 'point')} became slower and "
        f"{counted['FASTER']:,} faster than in the environment before."
        if compared
        else "No point has times both here and in the environment before."
    )
    broken = ", ".join(f"{count:,} {status}" for status, count in lost.items())
    if broken:
        moved = f"Points that were ok in the environment before are not here: {broken}. {moved}"
    return Answer(moved, is_open=not compared and not lost)


SECTION = Section("What moved", "changed", show)
