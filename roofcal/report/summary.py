"""The first page: plain sentences with numbers that come from the tables."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pandas as pd

from roofcal.core.dtypes import BITS
from roofcal.core.recipes import RECIPES
from roofcal.ops import BY_NAME
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.audit import worst_factor
from roofcal.report.data.prediction_errors import ALL, error_of, judged, providers_in
from roofcal.report.data.quality import busy_fraction, wall_seconds
from roofcal.report.data.tidy import MODEL, ok_rows
from roofcal.report.data.verdicts import summary
from roofcal.report.kit.blocks import Check
from roofcal.report.kit.numbers import count_of, duration, is_missing, percent, scaled, times

_ALARMING: Final = ("failed", "timeout", "incorrect", "out_of_memory", "not_reached")
_DRIFT: Final = 0.02
_LONG_S: Final = 1e-4


def sentences(a: Analysis) -> list[str]:
    """What was measured, what it does, what low precision buys, how wrong models and claims are."""
    return [s for part in (_measured, _ceilings, _gains, _errors, _claims) for s in part(a)]


def _measured(a: Analysis) -> Iterator[str]:
    ops = [op for op, frame in a.frames.items() if len(frame)]
    where = "Published records" if a.run.origin == "published" else "Measured"
    seconds, busy = wall_seconds(a.every_session), busy_fraction(a.every_session)
    took = f" in {duration(seconds)}" if seconds else ""
    device = f", the device busy {percent(busy, 0)} of it" if busy is not None else ""
    untimed = f", {a.ok - a.timed:,} an accuracy without one" if a.ok > a.timed else ""
    yield (
        f"{where}: {count_of(a.points, 'point')} of {count_of(len(ops), 'op')} "
        f"({', '.join(ops)}){took}{device}. {a.timed:,} have a time{untimed}."
    )


def _claims(a: Analysis) -> Iterator[str]:
    if a.claims:
        yield f"Of {count_of(len(a.claims), 'published claim')} {summary(a.claims)}."


def _ceilings(a: Analysis) -> Iterator[str]:
    calibration = a.run.calibration
    if calibration is None:
        yield "Nothing is calibrated: the run has no calibration.jsonl, so no model is judged here."
        return
    rows = a.constants[a.constants["name"].str.endswith(".ceiling_flops_per_s")]
    ordered = rows.sort_values("value", ascending=False).to_dict("records")
    named = [r for n, r in enumerate(ordered) if n == 0 or r["name"].split(".")[-2] == "bf16"]
    parts = [
        f"{scaled(row['value'], 'flop/s')} in {_recipe_of(row)}{_of_datasheet(row['fraction'])}"
        for row in named
    ]
    if parts:
        yield f"Its fastest probe, settled, ran at {'; '.join(parts)}."
    copy = a.constants[a.constants["name"] == "dram_copy_bytes_per_s"]
    for row in copy.to_dict("records"):
        yield f"Memory copies at {scaled(row['value'], 'B/s')}{_of_datasheet(row['fraction'])}."


def _recipe_of(row: Mapping[Any, Any]) -> str:
    """`bf16 by cublaslt`, of a constant `gemm.<provider>.<recipe>.<constant>`."""
    _, *provider, recipe, _ = str(row["name"]).split(".")
    return " by ".join([recipe, *provider])


def _of_datasheet(fraction: float) -> str:
    return "" if is_missing(fraction) else f" ({percent(fraction, 0)} of the datasheet)"


def narrower(op: str) -> list[str]:
    """Recipes of an op whose weights have fewer bits than those of its baseline."""
    baseline = BY_NAME[op].baseline_recipe
    several_products = BY_NAME[op].written_recipe is not None  # a linear: and its casts count
    if baseline is None or baseline not in RECIPES or several_products:
        return []
    bits = BITS[RECIPES[baseline].b.dtype]
    return [r for r in BY_NAME[op].recipes if BITS[RECIPES[r].b.dtype] < bits]


def _gains(a: Analysis) -> Iterator[str]:
    """One sentence per narrow number format: the recipe that gains most, and where it loses.

    Not of points that several devices share: their providers are compared in a part of their own.
    """
    for op, table in a.speedups.items():
        if BY_NAME[op].shared_axis:
            continue
        formats: dict[str, list[str]] = {}
        for recipe in narrower(op):
            formats.setdefault(_format(recipe), []).append(recipe)
        for name, recipes in formats.items():
            rows = table[table["recipe"].isin(recipes)]
            if len(rows):
                yield _gain(op, rows, name, str(BY_NAME[op].baseline_recipe))


def _format(recipe: str) -> str:
    """The number format of a recipe's weights, without its variant: fp8, int4."""
    return RECIPES[recipe].b.dtype.partition("_")[0]


