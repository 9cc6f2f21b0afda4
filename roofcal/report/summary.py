"""The first page: sentences with numbers that come from the tables, and a line per device."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pandas as pd

from roofcal.core.recipes import RECIPES
from roofcal.core.units import MISSING
from roofcal.ops import BY_NAME
from roofcal.points.columns import MODEL
from roofcal.points.roofs import COPY
from roofcal.report.data import comparisons, prediction_errors
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.claims import counts_text
from roofcal.report.data.op_pages import headline_op, page_of
from roofcal.report.data.prediction_errors import error_table, gain_table
from roofcal.report.data.quality import busy_fraction, wall_seconds
from roofcal.report.kit import columns as col
from roofcal.report.kit.blocks import Table
from roofcal.report.kit.numbers import count_of, duration, percent, scaled, times
from roofcal.report.sections.roofline import BURST_RECIPE, first_turn, settled_sentences

_OTHER_MODELS: Final = {
    "torchao": "torchao's formula",
    "wave": "wave model",
    "datasheet": "datasheet's roofline",
}
DEVICE_COLUMNS: Final = (
    *col.named("device", "records", "points"),
    col.count("ok", "ok"),
    col.number("bf16", "bf16", "TFLOP/s", 1e-12),
    col.number("best", "fastest", "TFLOP/s", 1e-12),
    col.number("memory", "copy", "TB/s", 1e-12),
    col.written_number(
        "gain",
        "best gain, large",
        "gain_ratio",
        "highest median speed-up over large products without casts, and its recipe",
    ),
    col.fraction(
        "mape", "MAPE", about="mean error over products by the library that no fit has seen"
    ),
    col.count("beyond", "over datasheet"),
    *col.named("environment"),
)
_RECIPE_COLUMNS: Final = (
    *col.named("op", "format", "regime", "recipe", "provider"),
    col.ratio(
        "speedup",
        "speed-up",
        "time of the baseline over that of the recipe, casts not counted, median over shapes",
    ),
    *col.named("baseline", "shapes"),
    col.count("first", "fastest of all", "shapes at which no other recipe or provider is faster"),
    col.count(
        "slower", "baseline faster", "shapes at which the baseline is faster than every recipe"
    ),
)
_ERROR_COLUMNS: Final = (
    *col.named("op"),
    col.count("count", "points"),
    col.fraction("mape", "calibrated"),
    col.fraction(
        "coverage",
        "inside",
        digits=0,
        about="points whose measured time lies inside the predicted interval",
    ),
    col.text("worst", "worst regime"),
)
_ERROR_KEYS: Final = col.keys_of(_ERROR_COLUMNS)


def device_line(analysis: Analysis) -> dict[str, Any]:
    """The numbers of one run that a reader looks for first; None for a number that it lacks."""
    op, table = headline_op(), analysis.violations
    rates = {recipe: product.rate.value for recipe, product in analysis.fastest.items()}
    gain = comparisons.best_gain(analysis.speedups.get(op), op)
    error = _library_error(analysis, op)
    copy = analysis.constants.get(COPY)
    beyond = int((table["bound"] == "datasheet").sum()) if len(table) else 0
    return {
        "device": analysis.device_name,
        "environment": analysis.environment_name,
        "records": analysis.run.origin,
        "points": analysis.points,
        "ok": analysis.ok,
        "bf16": rates.get("bf16"),
        "best": max(rates.values(), default=None),
        "memory": copy.value if copy else None,
        "gain": f"{times(gain[0])} {gain[1]}" if gain else None,
        "gain_ratio": gain[0] if gain else None,
        "mape": None if error is None else float(error["mape"]),
        "judged": None if error is None else judged_products(error),
        "beyond": beyond if analysis.spec is not None else None,
    }


def headline_numbers(analysis: Analysis) -> list[tuple[str, str, str]]:
    """(label, value, note) of settled rate, memory and error of predictions, as people read them.

    MISSING stands for a number that the run lacks.
    """
    spec, product = analysis.spec, analysis.fastest.get(BURST_RECIPE)
    rate = product.rate.value if product else None
    copy = analysis.constants.get(COPY)
    error, burst = _library_error(analysis, headline_op()), first_turn(product)
    peak = spec.peak_flops_per_s.get(BURST_RECIPE) if spec else None
    notes = [product.shape if product else "", _share_text(rate, peak)]
    if burst is not None:
        notes.append(f"fastest first milliseconds: {scaled(burst, 'flop/s')}")
    of_memory = _share_text(copy.value if copy else None, spec.dram_bytes_per_s if spec else None)
    mape, judged = MISSING, ""
    if error is not None:
        mape, inside = (percent(float(error[k]), d) for k, d in (("mape", 1), ("coverage", 0)))
        judged = f"{judged_products(error)}, {inside} inside their intervals"
    return [
        (
            f"fastest {BURST_RECIPE} product, settled",
            MISSING if rate is None else scaled(rate, "flop/s"),
            "; ".join(filter(None, notes)) or "no such product has a time",
        ),
        ("memory copies", MISSING if copy is None else scaled(copy.value, "B/s"), of_memory),
        ("mean error of predicted times", mape, judged),
    ]


def _share_text(value: float | None, datasheet: float | None) -> str:
    return f"{percent(value / datasheet, 0)} of the datasheet" if value and datasheet else ""


def verdict(analysis: Analysis) -> str:
    """How fast the best recipes are, over the baseline, at few tokens and at large products."""
    op = headline_op()
    speedups, baseline = analysis.speedups.get(op), str(BY_NAME[op].baseline_recipe)
    best = comparisons.best_by_regime(speedups, op)
    alone = comparisons.products_alone_text(speedups, op)
    if best.empty:
        none = "No narrow recipe that serves a linear was measured beside its baseline."
        return f"{none} {alone}".rstrip()
    ends = best[best["regime"].isin(("decode", "large"))]
    fastest = comparisons.best_text(ends if len(ends) else best, baseline)
    return f"{fastest} (medians, casts not counted). {alone}".rstrip()


def headlines(analysis: Analysis, line: Mapping[str, Any]) -> list[str]:
    """Three lines for a terminal: what was measured, rates, error of predictions.

    line: of device_line.
    """
    rates = [
        f"{name} {scaled(line[key], unit)}"
        for name, key, unit in (
            ("bf16", "bf16", "flop/s"),
            ("fastest recipe", "best", "flop/s"),
            ("memory copies", "memory", "B/s"),
        )
        if line[key] is not None
    ]
    error = line["mape"]
    predicted = f"{percent(error)} off on {line['judged']}" if error else "none"
    return [
        f"{line['device']}. {_measured(analysis)}",
        f"Rates: {', '.join(rates) or 'not calibrated'}.",
        f"Predictions of {headline_op()}: {predicted}.",
    ]


def judged_products(error: "pd.Series[Any]") -> str:
    """Words for the products that an error of `_library_error` is a mean over."""
    by = "" if error["provider"] == prediction_errors.ALL else f" by {error['provider']}"
    return f"{count_of(int(error['count']), 'product')}{by} that no fit has seen"


def _library_error(analysis: Analysis, op: str) -> "pd.Series[Any] | None":
    """The error on the op's library, or on all providers where the table does not separate them."""
    if analysis.errors.empty:
        return None
    providers = set(analysis.errors.loc[analysis.errors["op"] == op, "provider"])
    libraries = [name for name in page_of(op).library_providers if name in providers]
    return prediction_errors.error_of(
        analysis.errors, MODEL, op=op, provider=next(iter(libraries), prediction_errors.ALL)
    )


