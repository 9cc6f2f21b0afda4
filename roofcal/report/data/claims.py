"""Do published claims hold? Each claim of the ledger against the records of one run.

A claim does not hold if the whole 95 % interval of our number lies outside of what the claim allows
(its value and tolerance, see roofcal.claims); otherwise it holds. It cannot be tested if
records, a datasheet or a calibration are missing, and the reason names what is. Our number comes
from the rows of a tidy table that the claim selects, or from the calibration.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any, Final, Literal

import numpy as np
import pandas as pd

from roofcal.claims import Entry, Expression, Where
from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration
from roofcal.core.statistics import summarise
from roofcal.core.visits.intervals import narrowest_hold
from roofcal.ops import BY_NAME
from roofcal.points.columns import INTERVAL_HOLDS
from roofcal.points.roofs import constants_of
from roofcal.points.run import Run
from roofcal.report.data.comparisons import ops_of_products, ratio_of_times
from roofcal.report.data.tidy import ok_rows

# The standard protocol: it holds for columns that a claim leaves open.
PROTOCOL: Final[Where] = {
    "method": "graph",
    "cache": "cold",
    "distribution": "normal",
    "repeat": 0,
    "world_size": 1,
}
# Quantity -> column of the work that is done per second
_WORK: Final = {
    "tflops": "flops",
    "fraction_of_peak": "flops",
    "fraction_of_bandwidth": "dram_bytes",
}
Row = dict[str, Any]
Word = Literal["holds", "does not hold", "cannot be tested"]
WORDS: Final[tuple[Word, ...]] = ("holds", "does not hold", "cannot be tested")
UNITS: Final = {"time_us": "us", "tflops": "TFLOP/s", "speedup": "x"}
_SIGNS: Final = {"about": "", ">=": "at least ", "<=": "at most "}
_MARGINS: Final = {"about": "+-", ">=": "-", "<=": "+"}


class Untestable(Exception):  # noqa: N818 (a state of a claim, not an error of the program)
    """Why a claim cannot be tested on these records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnNumber:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The records of a run that claims are tested on.

    frame  op -> its tidy table; None for an op without a plan
    """

    device: str
    frame: Callable[[str], pd.DataFrame | None]
    calibration: Calibration | None
    spec: DeviceSpec | None

    @property
    def datasheet(self) -> DeviceSpec:
        """The datasheet; raises Untestable without one."""
        if self.spec is None:
            raise Untestable(f"needs a datasheet, and config/devices has none of {self.device}")
        return self.spec


def evidence_of_run(run: Run, spec: DeviceSpec | None) -> Evidence:
    """The records of a run; each tidy table is made once, when a claim needs it."""

    @cache
    def frame(op: str) -> pd.DataFrame | None:
        return run.points(op, spec).table if op in run.ops else None

    device = run.environment.device
    return Evidence(device=device, frame=frame, calibration=run.calibration, spec=spec)


def own_number(
    entry: Entry, test: Expression, evidence: Evidence, points: Where, base: Where
) -> OwnNumber:
    """Our number for the quantity of a test.

    Args:
        entry: the claim.
        test: what it states; that of the claim, or the same as the source timed it.
        evidence: the records.
        points: column -> value of the rows that the quantity is about.
        base: the same for the rows that a speed-up is over.

    Raises:
        Untestable: records, datasheet or calibration lack something; the message names it.
    """
    if test.constant:
        constants = constants_of(evidence.calibration)
        if test.constant not in constants:
            raise Untestable(f"the calibration of this run has no {test.constant}")
        constant = constants[test.constant]
        scale = 1e6
        if test.quantity != "time_us":
            datasheet = evidence.datasheet
            of_memory = test.quantity == "fraction_of_bandwidth"
            bandwidth = datasheet.dram_bytes_per_s if of_memory else datasheet.link_bytes_per_s
            if bandwidth is None:
                raise Untestable(f"config/devices/{datasheet.device}.yaml states no link_gb_per_s")
            scale = 1 / bandwidth
        return OwnNumber(
            value=constant.value * scale,
            low=constant.ci95_low * scale,
            high=constant.ci95_high * scale,
            basis=f"calibrated constant {test.constant}",
        )
    rows = _rows(entry, evidence, points)
    if test.quantity == "speedup":
        return _speedup(_fastest(test, rows), _fastest(test, _rows(entry, evidence, base)))
    numbers = [_number_of_row(test, row, evidence) for row in rows]
    if test.pick == "median":
        middle = summarise([number.value for number in numbers])
        return OwnNumber(
            value=middle.median,
            low=middle.ci95_low,
            high=middle.ci95_high,
            basis=f"median of {len(rows)} points",
        )
    return numbers[rows.index(_fastest(test, rows))]


def _rows(entry: Entry, evidence: Evidence, points: Where) -> list[Row]:
    """Rows with a time among those that `points` selects.

    Raises Untestable without any, and for a median over fewer than half of the points.
    """
    op = str(entry.test.op if entry.test else None)
    if entry.awaited:
        raise Untestable(f"op {op} is not built yet")
    if evidence.frame(op) is None:
        raise Untestable(f"op {op} is not among the records of this device")
    # What is said of the fastest point is said of all measured points, those of probes too.
    is_of_all = entry.test is not None and entry.test.pick == "fastest"
    frames = [evidence.frame(name) for name in (ops_of_products(op) if is_of_all else [op])]
    parts = [_selected(frame, PROTOCOL | points) for frame in frames if frame is not None]
    selected = pd.concat(parts, ignore_index=True)
    if selected.empty:
        lacking = ", ".join(f"{column} {value}" for column, value in points.items())
        raise Untestable(f"no point of {op} with {lacking}")
    timed = ok_rows(selected)
    if timed.empty:
        row = _as_dicts(selected)[0]
        raise Untestable(f"{_point_text(row)}: {row['status']}: {row['reason']}")
    if entry.test and entry.test.pick == "median" and 2 * len(timed) < len(selected):
        raise Untestable(f"only {len(timed)} of the {len(selected)} points have a time")
    return _as_dicts(timed)


def _selected(frame: pd.DataFrame, conditions: Where) -> pd.DataFrame:
    # shapes first: they leave few rows to compare the words of
    ordered = sorted(conditions.items(), key=lambda pair: isinstance(pair[1], str))
    positions = np.arange(len(frame))
    for column, value in ordered:
        positions = positions[frame[column].to_numpy()[positions] == value]
    return frame.iloc[positions]


def _as_dicts(frame: pd.DataFrame) -> list[Row]:
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]


def _fastest(test: Expression, rows: list[Row]) -> Row:
    """The only row of a test that means one, the best row of a test that means the best.

    All rows of one shape have the same work, so the highest rate of one is its shortest time.
    """
    if len(rows) > 1 and test.pick == "only":
        which = "; ".join(_point_text(row) for row in rows)
        raise Untestable(f"the claim means one point, and there are {which}")
    work = _WORK.get(test.quantity)
    if work is None:
        return min(rows, key=lambda row: float(row["median_s"]))
    return max(rows, key=lambda row: float(row[work] / row["median_s"]))


def _speedup(row: Row, base: Row) -> OwnNumber:
    """Time of `base` over time of `row`."""
    value, low, high = map(float, ratio_of_times(base, row))
    return OwnNumber(
        value=value,
        low=low,
        high=high,
        holds=narrowest_hold(base[INTERVAL_HOLDS], row[INTERVAL_HOLDS]),
        basis=f"{_contender_text(row)} against {_contender_text(base)}, {_size_text(row)}",
    )


def _number_of_row(test: Expression, row: Row, evidence: Evidence) -> OwnNumber:
    times = (row["median_s"], row["ci95_low_s"], row["ci95_high_s"])
    if test.quantity == "time_us":
        value, low, high = (float(seconds) * 1e6 for seconds in times)
    else:
        work = float(row[_WORK[test.quantity]]) / _unit_rate(test, row, evidence)
        value, high, low = (work / float(seconds) for seconds in times)
    holds = row[INTERVAL_HOLDS]
    return OwnNumber(value=value, low=low, high=high, basis=_point_text(row), holds=holds)


def _unit_rate(test: Expression, row: Row, evidence: Evidence) -> float:
    """The rate that a quantity counts as 1: 1 TFLOP/s, or that of the datasheet."""
    if test.quantity == "tflops":
        return 1e12
    if test.quantity == "fraction_of_bandwidth":
        return evidence.datasheet.dram_bytes_per_s
    op = BY_NAME[row["op"]]
    dtype = op.work(row["recipe"], {axis: int(row[axis]) for axis in op.axes}).math_dtype
    rate = evidence.datasheet.peak_flops_per_s.get(str(dtype))
    if rate is None:
        raise Untestable(f"the datasheet of {evidence.device} has no rate of {dtype}")
    return rate


def _point_text(row: Row) -> str:
    return f"{_contender_text(row)}, {_size_text(row)}"


def _contender_text(row: Row) -> str:
    data = "" if row["distribution"] == "normal" else f" on {row['distribution']}"
    return f"{row['recipe']} by {row['provider']}{data}"


def _size_text(row: Row) -> str:
    return " x ".join(f"{row[axis]:,}" for axis in BY_NAME[row["op"]].axes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the records of one device say of a claim.

    ours       our number, None for a claim that cannot be tested
    as_source  our number timed as the source timed it, if the claim says how and it was measured
    reason     why the claim cannot be tested, "" for one that can
    """

    entry: Entry
    word: Word
    ours: OwnNumber | None = None
    as_source: OwnNumber | None = None
    reason: str = ""


