"""All that differs between two runs, as JSON values.

Beside the times of points: statuses, kernels, winners, versions, and what is derived from runs,
constants and break-even points.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pandas as pd

from roofcal.compare.observations import CompareError, ObservedRun, in_both, observe
from roofcal.compare.point_changes import MOVED, Rows, compare_points, same_measurements
from roofcal.core.jsonl import read_single_record
from roofcal.core.paths import RunFolder
from roofcal.core.records import CODE, Calibration, PlanPoint
from roofcal.core.statistics import MATTERS
from roofcal.core.visits.differences import error_of_difference, time_ratio
from roofcal.core.visits.intervals import HOLDS
from roofcal.ops import BY_NAME
from roofcal.ops.constants import family_of_constant
from roofcal.points.columns import PROTOCOL

# What a comparison ends in, with the exit code of the command.
OUTCOMES: Final = {"no regression": 0, "regression": 1, "nothing compared": 2}
VERDICTS: Final = (*MOVED, "SAME", "AMBIGUOUS")
_OF_CARDS: Final = ("clock", "state")  # causes that are no fault of the software
_LINEAR: Final = ["recipe", "pass", "casts", "n", "k"]  # columns that name a linear
_PARTS: Final = {"": "value", "_low": "ci95_low", "_high": "ci95_high"}  # of a constant
_ENDS: Final = ("breakeven_m", "breakeven_m_low", "breakeven_m_high")  # of a break-even map


def compare(
    a: RunFolder, b: RunFolder, threshold: float = MATTERS, limit: float | None = None
) -> dict[str, Any]:
    """What moved from run A to run B.

    `outcome` is one of OUTCOMES, and `conclusion` says why in a sentence. A point that was ok in A
    and is not in B is a regression; one that B does not plan is none, it was left out on purpose.

    Args:
        a: the earlier run.
        b: the later run.
        threshold: a change of time below it, a fraction, does not matter.
        limit: a larger slowdown is a regression (default: the threshold), of a point after the
            common shift or of the common shift of a group. A slowdown that the clock explains is no
            regression: another card or power limit is no fault of the software.

    Raises:
        CompareError: a folder is no run.
        RecordsError: a file of records is bad.
    """
    limit = threshold if limit is None else limit
    run_a, run_b = observe(a), observe(b)
    pairs = in_both(run_a, run_b)
    points, shifts = compare_points(pairs, threshold)
    # slower points first, the slowest on top; then faster ones, then the others as planned
    moved = [row for row in points if row["verdict"] in MOVED]
    moved.sort(key=lambda row: (MOVED.index(row["verdict"]), -abs(row["change"])))
    ordered = [*moved, *(row for row in points if row["verdict"] not in MOVED)]
    rows = [
        point_label(row["point"])
        | {name: value for name, value in row.items() if name != "point"}
        | {"point_id": row["point"].point_id}
        for row in ordered
    ]
    slower = [row for row in points if row["verdict"] == "SLOWER" and row["cause"] not in _OF_CARDS]
    fields_b = asdict(run_b.environment)
    on_other_card = pairs[pairs["other_card"]]
    cards = {end: frozenset[str]().union(*on_other_card[f"cards_{end}"]) for end in "ab"}
    counts = {
        key: {name: sum(row[field] == name for row in points) for name in VERDICTS}
        for key, field in (("counts", "verdict"), ("counts_raw", "verdict_raw"))
    }
    comparison = {
        "a": _run_summary(run_a),
        "b": _run_summary(run_b),
        "threshold": threshold,
        "limit": limit,
        "other_cards": {
            end: sorted({*",".join(of).split(",")} - {""}) for end, of in cards.items()
        },
        "same_measurements": same_measurements(pairs),
        "environment": [
            {"field": name, "a": value, "b": fields_b[name]}
            for name, value in asdict(run_a.environment).items()
            if value != fields_b[name]
        ],
        "shifts": shifts,
        **counts,
        "points": rows,
        "regressions": [row["point"].point_id for row in slower if row["change"] > limit],
        "regressed_groups": [
            row["group"] for row in shifts if row["low"] > limit and row["cause"] not in _OF_CARDS
        ],
        **unlike_points(run_a, run_b, pairs, threshold),
        "constants": moved_constants(a, b, threshold),
        "breakeven": moved_breakevens(a, b),
    }
    outcome, conclusion = _outcome(comparison)
    return comparison | {"outcome": outcome, "conclusion": conclusion}


def _outcome(comparison: Mapping[str, Any]) -> tuple[str, str]:
    """One of OUTCOMES, and the sentence that the text begins with."""
    count, lost = len(comparison["points"]), comparison["lost"]
    beyond = f"by more than {comparison['limit']:.1%}"
    regressed = {*comparison["regressions"]}
    slower = [row for row in comparison["points"] if row["point_id"] in regressed]
    groups = [
        f"{row['group']} ({row['shift']:+.1%})"
        for row in comparison["shifts"]
        if row["group"] in comparison["regressed_groups"]
    ]
    faults = []
    if slower:
        worst = slower[0]
        faults.append(
            f"is slower {beyond} on {len(slower)} of {points_text(count)}, at most by "
            f"{worst['change']:.1%} (95 %: {worst['low']:.1%} to {worst['high']:.1%})"
        )
    if groups:
        faults.append(f"is slower {beyond} as a whole on {'; '.join(groups)}")
    if lost:
        counted = ", ".join(f"{count} {status}" for status, count in lost.items())
        faults.append(f"lacks {points_text(sum(lost.values()))} that are ok in A: {counted}")
    if faults:
        cards = ""
        if any(comparison["other_cards"].values()) and (slower or groups):
            cards = "; it ran on other cards than A, so this may be the card, not the software"
        return "regression", f"B {', and '.join(faults)}{cards}"
    left_out = ", ".join(comparison["left_out"])
    without = f", without {left_out}, which B does not plan" if left_out else ""
    if not count:
        same = comparison["same_measurements"]
        why = "no point has a time of two turns or more in both"
        if empty := [name.upper() for name in ("a", "b") if not comparison[name]["points"]]:
            why = f"{empty[0]} has no samples"
        elif len(comparison["disappeared"]) == comparison["a"]["points"]:
            why = "no point in common"
        elif same:
            why = f"{same} points are the same measurements in both, and no other has times in both"
        return "nothing compared", f"nothing can be compared: {why}{without}"
    limit, rows = comparison["limit"], comparison["points"]
    of_card = [row for row in rows if row["cause"] in _OF_CARDS and row["low"] > limit]
    excepted = [points_text(len(of_card))] if of_card else []
    excepted += [
        f"{row['group']} as a whole ({row['shift']:+.1%})"
        for row in comparison["shifts"]
        if row["cause"] in _OF_CARDS and row["low"] > limit
    ]
    of_clock = f" but for {'; '.join(excepted)}, by the clock or a state of the card"
    unsure = sum(row["verdict"] == "AMBIGUOUS" and row["high"] > limit for row in rows)
    wide = f"; the intervals of {unsure} of {points_text(count)} are too wide to tell"
    said = f"B is nowhere certainly slower {beyond}{without}{of_clock if excepted else ''}"
    return "no regression", f"{said}{wide if unsure else ''}"


def points_text(count: int) -> str:
    """How many points, as 1,117 points."""
    return f"{count:,} point{'s' * (count != 1)}"


def _run_summary(run: ObservedRun) -> dict[str, Any]:
    """What a run is; `intervals`: what the intervals of its points hold, and of how many."""
    bases = (interval.basis for interval in run.measured["interval"] if interval is not None)
    return {
        "device": run.environment.device,
        "environment": run.environment.environment_id,
        "folder": run.folder.as_posix(),
        "cards": list(run.cards),
        "points": len(run.measured),
        "intervals": dict(Counter(HOLDS[basis] for basis in bases)),
    }


def point_label(point: PlanPoint) -> dict[str, Any]:
    """What identifies a point to a reader: op, provider, recipe, sizes, protocol, repeat."""
    return {
        "op": point.op,
        "provider": point.provider,
        "recipe": point.recipe,
        "shape": dict(point.shape),
        "protocol": " ".join(getattr(point.protocol, name) for name in PROTOCOL),
        "repeat": point.repeat,
    }


def _labelled(table: pd.DataFrame, point: str, *names: str) -> Rows:
    """What names the points of a column, and the values of other columns."""
    return [
        point_label(of_row) | dict(zip(names, values, strict=True))
        for of_row, *values in table[[point, *names]].itertuples(index=False)
    ]


def unlike_points(
    a: ObservedRun, b: ObservedRun, pairs: pd.DataFrame, threshold: float
) -> dict[str, Any]:
    """Points that differ in something else than their time.

    statuses  ok in only one of the runs; those ok in A come first
    lost      status in B -> how many points were ok in A
    left_out  op that B does not plan -> how many of its points are ok in A; {} if B has no samples
    kernels   launched under other names; points of which one run noted no name are left out
    winners   see changed_winners
    appeared, disappeared  measured, with whatever result, in B or in A alone
    """
    changed = pairs[pairs["status_a"] != pairs["status_b"]]
    statuses = _labelled(changed, "point_a", "status_a", "status_b")
    planned = {point.op for point in b.points["point"]}
    ok_ops = (point.op for point in a.points["point"][a.points["status"] == "ok"])
    kernels = [
        row | {name: list(row[name]) for name in ("kernels_a", "kernels_b")}
        for row in _labelled(pairs, "point_a", "kernels_a", "kernels_b")
        if row["kernels_a"] and row["kernels_b"] and row["kernels_a"] != row["kernels_b"]
    ]
    appeared = b.measured[~b.measured.index.isin(a.points.index)]
    disappeared = a.measured[~a.measured.index.isin(b.points.index)]
    return {
        "statuses": sorted(statuses, key=lambda row: str(row["status_a"]) != "ok"),
        "lost": dict(Counter(row["status_b"] for row in statuses if row["status_a"] == "ok")),
        "left_out": dict(Counter(op for op in ok_ops if planned and op not in planned)),
        "kernels": kernels,
        "winners": changed_winners(pairs, threshold),
        "appeared": _labelled(appeared, "point", "status"),
        "disappeared": _labelled(disappeared, "point", "status"),
    }


def changed_winners(pairs: pd.DataFrame, threshold: float) -> Rows:
    """Shapes and protocols whose fastest provider and recipe is another one in B.

    Contenders do the same work, and have a time in both runs. `clear` where in both runs the
    winner leads the other run's winner by more than `threshold`, with its whole interval; else the
    two were, or are, about as fast. Clear ones come first.
    """
    groups: dict[tuple[str, str], Rows] = {}
    for point, a, b in pairs[["point_a", "interval_a", "interval_b"]].itertuples(index=False):
        spec = BY_NAME[point.op]
        if point.provider not in spec.partial and a is not None and b is not None:
            # Recipes contend where an op has a baseline: they are products of the same matrices in
            # other formats. Else they do different work, such as reading and writing.
            recipes_contend = BY_NAME[spec.folder].baseline_recipe is not None
            work = point.group_key, "" if recipes_contend else point.recipe
            groups.setdefault(work, []).append({"point": point, "a": a, "b": b})
    rows = []
    for contenders in groups.values():
        first, then = (min(contenders, key=lambda row: row[end].median) for end in "ab")
        if first is then:
            continue
        label = point_label(first["point"])
        lead_a = time_ratio(then["a"].ends, first["a"].ends)
        lead_b = time_ratio(first["b"].ends, then["b"].ends)
        rows.append(
            {key: label[key] for key in ("op", "shape", "protocol", "repeat")}
            | {
                "winner_a": f"{first['point'].provider} {first['point'].recipe}",
                "winner_b": f"{then['point'].provider} {then['point'].recipe}",
                "lead_a": float(lead_a.ratio) - 1,
                "lead_b": float(lead_b.ratio) - 1,
                "clear": lead_a.is_slower(threshold) and lead_b.is_slower(threshold),
            }
        )
    return sorted(rows, key=lambda row: not row["clear"])


def moved_constants(a: RunFolder, b: RunFolder, threshold: float) -> Rows | None:
    """Constants whose difference has a 95 % interval without 0, and is above `threshold` of A's.

    None where a run has no calibration. Of a hundred constants about five move by chance. The
    largest changes come first, then choices that changed (`choice_a`, `choice_b`, without a
    `change`), then constants of only one calibration (None in the other).
    """
    files = [run.calibration_file for run in (a, b)]
    if not all(file.is_file() for file in files):
        return None
    both = [read_single_record(file, Calibration).constants for file in files]
    rows = []
    for name in sorted({*both[0], *both[1]}):
        ends = dict(zip("ab", (constants.get(name) for constants in both), strict=True))
        row: dict[str, Any] = {"constant": name, "unit": next(c.unit for c in ends.values() if c)}
        row |= {f"choice_{end}": c and family_of_constant(name, c) for end, c in ends.items()}
        for end, constant in ends.items():
            row |= {f"{end}{part}": constant and getattr(constant, f) for part, f in _PARTS.items()}
        change, moved = None, True
        if None not in ends.values():
            if row["unit"] == CODE:  # names have no distance
                moved = row["a"] != row["b"]
            else:
                change = row["b"] / row["a"] - 1 if row["a"] else None
                below, above = error_of_difference(
                    *([row[f"{end}{part}"] for part in _PARTS] for end in "ba")
                )
                is_small = change is not None and abs(change) < threshold
                moved = not is_small and not -above <= row["b"] - row["a"] <= below
        if moved:
            clear = change is None or row["a_high"] < row["b_low"] or row["b_high"] < row["a_low"]
            rows.append(row | {"change": change, "clear": clear})
    return sorted(
        rows,
        key=lambda r: (None in (r["a"], r["b"]), r["change"] is None, -abs(r["change"] or 0.0)),
    )


def moved_breakevens(a: RunFolder, b: RunFolder) -> Rows | None:
    """Linears of both maps whose break-even M has another best estimate, M None for never.

    None where a run has no map. `clear` where the 95 % intervals do not overlap. Those come first.
    Raises CompareError for a file that is no map.
    """
    if not (a.breakeven_file.is_file() and b.breakeven_file.is_file()):
        return None
    both = _read_breakeven(a.breakeven_file, "a").merge(
        _read_breakeven(b.breakeven_file, "b"), on=_LINEAR
    )
    moved = both[both["m_a"] != both["m_b"]]
    apart = (moved["m_a_high"] < moved["m_b_low"]) | (moved["m_b_high"] < moved["m_a_low"])
    rows = [
        {
            str(name): None if value == math.inf else int(value) if type(value) is float else value
            for name, value in row.items()
        }
        for row in moved.assign(clear=apart).to_dict("records")
    ]
    return sorted(rows, key=lambda row: not row["clear"])


def _read_breakeven(path: Path, end: str) -> pd.DataFrame:
    """m_<end> and its low and high end (infinity for never) of every linear of a map."""
    try:
        table = pd.read_csv(
            path,
            usecols=[*_LINEAR, *_ENDS],
            dtype={"n": int, "k": int, **dict.fromkeys(_ENDS, float)},
            keep_default_na=False,
            na_values={name: [""] for name in _ENDS},
        )
    except ValueError as error:  # those of pandas are such, too
        raise CompareError(
            f"{path}: a line is no row of a break-even map ({error}); delete the file and run "
            "`make study` again"
        ) from None
    table = table[[*_LINEAR, *_ENDS]].fillna(math.inf).drop_duplicates(_LINEAR, keep="last")
    return table.rename(columns=lambda name: name.replace("breakeven_m", f"m_{end}"))
