"""The first page: sentences with numbers that come from the tables, and a line per device."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pandas as pd

from roofcal.core.recipes import RECIPES
from roofcal.ops import BY_NAME
from roofcal.report.data import comparisons, prediction_errors
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.claims import counts_text
from roofcal.report.data.op_pages import headline_op, page_of
from roofcal.report.data.quality import busy_fraction, wall_seconds
from roofcal.report.data.regime_matrices import error_table, gain_table
from roofcal.report.data.roofs import COPY, ceilings, constants_of
from roofcal.report.data.tidy import MODEL
from roofcal.report.kit.blocks import Column, Table, make_table
from roofcal.report.kit.columns import code, count, fraction, number, texts
from roofcal.report.kit.numbers import count_of, duration, is_missing, percent, scaled, times

_OTHER_MODELS: Final = {
    "torchao": "torchao's formula",
    "wave": "the wave model",
    "datasheet": "the datasheet's roofline",
}
_DEVICE_COLUMNS: Final = (
    *texts("device", "records"),
    count("points", "points"),
    count("ok", "ok"),
    number("bf16", "bf16", "TFLOP/s", 1e-12),
    number("best", "fastest", "TFLOP/s", 1e-12),
    number("memory", "copy", "TB/s", 1e-12),
    Column(
        key="gain",
        label="best gain",
        kind="number",
        sort_key="gain_ratio",
        about="highest median speed-up over large products, and its recipe",
    ),
    fraction("mape", "MAPE"),
    count("beyond", "over datasheet"),
    code("environment", "environment"),
)


def device_line(analysis: Analysis) -> dict[str, Any]:
    """The numbers of one run that a reader looks for first; None for a number that it lacks."""
    op, table = headline_op(), analysis.violations
    rates = ceilings(analysis.run.calibration)
    gain = comparisons.best_gain(analysis.speedups.get(op), op)
    error = _library_error(analysis, op)
    copy = constants_of(analysis.run.calibration).get(COPY)
    beyond = int((table["bound"] == "datasheet").sum()) if len(table) else 0
    return {
        "device": analysis.run.environment.device_name,
        "environment": analysis.environment_id,
        "records": analysis.run.origin,
        "points": analysis.points,
        "ok": analysis.ok,
        "bf16": rates.get("bf16"),
        "best": max(rates.values(), default=None),
        "memory": copy.value if copy else None,
        "gain": f"{times(gain[0])} {gain[1]}" if gain else None,
        "gain_ratio": gain[0] if gain else None,
        "mape": None if error is None else float(error["mape"]),
        "beyond": beyond if analysis.spec is not None else None,
    }


def device_table(lines: Sequence[Mapping[str, Any]]) -> Table:
    """The lines of all devices as the first table of the page."""
    frame = pd.DataFrame(list(lines))
    return make_table(frame, _DEVICE_COLUMNS, id="devices", caption="Devices at a glance")


def _library_error(analysis: Analysis, op: str) -> "pd.Series[Any] | None":
    """The error of the op's library, of all providers where they are not told apart."""
    if analysis.errors.empty:
        return None
    providers = prediction_errors.providers_in(analysis.errors, op)
    libraries = [name for name in page_of(op).library_providers if name in providers]
    return prediction_errors.error_of(
        analysis.errors, MODEL, op=op, provider=next(iter(libraries), prediction_errors.ALL)
    )


def summary_tables(analysis: Analysis, anchor: str) -> Iterator[Table]:
    """Speed-ups and errors by regime, of ops with a baseline; `anchor` begins their ids."""
    for op, table in analysis.speedups.items():
        if len(table):
            yield gain_table(table, id=f"{anchor}-gain-{op}")
    for op in analysis.predicted_ops:
        if BY_NAME[op].baseline_recipe:
            errors = prediction_errors.with_model_labels(analysis.errors, analysis.labels)
            yield error_table(errors, op, id=f"{anchor}-error-{op}")


def summary_sentences(analysis: Analysis) -> list[str]:
    """What was measured, what it does, what low precision buys, how wrong models and claims are."""
    parts = (_measured, _ceilings, _gains, _errors, _claims)
    return [sentence for part in parts for sentence in part(analysis)]


def _measured(analysis: Analysis) -> Iterator[str]:
    ops = [op for op, frame in analysis.frames.items() if len(frame)]
    origin = "Published records" if analysis.run.origin == "published" else "Measured"
    sessions = analysis.all_sessions
    seconds, busy = wall_seconds(sessions), busy_fraction(sessions)
    took = f" in {duration(seconds)}" if seconds else ""
    device = f", the device busy {percent(busy, 0)} of it" if busy is not None else ""
    accuracy_only = analysis.ok - analysis.timed
    untimed = f", {accuracy_only:,} an accuracy without one" if accuracy_only else ""
    yield (
        f"{origin}: {count_of(analysis.points, 'point')} of {count_of(len(ops), 'op')} "
        f"({', '.join(ops)}){took}{device}. {analysis.timed:,} have a time{untimed}."
    )


def _claims(analysis: Analysis) -> Iterator[str]:
    claims = analysis.claims
    if claims:
        yield f"Of {count_of(len(claims), 'published claim')} {counts_text(claims)}."