def judge(entries: Iterable[Entry], evidence: Evidence) -> list[Verdict]:
    """A verdict on every claim, in their order; raises what reading the tables raises."""
    return [_verdict(entry, evidence) for entry in entries]


def _verdict(entry: Entry, evidence: Evidence) -> Verdict:
    test = entry.test
    if test is None or entry.value is None:
        return Verdict(entry=entry, word="cannot be tested", reason=str(entry.untestable))
    try:
        base = {**entry.points, **(test.against or {})}
        ours = own_number(entry, test, evidence, entry.points, base)
    except Untestable as reason:
        return Verdict(entry=entry, word="cannot be tested", reason=str(reason))
    # it holds if any part of our interval lies within what the claim allows
    enough = test.relation == "<=" or ours.high >= entry.value * (1 - test.tolerance)
    not_too_much = test.relation == ">=" or ours.low <= entry.value * (1 + test.tolerance)
    word: Word = "holds" if enough and not_too_much else "does not hold"
    as_source = _as_source(entry, test, evidence)
    return Verdict(entry=entry, word=word, ours=ours, as_source=as_source)


def _as_source(entry: Entry, test: Expression, evidence: Evidence) -> OwnNumber | None:
    """Our number timed as the source timed it.

    What `as_source.points` changes holds for the points alone: the points of `against` change only
    as `as_source.against` says.
    """
    source = test.as_source
    if source is None:
        return None
    base = {**entry.points, **(test.against or {}), **source.against}
    try:
        return own_number(entry, test, evidence, {**entry.points, **source.points}, base)
    except Untestable:
        return None


