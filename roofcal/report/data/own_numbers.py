"""Our number for a claim: from the rows of a tidy table that it selects, or from a calibration."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import pandas as pd

from roofcal.claims.ledgers import Entry
from roofcal.claims.schema import Expression, Quantity, Where
from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration
from roofcal.core.statistics import summarise
from roofcal.ops import BY_NAME
from roofcal.report.data.loading import Run
from roofcal.report.data.tidy import ok_rows, tidy_frame

# The standard protocol, where a claim says nothing else.
PROTOCOL: Final[Where] = {
    "method": "graph",
    "cache": "cold",
    "distribution": "normal",
    "repeat": 0,
    "world_size": 1,
}


class NotHere(Exception):  # noqa: N818 (a state of a claim, not an error of the program)
    """Why a claim cannot be tested on these records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """Our number with its 95 % interval, in the unit of the quantity, and where it comes from."""

    value: float
    low: float
    high: float
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a run knows; frame: the tidy table of an op, None for an op without a plan."""

    device: str
    frame: Callable[[str], pd.DataFrame | None]
    calibration: Calibration | None
    spec: DeviceSpec | None

    @property
    def sheet(self) -> DeviceSpec:
        """The datasheet; raises NotHere without one."""
        if self.spec is None:
            raise NotHere(f"needs a datasheet, and config/devices has none of {self.device}")
        return self.spec


def known_of(run: Run, spec: DeviceSpec | None) -> Known:
    """What a run knows; its tidy tables are made when they are asked for, each once."""

    @cache
    def frame(op: str) -> pd.DataFrame | None:
        return tidy_frame(run, op, spec) if op in run.ops else None

    device = run.environment.device
    return Known(device=device, frame=frame, calibration=run.calibration, spec=spec)


def our_number(entry: Entry, test: Expression, known: Known, points: Where, base: Where) -> Ours:
    """The quantity of a test; `points` select what it is of, `base` what a speed-up is over.

    Raises NotHere, saying what is missing.
    """
    if test.constant:
        return _constant(test.constant, test.quantity, known)
    rows = _rows(entry, known, points)
    if test.quantity == "speedup":
        return _ratio(_fastest(test, rows), _fastest(test, _rows(entry, known, base)))
    numbers = [_number(test, row, known) for row in rows]
    if test.pick == "median":
        middle = summarise([number.value for number in numbers])
        basis = f"median of {len(rows)} points"
        low, high = middle.ci95_low, middle.ci95_high
        return Ours(value=middle.median, low=low, high=high, basis=basis)
    return numbers[rows.index(_fastest(test, rows))]


Row = dict[str, Any]


def _constant(name: str, quantity: Quantity, known: Known) -> Ours:
    constants = known.calibration.constants if known.calibration else {}
    if name not in constants:
        raise NotHere(f"the calibration of this run has no {name}")
    found = constants[name]
    scale = 1e6 if quantity == "time_us" else 1 / _bandwidth(quantity, known.sheet)
    return Ours(
        value=found.value * scale,
        low=found.ci95_low * scale,
        high=found.ci95_high * scale,
        basis=f"calibrated constant {name}",
    )


def _bandwidth(quantity: Quantity, sheet: DeviceSpec) -> float:
    if quantity == "fraction_of_bandwidth":
        return sheet.dram_bytes_per_s
    if sheet.link_bytes_per_s is None:
        raise NotHere(f"config/devices/{sheet.device}.yaml states no link_gb_per_s")
    return sheet.link_bytes_per_s


def _rows(entry: Entry, known: Known, points: Where) -> list[Row]:
    """Rows with a time among those that `points` selects; raises NotHere where there is none."""
    op = str(entry.test.op if entry.test else None)
    if entry.awaited:
        raise NotHere(f"op {op} is not built yet")
    frame = known.frame(op)
    if frame is None:
        raise NotHere(f"op {op} is not among the records of this device")
    chosen = pd.Series(data=True, index=frame.index)
    for column, value in (PROTOCOL | points).items():
        chosen &= frame[column] == value
    found = frame[chosen]
    if found.empty:
        said = ", ".join(f"{column} {value}" for column, value in points.items())
        raise NotHere(f"no point of {op} with {said}")
    timed = ok_rows(found)
    if timed.empty:
        row = _as_dicts(found)[0]
        raise NotHere(f"{_named(row)}: {row['status']}: {row['reason']}")
    return _as_dicts(timed)


def _as_dicts(frame: pd.DataFrame) -> list[Row]:
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]


def _fastest(test: Expression, rows: list[Row]) -> Row:
    """The one row of a test that means one, the best of a test that means the best.

    All rows of one shape have the same work, so the highest rate of one is its shortest time.
    """
    if len(rows) > 1 and test.pick == "only":
        which = "; ".join(_named(row) for row in rows)
        raise NotHere(f"the claim means one point, and there are {which}")
    if test.quantity in ("tflops", "fraction_of_peak"):
        return max(rows, key=lambda row: float(row["flops"] / row["median_s"]))
    if test.quantity == "fraction_of_bandwidth":
        return max(rows, key=lambda row: float(row["dram_bytes"] / row["median_s"]))
    return min(rows, key=lambda row: float(row["median_s"]))


def _ratio(row: Row, base: Row) -> Ours:
    """Time of `base` over time of `row`; the far ends of both intervals, so it covers as often."""
    return Ours(
        value=base["median_s"] / row["median_s"],
        low=base["ci95_low_s"] / row["ci95_high_s"],
        high=base["ci95_high_s"] / row["ci95_low_s"],
        basis=f"{_contender(row)} against {_contender(base)}, {_sizes(row)}",
    )


def _number(test: Expression, row: Row, known: Known) -> Ours:
    times = (row["median_s"], row["ci95_low_s"], row["ci95_high_s"])
    if test.quantity == "time_us":
        value, low, high = (float(seconds) * 1e6 for seconds in times)
    else:
        value, high, low = (_work(test, row, known) / float(seconds) for seconds in times)
    return Ours(value=value, low=low, high=high, basis=_named(row))


def _work(test: Expression, row: Row, known: Known) -> float:
    """What divided by seconds gives the quantity."""
    if test.quantity == "tflops":
        return float(row["flops"]) / 1e12
    if test.quantity == "fraction_of_bandwidth":
        return float(row["dram_bytes"]) / known.sheet.dram_bytes_per_s
    return float(row["flops"]) / _peak(row, known)


def _peak(row: Row, known: Known) -> float:
    op = BY_NAME[row["op"]]
    dtype = op.work(row["recipe"], {axis: int(row[axis]) for axis in op.axes}).math_dtype
    rate = known.sheet.peak_flops_per_s.get(str(dtype))
    if rate is None:
        raise NotHere(f"the datasheet of {known.device} has no rate of {dtype}")
    return rate


def _named(row: Row) -> str:
    return f"{_contender(row)}, {_sizes(row)}"


def _contender(row: Row) -> str:
    how = "" if row["distribution"] == "normal" else f" on {row['distribution']}"
    return f"{row['recipe']} by {row['provider']}{how}"


def _sizes(row: Row) -> str:
    return " x ".join(f"{row[axis]:,}" for axis in BY_NAME[row["op"]].axes)