def _ceilings(analysis: Analysis) -> Iterator[str]:
    if analysis.run.calibration is None:
        yield "Nothing is calibrated: the run has no calibration.jsonl, so no model is judged here."
        return
    constants = analysis.constants
    rows = constants[constants["name"].str.endswith(".ceiling_flops_per_s")]
    ordered = rows.sort_values("value", ascending=False).to_dict("records")
    shown = [r for n, r in enumerate(ordered) if n == 0 or r["name"].split(".")[-2] == "bf16"]
    parts = [
        f"{scaled(row['value'], 'flop/s')} in {_contender_text(row)}{_datasheet_text(row)}"
        for row in shown
    ]
    if parts:
        yield f"Its fastest probe, settled, ran at {'; '.join(parts)}."
    for row in constants[constants["name"] == COPY].to_dict("records"):
        yield f"Memory copies at {scaled(row['value'], 'B/s')}{_datasheet_text(row)}."


def _contender_text(constant: Mapping[Any, Any]) -> str:
    """`bf16 by cublaslt`, of a constant `gemm.<provider>.<recipe>.<constant>`."""
    _, *provider, recipe, _ = str(constant["name"]).split(".")
    return " by ".join([recipe, *provider])


def _datasheet_text(constant: Mapping[Any, Any]) -> str:
    share = constant["fraction"]
    return "" if is_missing(share) else f" ({percent(share, 0)} of the datasheet)"


def _gains(analysis: Analysis) -> Iterator[str]:
    """One sentence per narrow number format: the recipe that gains most, and where it loses.

    Ops that several devices share are left out: their section compares their providers.
    """
    for op, table in analysis.speedups.items():
        if BY_NAME[op].shared_axis:
            continue
        formats: dict[str, list[str]] = {}
        for recipe in comparisons.narrower_recipes(op):
            number_format = RECIPES[recipe].b.dtype.partition("_")[0]  # fp8, int4
            formats.setdefault(number_format, []).append(recipe)
        for number_format, recipes in formats.items():
            rows = table[table["recipe"].isin(recipes)]
            if len(rows):
                yield _gain(op, rows, number_format)


def _gain(op: str, rows: pd.DataFrame, number_format: str) -> str:
    baseline, note = BY_NAME[op].baseline_recipe, page_of(op).time_note
    recipe, provider, _ = comparisons.fastest_pair(comparisons.large_or_all(rows))
    best = rows[(rows["recipe"] == recipe) & (rows["provider"] == provider)]
    whose = f" by {provider}" if rows["provider"].nunique() > 1 else ""
    parts = []
    for regime in ("large", "decode"):
        gains = best.loc[best["regime"] == regime, "speedup"]
        if len(gains):
            products = count_of(len(gains), f"{regime} product")
            parts.append(f"{float(gains.median()):.2f} times at {products}")
    if not parts:
        parts.append(f"{float(best['speedup'].median()):.2f} times")
    slower = int((best["speedup_high"] < 1).sum())
    return (
        f"In {number_format} the best recipe of {op} is {recipe}{whose}, with the speed of "
        f"{baseline} {' and '.join(parts)} (medians{f', {note}' if note else ''}); it is slower "
        f"than {baseline} at {slower} of {count_of(len(best), 'shape')}."
    )


def _errors(analysis: Analysis) -> Iterator[str]:
    for op in analysis.predicted_ops:
        row = prediction_errors.error_of(analysis.errors, MODEL, op=op)
        if row is None:
            continue
        if not (analysis.frames[op]["flops"] > 0).any():
            yield _share_of_roof(analysis.frames[op], op)
        yield (
            f"The calibrated model's time of {op} is off by {percent(row['mape'])} on average over "
            f"{count_of(int(row['count']), 'point')} (median {percent(row['median_abs_error'])}, "
            f"95th percentile {percent(row['p95_abs_error'])}; "
            f"{percent(row['coverage'], 0)} inside their 95 % intervals); "
            f"{_worst_regime(analysis, op)}{_other_errors(analysis, op)}."
        )


def _share_of_roof(frame: pd.DataFrame, op: str) -> str:
    """How close the providers of an op that computes nothing come to the memory roof."""
    rows = prediction_errors.judged(frame)
    share = (rows["calibrated_bound_s"] / rows["median_s"]).groupby(rows["provider"]).median()
    parts = [f"{percent(value, 0)} with {name}" for name, value in share.items()]
    return f"Of the calibrated memory roof, {op} reaches {', '.join(parts)} (medians)."


def _worst_regime(analysis: Analysis, op: str) -> str:
    errors = analysis.errors
    chosen = (
        (errors["op"] == op)
        & (errors["model"] == MODEL)
        & (errors["provider"] == prediction_errors.ALL)
    )
    chosen &= (errors["recipe"] == prediction_errors.ALL) & (
        errors["regime"] != prediction_errors.ALL
    )
    worst = errors[chosen].sort_values("mape").iloc[-1]
    return f"worst regime {worst['regime']}, {percent(worst['mape'])}"


def _other_errors(analysis: Analysis, op: str) -> str:
    """The MAPE of the calibrated model by provider, and that of the other models."""
    table = analysis.errors
    providers = prediction_errors.providers_in(table, op)
    models = _OTHER_MODELS | {m: f"the model {label}" for m, label in analysis.labels.items()}
    by_provider = {
        name: prediction_errors.error_of(table, MODEL, op=op, provider=name) for name in providers
    }
    by_model = {
        name: prediction_errors.error_of(table, model, op=op) for model, name in models.items()
    }
    text = ""
    for start, rows in (("; by provider: ", by_provider), (". For comparison: ", by_model)):
        errors = {name: row["mape"] for name, row in rows.items() if row is not None}
        parts = [f"{name} {percent(mape)}" for name, mape in errors.items()]
        text += f"{start}{', '.join(parts)}" if parts else ""
    return text
