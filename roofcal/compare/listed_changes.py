"""What a comparison lists beside the times of points.

Statuses, kernels, winners, versions, and what is derived from runs: constants, break-even points.
"""

import csv
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from roofcal.compare.observations import NOT_MEASURED, CompareError, ObservedRun, in_both
from roofcal.core.jsonl import read_single_record
from roofcal.core.paths import RunFolder
from roofcal.core.records import CODE, Calibration, Ceiling, PlanPoint
from roofcal.core.visits.differences import error_of_difference, time_ratio
from roofcal.core.visits.intervals import PointInterval
from roofcal.ops import BY_NAME
from roofcal.ops.constants import family_of_constant

_LINEAR: Final = ("recipe", "pass", "casts", "n", "k")  # columns that name a linear
_ENDS: Final = ("breakeven_m", "breakeven_m_low", "breakeven_m_high")

Linear = tuple[str, ...]
Interval = tuple[float, float, float]  # best estimate and ends, infinity for never
_TimedPair = tuple[PlanPoint, PointInterval, PointInterval]  # a point, its time in A and in B


def point_label(point: PlanPoint) -> dict[str, Any]:
    """What names a point: op, provider, recipe, sizes, protocol, repeat."""
    protocol = (point.protocol.method, point.protocol.cache, point.protocol.distribution)
    return {
        "op": point.op,
        "provider": point.provider,
        "recipe": point.recipe,
        "shape": dict(point.shape),
        "protocol": " ".join(protocol),
        "repeat": point.repeat,
    }


def only_in(run: ObservedRun, other: ObservedRun) -> list[dict[str, Any]]:
    """Points that were measured, with whatever result, in one run and not in the other."""
    return [
        point_label(observation.point) | {"status": observation.status}
        for key, observation in run.points.items()
        if key not in other.points and observation.status != NOT_MEASURED
    ]


def left_out_ops(a: ObservedRun, b: ObservedRun) -> dict[str, int]:
    """Ops that B does not plan -> how many points of each are ok in A; {} if B has no samples."""
    planned = {observation.point.op for observation in b.points.values()}
    ok_ops = (o.point.op for o in a.points.values() if o.status == "ok")
    return dict(Counter(op for op in ok_ops if planned and op not in planned))


def changed_statuses(a: ObservedRun, b: ObservedRun) -> list[dict[str, Any]]:
    """Points that are ok in one run and, say, unsupported in the other; those ok in A first."""
    rows = [
        point_label(x.point) | {"status_a": x.status, "status_b": y.status}
        for x, y in in_both(a, b)
        if x.status != y.status
    ]
    return sorted(rows, key=lambda row: str(row["status_a"]) != "ok")


def renamed_kernels(a: ObservedRun, b: ObservedRun) -> list[dict[str, Any]]:
    """Points whose kernels have other names. Points of which one run noted no name are left out."""
    return [
        point_label(x.point)
        | {"kernels_a": list(x.kernel_names), "kernels_b": list(y.kernel_names)}
        for x, y in in_both(a, b)
        if x.kernel_names and y.kernel_names and x.kernel_names != y.kernel_names
    ]


def changed_winners(a: ObservedRun, b: ObservedRun, threshold: float) -> list[dict[str, Any]]:
    """Shapes and protocols whose fastest provider and recipe is another one in B.

    Contenders do the same work, and have a time in both runs. `clear` where in both runs the
    winner leads the other run's winner by more than `threshold`, with its whole interval; else the
    two were, or are, about as fast. Clear ones come first.
    """
    groups: dict[tuple[str, str], list[_TimedPair]] = {}
    for x, y in in_both(a, b):
        work = _same_work(x.point)
        if work is not None and x.time is not None and y.time is not None:
            groups.setdefault(work, []).append((x.point, x.time, y.time))
    rows = [row for pairs in groups.values() if (row := _changed_winner(pairs, threshold))]
    return sorted(rows, key=lambda row: not row["clear"])


def _same_work(point: PlanPoint) -> tuple[str, str] | None:
    """Equal for points that do the same work in turns; None for a provider of a part of an op.

    Recipes of an op with a baseline do: products of the same matrices in other formats. Those of
    the others do not: reading, writing and copying, or casts with other scales.
    """
    spec = BY_NAME[point.op]
    if point.provider in spec.partial:
        return None
    does_the_same = BY_NAME[spec.folder].baseline_recipe is not None
    return point.group_key, "" if does_the_same else point.recipe