def counts(verdicts: Iterable[Verdict]) -> dict[Word, int]:
    """How many claims hold, do not hold, and cannot be tested."""
    words = [verdict.word for verdict in verdicts]
    return {word: words.count(word) for word in WORDS}


def counts_text(verdicts: Sequence[Verdict]) -> str:
    """'3 hold, 1 does not hold, 2 cannot be tested here'."""
    number = counts(verdicts)
    holds, fails, untested = (number[word] for word in WORDS)
    return (
        f"{holds} {'holds' if holds == 1 else 'hold'}, "
        f"{fails} {'does' if fails == 1 else 'do'} not hold, {untested} cannot be tested here"
    )


def source_text(verdict: Verdict) -> str:
    """The source's number with its unit, `at least` or `at most` for a bound, and its tolerance."""
    test, value = verdict.entry.test, verdict.entry.value
    if value is None:
        return "-"
    number = _with_unit(value, verdict)
    if test is None:
        return number
    margin = f" {_MARGINS[test.relation]}{test.tolerance:.0%}" if test.tolerance else ""
    return f"{_SIGNS[test.relation]}{number}{margin}"


def own_text(number: OwnNumber | None, verdict: Verdict) -> str:
    """A number of ours with its unit and interval, '-' without one."""
    if number is None:
        return "-"
    low, high = (f"{end:.4g}" for end in (number.low, number.high))
    return f"{_with_unit(number.value, verdict)} ({low} to {high})"