def summary_tables(analysis: Analysis) -> Iterator[Table]:
    """The fastest recipes by regime and the errors of models by op."""
    recipes, errors = fastest_recipes(analysis), model_errors(analysis)
    if len(recipes):
        title = "Fastest recipe by regime, casts not counted"
        yield Table("recipe-table", title, recipes, _RECIPE_COLUMNS)
    if len(errors):
        models = [name for name in errors.columns if name not in _ERROR_KEYS]
        columns = (*_ERROR_COLUMNS, *(col.fraction(name, name) for name in models))
        title = "Mean error of the times that models predict (MAPE), all providers of an op"
        yield Table("trust-table", title, errors, columns)


def regime_tables(analysis: Analysis) -> Iterator[Table]:
    """Speed-ups and errors by regime, of ops with a baseline."""
    for op, table in analysis.speedups.items():
        if len(table):
            yield gain_table(table, id=f"gain-{op}")
    for op in analysis.predicted_ops:
        if BY_NAME[op].baseline_recipe:
            errors = prediction_errors.with_model_labels(analysis.errors, analysis.labels)
            yield error_table(errors, op, id=f"error-{op}")


def fastest_recipes(analysis: Analysis) -> pd.DataFrame:
    """Rows of best_by_regime with `op`, `baseline` and `format`: a narrow one such as fp8 or int4.

    Ops that several devices share are left out: their section compares their providers.
    """
    parts = []
    for op, table in analysis.speedups.items():
        recipes = pd.Series(comparisons.narrower_recipes(op), dtype=object)
        if BY_NAME[op].shared_axis or recipes.empty:
            continue
        formats = recipes.map(lambda recipe: RECIPES[recipe].b.dtype.partition("_")[0])
        for number_format, of_format in recipes.groupby(formats, sort=False):
            best = comparisons.best_by_regime(table[table["recipe"].isin(of_format)], op)
            labels = {"op": op, "format": number_format, "baseline": BY_NAME[op].baseline_recipe}
            parts.append(best.assign(**labels))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def model_errors(analysis: Analysis) -> pd.DataFrame:
    """One row per op that the calibrated model predicts: its error, and that of other models."""
    models = _OTHER_MODELS | analysis.labels
    rows = []
    for op in analysis.predicted_ops:
        own = prediction_errors.error_of(analysis.errors, MODEL, op=op)
        if own is not None:
            others = {
                name: prediction_errors.error_of(analysis.errors, model, op=op)
                for model, name in models.items()
            }
            mapes = {name: row["mape"] for name, row in others.items() if row is not None}
            chosen = (analysis.errors["op"] == op) & (analysis.errors["model"] == MODEL)
            chosen &= (analysis.errors[["provider", "recipe"]] == prediction_errors.ALL).all(axis=1)
            chosen &= analysis.errors["regime"] != prediction_errors.ALL
            worst = analysis.errors[chosen].sort_values("mape").iloc[-1]
            words = {"worst": f"{worst['regime']}, {percent(worst['mape'])}"}
            rows.append({key: own[key] for key in _ERROR_KEYS if key in own} | words | mapes)
    return pd.DataFrame(rows)