def _changed_winner(pairs: list[_TimedPair], threshold: float) -> dict[str, Any] | None:
    """The row of a group of contenders; None where the same one wins in both runs."""
    winner_a = min(pairs, key=lambda pair: pair[1].median)
    winner_b = min(pairs, key=lambda pair: pair[2].median)
    if winner_a is winner_b:
        return None
    lead_a = time_ratio(winner_b[1].ends, winner_a[1].ends)
    lead_b = time_ratio(winner_a[2].ends, winner_b[2].ends)
    label = point_label(winner_a[0])
    winners = {"winner_a": winner_a[0], "winner_b": winner_b[0]}
    return {key: label[key] for key in ("op", "shape", "protocol", "repeat")} | {
        **{name: f"{p.provider} {p.recipe}" for name, p in winners.items()},
        "lead_a": float(lead_a.ratio) - 1,
        "lead_b": float(lead_b.ratio) - 1,
        "clear": lead_a.is_slower(threshold) and lead_b.is_slower(threshold),
    }


def changed_environment(a: ObservedRun, b: ObservedRun) -> list[dict[str, Any]]:
    """Fields of the environment records that differ: driver, torch, power limit ..."""
    fields_b = asdict(b.environment)
    return [
        {"field": name, "a": value, "b": fields_b[name]}
        for name, value in asdict(a.environment).items()
        if value != fields_b[name]
    ]


def read_constants(run: RunFolder) -> Mapping[str, Ceiling] | None:
    """The constants of a run's calibration, None without one; RecordsError for a bad file."""
    path = run.calibration_file
    return read_single_record(path, Calibration).constants if path.is_file() else None


def moved_constants(
    a: Mapping[str, Ceiling], b: Mapping[str, Ceiling], threshold: float
) -> list[dict[str, Any]]:
    """Constants whose difference has a 95 % interval without 0, and is above `threshold` of A's.

    With a hundred constants some five move by chance. The largest changes come first;
    then names that became others (`choice_a`, `choice_b`), which have no `change`; last constants
    of one calibration alone, which have None for the value of the other.
    """
    rows = []
    for name in sorted({*a, *b}):
        row = _constant_row(name, a.get(name), b.get(name))
        is_small = row["change"] is not None and abs(row["change"]) < threshold
        if row["moved"] and not is_small:
            rows.append(row)
    return sorted(
        rows,
        key=lambda row: (
            None in (row["a"], row["b"]),
            row["change"] is None,
            -abs(row["change"] or 0.0),
        ),
    )


def _constant_row(name: str, a: Ceiling | None, b: Ceiling | None) -> dict[str, Any]:
    row: dict[str, Any] = {"constant": name, "unit": next(c.unit for c in (a, b) if c)}
    ends = (("a", a), ("b", b))
    row |= {f"choice_{end}": c and family_of_constant(name, c) for end, c in ends}
    for end, constant in ends:
        row |= {
            end: constant.value if constant else None,
            f"{end}_low": constant.ci95_low if constant else None,
            f"{end}_high": constant.ci95_high if constant else None,
        }
    if a is None or b is None:
        return row | {"change": None, "moved": True}
    if row["unit"] == CODE:  # names have no distance
        return row | {"change": None, "moved": a.value != b.value}
    change = b.value / a.value - 1 if a.value else None
    difference = b.value - a.value
    below, above = error_of_difference(*((c.value, c.ci95_low, c.ci95_high) for c in (b, a)))
    return row | {"change": change, "moved": bool(difference > below or -difference > above)}


def read_breakeven(run: RunFolder) -> dict[Linear, Interval] | None:
    """(M, low, high) of every linear of breakeven.csv, infinity for never; None without a file.

    Raises CompareError for a file that is no such table.
    """
    path = run.breakeven_file
    if not path.is_file():
        return None
    intervals: dict[Linear, Interval] = {}
    with path.open(encoding="utf-8", newline="") as stream:
        try:
            for row in csv.DictReader(stream):
                int(row["n"]), int(row["k"])  # raises here, where the file is still named
                m, low, high = (float(row[name]) if row[name] else math.inf for name in _ENDS)
                intervals[tuple(row[name] for name in _LINEAR)] = m, low, high
        except (KeyError, ValueError, TypeError, UnicodeDecodeError, csv.Error) as error:
            raise CompareError(
                f"{path}: a line is no row of a break-even map ({error}); delete the file and run "
                "`make study` again"
            ) from None
    return intervals


def moved_breakevens(
    a: Mapping[Linear, Interval], b: Mapping[Linear, Interval]
) -> list[dict[str, Any]]:
    """Linears of both maps whose break-even M has another best estimate, M None for never.

    `clear` where the 95 % intervals do not overlap. Those come first.
    """
    rows = []
    for linear in (linear for linear in a if linear in b and a[linear][0] != b[linear][0]):
        row: dict[str, Any] = dict(zip(_LINEAR, linear, strict=True))
        row |= {"n": int(row["n"]), "k": int(row["k"])}
        for end, values in (("a", a[linear]), ("b", b[linear])):
            names = (f"m_{end}", f"m_{end}_low", f"m_{end}_high")
            row |= {
                n: None if math.isinf(v) else int(v) for n, v in zip(names, values, strict=True)
            }
        is_clear = a[linear][2] < b[linear][1] or b[linear][2] < a[linear][1]
        rows.append(row | {"clear": is_clear})
    return sorted(rows, key=lambda row: not row["clear"])