def _with_unit(value: float, verdict: Verdict) -> str:
    unit = UNITS.get(verdict.entry.test.quantity if verdict.entry.test else "", "")
    return f"{value:.4g}{'' if unit in ('', 'x') else ' '}{unit}"


def as_row(verdict: Verdict) -> Mapping[str, Any]:
    """A verdict as a row of a table: numbers in the unit of the quantity, None if missing."""
    entry, ours, other = verdict.entry, verdict.ours, verdict.as_source
    test = entry.test
    quantity = test.quantity if test else None
    return {
        "claim": entry.id,
        "says": entry.says,
        "verdict": verdict.word,
        "theirs": entry.value,
        "ours": ours.value if ours else None,
        "ours_low": ours.low if ours else None,
        "ours_high": ours.high if ours else None,
        INTERVAL_HOLDS: ours.holds if ours else None,
        "quantity": quantity,
        "unit": UNITS.get(quantity or "", ""),
        "ours_over_theirs": ours.value / entry.value if ours and entry.value else None,
        "as_source": other.value if other else None,
        "as_source_low": other.low if other else None,
        "as_source_high": other.high if other else None,
        "as_source_how": test.as_source.label if other and test and test.as_source else None,
        "relation": test.relation if test else None,
        "tolerance": test.tolerance if test else None,
        "basis": ours.basis if ours else None,
        "reason": verdict.reason or None,
        "note": entry.note or None,
        "source": entry.ledger.title,
        "url": entry.ledger.url,
        "date": str(entry.ledger.date),
        "hardware": entry.hardware,
        "printed": "; ".join(f"{key} {number:g}" for key, number in entry.printed.items()) or None,
    }


def as_text(device: str, environment: str, verdicts: Sequence[Verdict]) -> str:
    """The verdicts of one device by source, for the terminal."""
    lines = [f"{device}, {environment}", f"  {counts_text(verdicts)}"]
    for ledger, group in groupby(verdicts, key=lambda verdict: verdict.entry.ledger):
        lines += ["", f"{ledger.title} ({ledger.date})"]
        lines.append(f"  {ledger.url or 'no public address'}; made on {ledger.hardware}")
        of_source = list(group)
        width = max(len(source_text(verdict)) for verdict in of_source)
        for verdict in of_source:
            number = f"{source_text(verdict):>{width}}"
            lines.append(f"  {verdict.word:<16}  {number}  {verdict.entry.says}")
            # Our number, also timed as the source timed it, or why there is none
            text = verdict.reason or f"ours {own_text(verdict.ours, verdict)}"
            test = verdict.entry.test
            if verdict.as_source and test and test.as_source:
                text += f"; {test.as_source.label}: {own_text(verdict.as_source, verdict)}"
            lines.append(f"  {'':<16}  {'':>{width}}    {text}")
    return "\n".join(lines)


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