def fastest(speedups: pd.DataFrame) -> tuple[str, str, float]:
    """(recipe, provider, median speed-up) of the pair with the highest median.

    Of pairs on half as many shapes as the one with most of them, at least: others are compared at
    shapes chosen for them.
    """
    pairs = speedups.groupby(["recipe", "provider"])["speedup"]
    medians = pairs.median()[2 * pairs.count() >= pairs.count().max()]
    recipe, provider = list(medians.index)[int(medians.to_numpy().argmax())]
    return str(recipe), str(provider), float(medians.max())


def _gain(op: str, rows: pd.DataFrame, name: str, baseline: str) -> str:
    large = rows[rows["regime"] == "large"]
    recipe, provider, _ = fastest(large if len(large) else rows)
    best = rows[(rows["recipe"] == recipe) & (rows["provider"] == provider)]
    whose = f" by {provider}" if rows["provider"].nunique() > 1 else ""
    parts = []
    for regime in ("large", "decode"):
        some = best.loc[best["regime"] == regime, "speedup"]
        if len(some):
            products = count_of(len(some), f"{regime} product")
            parts.append(f"{float(some.median()):.2f} times at {products}")
    if not parts:
        parts.append(f"{float(best['speedup'].median()):.2f} times")
    slower = int((best["speedup_high"] < 1).sum())
    return (
        f"In {name} the best recipe of {op} is {recipe}{whose}, with the speed of {baseline} "
        f"{' and '.join(parts)} (medians, casts not counted); it is slower than {baseline} at "
        f"{slower} of {count_of(len(best), 'shape')}."
    )


def _errors(a: Analysis) -> Iterator[str]:
    for op in dict.fromkeys(a.errors["op"]) if len(a.errors) else ():
        row = error_of(a.errors, MODEL, op=op)
        if row is None:
            continue
        if not (a.frames[op]["flops"] > 0).any():
            yield _of_roof(a.frames[op], op)
        yield (
            f"The calibrated model's time of {op} is off by {percent(row['mape'])} on average over "
            f"{count_of(int(row['count']), 'point')} (median {percent(row['median_abs_error'])}, "
            f"95th percentile {percent(row['p95_abs_error'])}; "
            f"{percent(row['coverage'], 0)} inside their 95 % intervals); {_worst_regime(a, op)}"
            f"{_by_provider(a, op)}{_others(a, op)}."
        )


def _of_roof(frame: pd.DataFrame, op: str) -> str:
    """How close the providers of an op that computes nothing come to the memory roof."""
    rows = judged(frame)
    share = (rows["calibrated_bound_s"] / rows["median_s"]).groupby(rows["provider"]).median()
    parts = [f"{percent(value, 0)} with {name}" for name, value in share.items()]
    return f"Of the calibrated memory roof, {op} reaches {', '.join(parts)} (medians)."


def _worst_regime(a: Analysis, op: str) -> str:
    chosen = (a.errors["op"] == op) & (a.errors["model"] == MODEL)
    chosen &= (a.errors["recipe"] == ALL) & (a.errors["regime"] != ALL)
    chosen &= a.errors["provider"] == ALL
    rows = a.errors[chosen].sort_values("mape")
    last = rows.iloc[-1]
    return f"worst regime {last['regime']}, {percent(last['mape'])}"


def _by_provider(a: Analysis, op: str) -> str:
    """Its error by provider, where an op has several."""
    rows = {p: error_of(a.errors, MODEL, op=op, provider=p) for p in providers_in(a.errors, op)}
    parts = [f"{name} {percent(row['mape'])}" for name, row in rows.items() if row is not None]
    return f"; by provider: {', '.join(parts)}" if parts else ""


def _others(a: Analysis, op: str) -> str:
    names = {
        "torchao": "torchao's formula",
        "wave": "the wave model",
        "datasheet": "the datasheet's roofline",
    }
    names |= {model: f"the model {label}" for model, label in a.labels.items()}
    found = {name: error_of(a.errors, model, op=op) for model, name in names.items()}
    parts = [f"{name} {percent(row['mape'])}" for name, row in found.items() if row is not None]
    return f". For comparison: {', '.join(parts)}" if parts else ""