def summary_sentences(analysis: Analysis) -> Iterator[str]:
    """What was measured, what the device does, and whether claims of others hold."""
    yield _measured(analysis)
    yield from settled_sentences(analysis)
    for op in analysis.predicted_ops:
        frame = analysis.frames[op]
        if not (frame["flops"] > 0).any() and MODEL in set(analysis.errors["model"]):
            # How close the providers of an op that computes nothing come to the memory roof
            rows = prediction_errors.judged(frame)
            share = rows["calibrated_bound_s"] / rows["median_s"]
            by_provider = share.groupby(rows["provider"]).median()
            parts = [f"{percent(value, 0)} with {name}" for name, value in by_provider.items()]
            yield f"Of the calibrated memory roof, {op} reaches {', '.join(parts)} (medians)."
    claims = analysis.claims
    if claims:
        yield f"Of {count_of(len(claims), 'published claim')} {counts_text(claims)}."


def _measured(analysis: Analysis) -> str:
    """How many points of which ops, in what time."""
    ops = [op for op, frame in analysis.frames.items() if len(frame)]
    origin = "Published records" if analysis.run.origin == "published" else "Measured"
    sessions = analysis.all_sessions
    seconds, busy = wall_seconds(sessions), busy_fraction(sessions)
    took = f" in {duration(seconds)}" if seconds else ""
    device = f", the device busy {percent(busy, 0)} of it" if busy is not None else ""
    accuracy_only = analysis.ok - analysis.timed
    untimed = f", {accuracy_only:,} only an accuracy" if accuracy_only else ""
    return (
        f"{origin}: {count_of(analysis.points, 'point')} of {count_of(len(ops), 'op')} "
        f"({', '.join(ops)}){took}{device}. {analysis.timed:,} have a time{untimed}."
    )
