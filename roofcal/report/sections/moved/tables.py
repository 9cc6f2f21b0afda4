"""What moved since the environment before: moved.json of `compare` as the report shows it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd

from roofcal.report.data.loading import ReportError
from roofcal.report.kit.blocks import Column
from roofcal.report.kit.columns import count, fraction, seconds, text, wide

SOURCE: Final = "moved.json"
_KEYS: Final = ("a", "b", "threshold", "shifts", "counts", "points", "kernels", "winners")

_POINT: Final = (text("point", "point"), text("protocol", "protocol"))
_SHIFTS: Final = (
    text("group", "group"),
    count("points", "points"),
    fraction("shift", "time", signed=True),
    fraction("low", "95 % from", signed=True),
    fraction("high", "to", signed=True),
    fraction("clock", "SM clock", signed=True),
    text("cause", "cause", about="clock, or more or fewer cycles at the same clock"),
    fraction("resolved", "resolved", digits=0),
)
_MOVED: Final = (
    text("verdict", "verdict"),
    *_POINT,
    fraction("change", "change", signed=True),
    fraction("low", "95 % from", signed=True),
    fraction("high", "to", signed=True),
    fraction("raw", "with the shift", signed=True),
    text("cause", "cause"),
    seconds("median_a_s", "before"),
    seconds("median_b_s", "now"),
)
_CONSTANTS: Final = (
    Column(key="constant", label="constant", kind="code"),
    Column(key="a", label="before", kind="number", show=lambda v: f"{v:.4g}"),
    Column(key="b", label="now", kind="number", show=lambda v: f"{v:.4g}"),
    text("unit", "unit"),
    fraction("change", "change", signed=True),
)
_BREAKEVEN: Final = (
    *(text(key, key) for key in ("recipe", "pass", "casts")),
    *(count(key, label) for key, label in (("n", "n"), ("k", "k"))),
    *(count(key, label) for key, label in (("m_a", "m before"), ("m_b", "m now"))),
    text("clear", "intervals apart"),
)


def read_moved(derived: Path) -> Mapping[str, Any] | None:
    """moved.json of a run; None without one. Raises ReportError for a file that is none."""
    path = derived / SOURCE
    if not path.is_file():
        return None
    try:
        found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        missing = [key for key in _KEYS if key not in found]
    except (ValueError, TypeError) as error:
        missing = [str(error)]
    if missing:
        raise ReportError(f"{path}: is no comparison ({', '.join(missing)}); delete it, run again")
    return found


def sentences(found: Mapping[str, Any]) -> Iterator[str]:
    """What changed in a few sentences: versions, counts, and what they mean."""
    changed = [f"{row['field']} {row['a']} to {row['b']}" for row in found["environment"]]
    yield (
        f"Compared with the environment {found['a']['environment']}, measured before: "
        f"{'; '.join(changed) or 'no field of the environment differs'}."
    )
    counts, total = found["counts"], sum(found["counts"].values())
    yield (
        f"Of {total:,} points with times in both, {counts['SLOWER']:,} are slower and "
        f"{counts['FASTER']:,} faster by more than {found['threshold']:.0%} after the shift that "
        f"most points of their kind share; {counts['SAME']:,} are the same within that, and of "
        f"{counts['AMBIGUOUS']:,} the samples do not decide."
    )


Row = tuple[str, str, pd.DataFrame, Sequence[Column]]


def tables(found: Mapping[str, Any]) -> Iterator[Row]:
    """(name, title, rows, columns) of every list of the comparison."""
    yield "shifts", "What most points of a kind share", pd.DataFrame(found["shifts"]), _SHIFTS
    points = [row for row in found["points"] if row["verdict"] in ("SLOWER", "FASTER")]
    yield "points", "Points that became slower or faster", _named(points), _MOVED
    yield "winners", "Other winner", _named(found["winners"]), _WINNERS
    yield "kernels", "Kernels with other names", _named(_joined(found["kernels"])), _KERNELS
    yield "statuses", "Other status", _named(found["statuses"]), _STATUSES
    constants = [row for row in found["constants"] or () if row["change"] is not None]
    yield "constants", "Constants that moved", pd.DataFrame(constants), _CONSTANTS
    maps = [row | {"clear": _yes(row["clear"])} for row in found["breakeven"] or ()]
    yield "breakeven", "Break-even points that moved", pd.DataFrame(maps), _BREAKEVEN
    for name, title in (("appeared", "Only measured now"), ("disappeared", "Measured before only")):
        yield name, title, _named(found[name]), (*_POINT, text("status", "status"))


_WINNERS: Final = (
    *_POINT,
    text("winner_a", "before"),
    text("winner_b", "now"),
    fraction("lead_a", "lead before"),
    fraction("lead_b", "lead now"),
)
_KERNELS: Final = (*_POINT, wide("kernels_a", "before"), wide("kernels_b", "now"))
_STATUSES: Final = (*_POINT, text("status_a", "before"), text("status_b", "now"))


def command(found: Mapping[str, Any]) -> str:
    """The line that prints the comparison."""
    return f"python -m roofcal compare {found['a']['folder']} {found['b']['folder']}"


def _named(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame([row | {"point": _point(row)} for row in map(dict, rows)])


def _point(row: Mapping[str, Any]) -> str:
    sizes = " \N{MULTIPLICATION SIGN} ".join(f"{size:,}" for size in row["shape"].values())
    words = [row[key] for key in ("op", "provider", "recipe") if key in row]
    return " ".join([*words, sizes])


def _joined(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    names = ("kernels_a", "kernels_b")
    return [dict(row) | {name: "; ".join(row[name]) for name in names} for row in rows]


def _yes(value: bool) -> str:
    return "yes" if value else "no"