def checks(a: Analysis) -> list[Check]:
    """Everything that could be suspicious, and whether it is."""
    parts = (_roof_checks, _status_checks, _drift_checks, _clock_checks, _provenance_checks)
    return [check for part in parts for check in part(a)]


def _roof_checks(a: Analysis) -> Iterator[Check]:
    table = a.violations
    normal = table[table["distribution"] == "normal"] if len(table) else table
    hard = worst_factor(table, "datasheet") if len(table) else None
    soft = worst_factor(normal, "calibrated") if len(normal) else None
    if a.spec is None:
        yield Check(
            state="note", text=f"There is no datasheet of {a.device} to hold times against."
        )
    elif hard is None:
        yield Check(state="ok", text="No cold point is faster than its datasheet allows.")
    else:
        count = int((table["bound"] == "datasheet").sum())
        text = f"{count_of(count, 'point is', 'points are')} faster than the datasheet allows, "
        yield Check(state="look", text=f"{text}by up to {times(hard)}: see the violation audit.")
    if soft is not None:
        count = int((normal["bound"] == "calibrated").sum())
        yield Check(
            state="look" if soft > 1.1 else "note",
            text=f"{count_of(count, 'point')} ran faster than the calibrated ceilings, by up to "
            f"{times(soft)}: the probes did not reach what these shapes reach.",
        )
    elif a.run.calibration is not None:
        yield Check(state="ok", text="No cold point is faster than the calibrated ceilings.")


def _status_checks(a: Analysis) -> Iterator[Check]:
    counts = a.missing["status"].value_counts().to_dict() if len(a.missing) else {}
    if not counts:
        yield Check(state="ok", text="Every planned point was measured.")
        return
    words = ", ".join(f"{count:,} {str(name).replace('_', ' ')}" for name, count in counts.items())
    alarming = any(name in counts for name in _ALARMING)
    text = f"{count_of(len(a.missing), 'point has', 'points have')} no time: {words}."
    yield Check(state="look" if alarming else "note", text=text)


def _drift_checks(a: Analysis) -> Iterator[Check]:
    for row in a.quality.to_dict("records"):
        drift = row["drift_fraction"]
        if not is_missing(drift):
            text = f"The repeated sentinel of {row['op']} stayed within {percent(drift)}."
            yield Check(state="look" if drift > _DRIFT else "ok", text=text)
        narrow = row["narrow_fraction"]
        if not is_missing(narrow) and narrow < 0.9:
            yield Check(
                state="note",
                text=f"Of {row['op']}, {percent(1 - narrow, 0)} of the medians are known less well "
                "than to 1 %.",
            )


def _clock_checks(a: Analysis) -> Iterator[Check]:
    """What the power limit does: burst against settled, and how often the card said so."""
    frame = a.frames.get("gemm")
    rows = ok_rows(frame) if frame is not None else pd.DataFrame()
    if rows.empty or not rows["sm_clock_hz"].notna().any():
        return
    long = rows[(rows["median_s"] >= _LONG_S) & rows["burst_median_s"].notna()]
    throttled = float(rows["throttle_reasons"].notna().mean())
    text = (
        f"The card named a reason to clock down during {percent(throttled, 0)} of the gemm points."
    )
    if len(long):
        slower = float((long["median_s"] / long["burst_median_s"] - 1).median())
        text += (
            f" Products of 100 \N{MICRO SIGN}s and more are {percent(slower)} slower once settled "
            "than in their first milliseconds (median); all times here are settled ones."
        )
    yield Check(state="note", text=text)


def _provenance_checks(a: Analysis) -> Iterator[Check]:
    if any(session.git_dirty for session in a.every_session):
        yield Check(state="look", text="Measured from a checkout with uncommitted changes.")
    cards = [
        tuple(op for op, some in a.sessions.items() if any(card in s.cards for s in some))
        for card in dict.fromkeys(card for s in a.every_session for card in s.cards)
    ]
    if len(cards) > 1:
        ops = "; ".join(
            f"{', '.join(names)} on {'one' if count == 1 else count}"
            for names, count in Counter(cards).items()
        )
        yield Check(
            state="look",
            text=f"Measured on {len(cards)} cards of this model ({ops}): cards differ by a few %, "
            "which the error of the predictions contains.",
        )
    hashes = {(session.op, session.code_hash) for session in a.every_session}
    if len(hashes) > len({op for op, _ in hashes}):
        text = "The sessions of one op ran different measuring code."
        yield Check(state="look", text=text)
