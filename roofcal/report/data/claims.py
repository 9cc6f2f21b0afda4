"""Do published claims hold? Each claim of the ledger against the records of one run.

A claim holds if the whole 95 % interval of our number lies within what the claim allows (its value
and tolerance, see roofcal.claims), does not hold if all of it lies outside, and is undecided
otherwise. It cannot be tested if records, a datasheet or a calibration are missing, and the reason
names what is. Our number comes from the rows of a tidy table that the claim selects, or from the
calibration.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from roofcal.ask.answers import Answer, Column, Part, Table, filled
from roofcal.claims import Entry, Expression, Where
from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Protocol
from roofcal.core.statistics import summarise
from roofcal.core.visits.intervals import narrowest_hold
from roofcal.ops import BY_NAME
from roofcal.points.columns import INTERVAL_HOLDS
from roofcal.points.roofs import constants_of
from roofcal.points.run import Run
from roofcal.report.data.comparisons import TIME, ops_of_products, ratio_of_times
from roofcal.report.data.op_pages import casts_note
from roofcal.report.data.tidy import ok_rows

# The standard protocol: it holds for columns that a claim leaves open.
PROTOCOL: Final[Where] = asdict(Protocol()) | {"repeat": 0, "world_size": 1}
# Quantity -> column of the work that is done per second
_WORK: Final = {
    "tflops": "flops",
    "fraction_of_peak": "flops",
    "fraction_of_bandwidth": "dram_bytes",
}
Row = dict[str, Any]
WORDS: Final = ("holds", "undecided", "does not hold", "cannot be tested")
# word -> class of the style sheet that gives it a sign and a colour
VERDICT_CLASSES: Final = dict(zip(WORDS, ("yes", "none", "no", "none"), strict=True))
UNITS: Final = {"time_us": "us", "tflops": "TFLOP/s", "speedup": "x"}
_RELATION_WORDS: Final = {"about": "", ">=": "at least ", "<=": "at most "}
_MARGINS: Final = {"about": "+-", ">=": "-", "<=": "+"}


class Untestable(Exception):  # noqa: N818 (a state of a claim, not an error of the program)
    """Why a claim cannot be tested on these records."""


class OwnNumber(NamedTuple):
    """Our number with its 95 % interval, in the unit of the quantity.

    basis  its origin
    holds  how far the interval can be trusted: see roofcal.core.visits.intervals.HOLDS; None for
           constants, and for intervals over points
    """

    value: float
    low: float
    high: float
    basis: str
    holds: str | None = None


class _Evidence(NamedTuple):
    """What a run offers for tests of claims; tables: op -> its tidy table."""

    run: Run
    spec: DeviceSpec | None
    tables: Mapping[str, pd.DataFrame]

    @property
    def datasheet(self) -> DeviceSpec:
        """The datasheet; raises Untestable without one."""
        if self.spec is None:
            device = self.run.environment.device
            raise Untestable(f"needs a datasheet, and config/devices has none of {device}")
        return self.spec


def _own_number(test: Expression, evidence: _Evidence, points: Where, base: Where) -> OwnNumber:
    """Our number for the quantity of a test; raises Untestable, naming what is lacking.

    points, base: column -> value of the rows that it is about, and that a speed-up is over.
    """
    if test.constant:
        return _constant(test, evidence)
    rows = _rows(test, evidence, points)
    if test.pick == "median":
        middle = summarise([_number_of_row(test, row, evidence).value for row in rows])
        basis = f"median of {len(rows)} points"
        return OwnNumber(middle.median, middle.ci95_low, middle.ci95_high, basis)
    row = _fastest(test, rows)
    if test.quantity != "speedup":
        return _number_of_row(test, row, evidence)
    over = _fastest(test, _rows(test, evidence, base))
    basis = f"{_contender_text(row)} against {_contender_text(over)}, {_size_text(row)}"
    holds = narrowest_hold(over[INTERVAL_HOLDS], row[INTERVAL_HOLDS])
    value, low, high = map(float, ratio_of_times(over, row))
    return OwnNumber(value, low, high, basis, holds)


def _constant(test: Expression, evidence: _Evidence) -> OwnNumber:
    """A constant of the calibration: a time, or a rate over that of the datasheet."""
    constant = constants_of(evidence.run.calibration).get(str(test.constant))
    if constant is None:
        raise Untestable(f"the calibration of this run has no {test.constant}")
    scale = 1e6
    if test.quantity != "time_us":
        datasheet = evidence.datasheet
        of_memory = test.quantity == "fraction_of_bandwidth"
        bandwidth = datasheet.dram_bytes_per_s if of_memory else datasheet.link_bytes_per_s
        if bandwidth is None:
            raise Untestable(f"config/devices/{datasheet.device}.yaml states no link_gb_per_s")
        scale = 1 / bandwidth
    value, low, high = (
        end * scale for end in (constant.value, constant.ci95_low, constant.ci95_high)
    )
    return OwnNumber(value, low, high, f"calibrated constant {test.constant}")


def _rows(test: Expression, evidence: _Evidence, points: Where) -> list[Row]:
    """Rows with a time among those that `points` selects.

    Raises Untestable without any, and for a median over fewer than half of the points.
    """
    op = str(test.op)
    if op not in evidence.tables:
        raise Untestable(f"op {op} is not among the records of this device")
    # What is said of the fastest point is said of all measured points, those of probes too.
    names = ops_of_products(op) if test.pick == "fastest" else [op]
    # shapes first: they leave few rows to compare the words of
    conditions = sorted((PROTOCOL | points).items(), key=lambda pair: isinstance(pair[1], str))
    parts = []
    for frame in (evidence.tables[name] for name in names if name in evidence.tables):
        positions = np.arange(len(frame))
        for column, value in conditions:
            positions = positions[frame[column].to_numpy()[positions] == value]
        parts.append(frame.iloc[positions])
    selected = pd.concat(parts, ignore_index=True)
    if selected.empty:
        lacking = ", ".join(f"{column} {value}" for column, value in points.items())
        raise Untestable(f"no point of {op} with {lacking}")
    timed = ok_rows(selected)
    if timed.empty:
        row = _as_dicts(selected)[0]
        raise Untestable(f"{_point_text(row)}: {row['status']}: {row['reason']}")
    if test.pick == "median" and 2 * len(timed) < len(selected):
        raise Untestable(f"only {len(timed)} of the {len(selected)} points have a time")
    return _as_dicts(timed)


def _as_dicts(frame: pd.DataFrame) -> list[Row]:
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]


def _fastest(test: Expression, rows: list[Row]) -> Row:
    """The only row of a test that means one, the best row of a test that means the best."""
    if len(rows) > 1 and test.pick == "only":
        which = "; ".join(map(_point_text, rows))
        raise Untestable(f"the claim means one point, and there are {which}")
    work = _WORK.get(test.quantity)  # rows of one shape have the same work, those of others not
    if work is None:
        return min(rows, key=lambda row: float(row["median_s"]))
    return max(rows, key=lambda row: float(row[work] / row["median_s"]))


def _number_of_row(test: Expression, row: Row, evidence: _Evidence) -> OwnNumber:
    """The quantity of one point: its time, or its rate in TFLOP/s or over that of the datasheet."""
    value, low, high = (float(row[name]) for name in TIME)
    if test.quantity == "time_us":
        value, low, high = value * 1e6, low * 1e6, high * 1e6
    else:
        unit = 1e12
        if test.quantity == "fraction_of_bandwidth":
            unit = evidence.datasheet.dram_bytes_per_s
        elif test.quantity == "fraction_of_peak":
            op, datasheet = BY_NAME[row["op"]], evidence.datasheet
            dtype = op.work(row["recipe"], {axis: int(row[axis]) for axis in op.axes}).math_dtype
            if str(dtype) not in datasheet.peak_flops_per_s:
                raise Untestable(f"the datasheet of {datasheet.device} has no rate of {dtype}")
            unit = datasheet.peak_flops_per_s[str(dtype)]
        work = float(row[_WORK[test.quantity]]) / unit
        value, low, high = work / value, work / high, work / low
    return OwnNumber(value, low, high, _point_text(row), row[INTERVAL_HOLDS])


def _point_text(row: Row) -> str:
    return f"{_contender_text(row)}, {_size_text(row)}"


def _contender_text(row: Row) -> str:
    data = "" if row["distribution"] == "normal" else f" on {row['distribution']}"
    return f"{row['recipe']} by {row['provider']}{data}"


def _size_text(row: Row) -> str:
    return " x ".join(f"{row[axis]:,}" for axis in BY_NAME[row["op"]].axes)


# What CSV and JSON say of a claim; a row has its entry and texts for people beside it.
FIELDS: Final = (
    *("claim", "says", "verdict", "theirs", "ours", "ours_low", "ours_high", INTERVAL_HOLDS),
    *("quantity", "unit", "ours_over_theirs", "as_source", "as_source_low", "as_source_high"),
    *("as_source_how", "relation", "tolerance", "basis", "reason", "note", "source", "url", "date"),
    *("hardware", "printed"),
)


def judge(
    entries: Iterable[Entry],
    run: Run,
    spec: DeviceSpec | None,
    tables: Mapping[str, pd.DataFrame] | None = None,
) -> list[Row]:
    """A row for every claim, in their order.

    Numbers are in the unit of the quantity, None if missing: theirs, ours, and ours timed as the
    source timed it (as_source), if the claim says how and it was measured. reason: why the claim
    cannot be tested, None for one that can. <number>_shown: with unit and interval.

    tables: op -> its tidy table, where they are at hand; else those that the claims need are read,
    which raises RecordsError for a bad file.
    """
    claims = list(entries)
    if tables is None:
        named = {str(entry.claim.test.op) for entry in claims if entry.claim.test}
        needed = {op for name in named for op in (name, *ops_of_products(name))}
        tables = {op: run.points(op, spec).table for op in run.ops if op in needed}
    evidence = _Evidence(run, spec, tables)
    return [_judged(entry, evidence) for entry in claims]


def _judged(entry: Entry, evidence: _Evidence) -> Row:
    test, theirs = entry.claim.test, entry.value
    ours, other, reason, word = None, None, entry.claim.untestable, WORDS[3]
    if test is not None and theirs is not None:
        base = {**entry.points, **(test.against or {})}
        try:
            ours = _own_number(test, evidence, entry.points, base)
            least = -math.inf if test.relation == "<=" else theirs * (1 - test.tolerance)
            most = math.inf if test.relation == ">=" else theirs * (1 + test.tolerance)
            word = WORDS[1]  # our interval contains values that the claim allows, and others
            if least <= ours.low and ours.high <= most:
                word = WORDS[0]
            elif ours.high < least or most < ours.low:
                word = WORDS[2]
            if source := test.as_source:
                # the points of `against` change only as `as_source.against` says
                own = {**entry.points, **source.points}
                with suppress(Untestable):
                    other = _own_number(test, evidence, own, {**base, **source.against})
        except Untestable as why:
            reason = str(why)
    unit = UNITS.get(test.quantity, "") if test else ""
    space = "" if unit in ("", "x") else " "
    shown: Row = {"theirs_shown": "-" if theirs is None else f"{theirs:.4g}{space}{unit}"}
    if test and theirs is not None:  # at least or at most for a bound, and the tolerance
        margin = f" {_MARGINS[test.relation]}{test.tolerance:.0%}" if test.tolerance else ""
        shown["theirs_shown"] = f"{_RELATION_WORDS[test.relation]}{shown['theirs_shown']}{margin}"
    for name, number in (("ours", ours), ("as_source", other)):
        value, low, high = number[:3] if number else (None, None, None)
        text = f"{value:.4g}{space}{unit} ({low:.4g} to {high:.4g})" if number else None
        shown |= {name: value, f"{name}_low": low, f"{name}_high": high, f"{name}_shown": text}
    return {
        "entry": entry,
        **shown,
        "claim": entry.id,
        "says": entry.says
        + (casts_note(test.op) if test and test.op and test.quantity == "speedup" else ""),
        "verdict": word,
        "theirs": theirs,
        INTERVAL_HOLDS: ours.holds if ours else None,
        "quantity": test.quantity if test else None,
        "unit": unit,
        "ours_over_theirs": ours.value / theirs if ours and theirs else None,
        "as_source_how": test.as_source.label if other and test and test.as_source else None,
        "relation": test.relation if test else None,
        "tolerance": test.tolerance if test else None,
        "basis": ours.basis if ours else None,
        "reason": reason,
        "note": entry.claim.note or None,
        "source": entry.ledger.title,
        "url": entry.ledger.url,
        "date": str(entry.ledger.date),
        "hardware": entry.hardware,
        "printed": dict(entry.printed),
    }


def counts(verdicts: Iterable[Row]) -> dict[str, int]:
    """How many claims have each of WORDS."""
    words = [row["verdict"] for row in verdicts]
    return {word: words.count(word) for word in WORDS}


def counts_text(verdicts: Iterable[Row]) -> str:
    """'3 hold, 1 does not hold, 2 are undecided, 2 cannot be tested here', without zeros."""
    holds, undecided, fails, untested = counts(verdicts).values()
    parts = (
        (holds, "holds" if holds == 1 else "hold"),
        (fails, f"{'does' if fails == 1 else 'do'} not hold"),
        (undecided, f"{'is' if undecided == 1 else 'are'} undecided"),
        (untested, "cannot be tested here"),
    )
    return ", ".join(f"{number} {words}" for number, words in parts if number) or "none is judged"


def _claim_text(row: Mapping[str, Any]) -> str:
    """What it says; why it cannot be tested, or our number timed as the source timed its own."""
    aside = row["reason"] or filled("ours {as_source_how}: {as_source_shown}", row)
    return f"{row['says']} ({aside})" if aside else str(row["says"])


_COLUMNS: Final = (
    Column("verdict", "{verdict}", left=True),
    Column("theirs", "{theirs_shown}", names=True),
    Column("ours", "{ours_shown}"),
    Column("claim", _claim_text, left=True, note=True),
)


@dataclass(frozen=True)
class JudgedClaims(Answer):
    """Verdicts by device and environment, each of them by source."""

    verdicts: Mapping[tuple[str, str], Sequence[Row]]
    indent = 1

    @property
    def answer(self) -> list[dict[str, Any]]:
        """An object per device."""
        return [
            {
                "device": device,
                "environment_id": environment,
                "counts": counts(rows),
                "claims": [{name: row[name] for name in FIELDS} for row in rows],
            }
            for (device, environment), rows in self.verdicts.items()
        ]

    def parts(self) -> Iterator[Part]:
        """Device by device, a table for each source."""
        gap: list[str] = []
        for (device, environment), rows in self.verdicts.items():
            yield [*gap, f"{device}, {environment}", f"  {counts_text(rows)}"]
            for ledger, group in groupby(rows, key=lambda row: row["entry"].ledger):
                yield ["", f"{ledger.title} ({ledger.date})"]
                yield [f"  {ledger.url or 'no public address'}", f"  made on {ledger.hardware}"]
                yield Table([*group], _COLUMNS)
            gap = [""]
