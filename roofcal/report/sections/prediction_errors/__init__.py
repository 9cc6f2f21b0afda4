"""Predictions of every op against what was measured."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd

from roofcal.core.environments import origin_environment
from roofcal.points.columns import MODEL, interval_columns
from roofcal.report.data import drawing, prediction_errors
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.regime_matrices import error_table
from roofcal.report.data.tidy import models_in, shape_texts, with_shape
from roofcal.report.kit import charts, styles
from roofcal.report.kit.blocks import Block, absence
from roofcal.report.kit.columns import code, count, fraction, named, ratio, seconds
from roofcal.report.kit.numbers import count_of, percent
from roofcal.report.kit.writer import Picture, SectionWriter, thinned, thinning_note
from roofcal.report.section import Answer, CsvTable, Section, whole_run

_MOST_STRIP_DOTS: Final = 300  # per regime and model
_BAND: Final = 0.1
_BAND_ROWS: Final = pd.DataFrame({"band_low": [1 - _BAND], "band_high": [1 + _BAND], "one": [1.0]})
_DOT_COLUMNS: Final = (
    *("model", "recipe", "provider", "name", "ratio", "error", "model_s", "median_s"),
    *("ci95_low_s", "ci95_high_s", "point_id", "colour", "marker"),
)
_RATIO_LOW: Final = 0.25
_RATIO_HIGH: Final = 2.5
_TICKS: Final = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5)  # ratios beyond sit on the edge
FILE: Final = "error_by_regime.csv"
_MOST_WORST: Final = 20
ERRORS: Final = (
    *named("model", "regime", "recipe", "provider"),
    count("count", "points"),
    fraction("mape", "MAPE"),
    fraction("median_abs_error", "median"),
    fraction("p95_abs_error", "95th percentile"),
    fraction("median_error", "bias", signed=True),
    fraction("worst_error", "worst", signed=True),
    fraction("coverage", "in interval, of 95 %"),
    fraction("coverage_low", "at least"),
    fraction("coverage_high", "at most"),
    ratio("interval_score", "interval score", digits=2),
    count("violations", "faster than it says"),
)
WORST: Final = (
    *named("recipe", "provider", "shape", "regime"),
    seconds("median_s", "measured"),
    seconds("predicted_s", "predicted"),
    fraction("relative_error", "error", signed=True),
    *named("bound_by"),
    code("kernel_names", "kernel"),
)


def models_by_error(errors: pd.DataFrame) -> list[str]:
    """Models of `residuals`, the least accurate first."""
    mean = errors["error"].abs().groupby(errors["model"]).mean()
    return [str(model) for model in mean.sort_values(ascending=False, kind="stable").index]


def best_model(errors: pd.DataFrame) -> str:
    """The most accurate model of `residuals` that needs no other environment's calibration.

    If all models need one, the most accurate of them.
    """
    models = models_by_error(errors)
    own = [model for model in models if origin_environment(model) is None]
    return (own or models)[-1]


def draw_measured_against_predicted(
    frame: pd.DataFrame, labels: Mapping[str, str] | None = None
) -> Picture | None:
    """A panel per model, the most accurate first; None if nothing was predicted.

    labels: what people read for a model whose name is long.
    """
    errors = prediction_errors.residuals(frame)
    if errors.empty:
        return None
    models = models_by_error(errors)
    names = {model: (labels or {}).get(model, model) for model in models}
    op = str(errors["op"].iloc[0])
    within_band = (errors["error"].abs() <= _BAND).groupby(errors["model"])
    shares, sizes = within_band.mean(), within_band.size()
    within = [
        f"{names[model]} {percent(float(shares[model]), 0)} of {count_of(sizes[model], 'point')}"
        for model in models
    ]
    note = thinning_note(min(charts.MOST_ROWS, max(sizes)), max(sizes))
    return Picture(
        key="measured_against_predicted",
        chart=_errors_chart(frame, errors, models, names),
        op=op,
        alt=f"Predicted against measured time of {op}, one panel per model.",
        facts=f"Within 10 % of the measured time: {', '.join(within)}.{_providers_text(errors)}"
        f"{note}",
    )


def _errors_chart(
    frame: pd.DataFrame, errors: pd.DataFrame, models: Sequence[str], names: Mapping[str, str]
) -> charts.Chart:
    """Predicted over measured time against measured time.

    Args:
        frame: tidy frame of the op.
        errors: residuals of the frame.
        models: of the residuals, the least accurate first.
        names: what people read for each model.
    """
    rows, columns = prediction_errors.judged(frame), models_in(frame)
    own: dict[str, pd.Series[float]] = {}
    panels: list[charts.Panel] = []
    for model in reversed(models):
        place, seconds = len(panels), rows[columns[model]]
        low, high = (rows.get(name, seconds * float("nan")) for name in interval_columns(model))
        ratio = seconds / rows["median_s"]
        shown = {"predicted": seconds, "low": low, "high": high, "ratio": ratio, "error": ratio - 1}
        fields = {name: f"{name}{place}" for name in shown}
        own |= {fields[name]: values for name, values in shown.items() if values.notna().any()}
        mape = percent(float(errors.loc[errors["model"] == model, "error"].abs().mean()))
        panels.append(charts.Panel(choice=f"{names[model]}: {mape}", fields=fields, height=340))
    legend = drawing.point_legend(rows)
    return charts.Chart(
        x=charts.Axis("median_s", "measured time", unit="s"),
        y=charts.Axis("ratio", "predicted / measured", "ratio", ticks=_TICKS),
        layers=[
            charts.Layer("tolerance", table="band", low="band_low", high="band_high", detail="one"),
            charts.Layer("dots"),
        ],
        tables={
            "points": drawing.chart_points(frame).join(pd.DataFrame(own)),
            "band": _BAND_ROWS,
        },
        panels=panels,
        tips=drawing.point_tips(
            drawing.TIME_TIP,
            charts.Tip("predicted", "predicted", "si", "s", low="low", high="high"),
            charts.Tip("error", "error", "percent"),
            charts.Tip("bound_by", "bound by"),
        ),
        legend=legend,
        is_shared=True,
    )


def draw_error_by_regime(
    frame: pd.DataFrame, labels: Mapping[str, str] | None = None
) -> Picture | None:
    """A box and every point per regime and model; None if nothing was predicted.

    labels: what people read for a model whose name is long.
    """
    errors = prediction_errors.residuals(frame)
    if errors.empty:
        return None
    regimes = sorted({str(r) for r in errors["regime"]}, key=prediction_errors.regime_rank)
    models, best = models_by_error(errors), best_model(errors)
    labels = labels or {}
    colours, op = styles.model_colours(models), str(errors["op"].iloc[0])
    counts = errors.loc[errors["model"] == best, "regime"].value_counts()
    ticks = {name: f"{name}: {count_of(int(counts.get(name, 0)), 'point')}" for name in regimes}
    drawn = errors.assign(
        ratio=(1 + errors["error"]).clip(_RATIO_LOW, _RATIO_HIGH),
        name=errors["regime"].map(ticks),
        place=[models.index(model) for model in errors["model"]],
        colour=errors["model"].map(colours),
        marker="o",
    )
    groups = [group for _, group in drawn.groupby(["regime", "model"], sort=False)]
    dots = pd.concat([_spread(thinned(group, _MOST_STRIP_DOTS)) for group in groups])
    quantiles = [group["ratio"].quantile([0.05, 0.25, 0.75, 0.95, 0.5]) for group in groups]
    ends = pd.DataFrame(quantiles).set_axis(["p5", "p25", "p75", "p95", "ratio"], axis="columns")
    firsts = pd.concat([group[["name", "place", "model", "colour"]][:1] for group in groups])
    # a box is its quantiles, and its median is a dash
    boxes = firsts.reset_index(drop=True).join(ends.reset_index(drop=True)).assign(marker="_")
    chart = charts.Chart(
        x=charts.Axis("name", "", "names", order=list(ticks.values()), offset="place"),
        y=charts.Axis("ratio", "predicted / measured", "ratio", ticks=_TICKS),
        layers=[
            charts.Layer("tolerance", table="band", low="band_low", high="band_high", detail="one"),
            charts.Layer("interval", table="boxes", low="p5", high="p95"),
            charts.Layer("interval", table="boxes", low="p25", high="p75", size=12),
            charts.Layer("dots", size=9),
            charts.Layer("dots", table="medians", size=90),
        ],
        tables={
            "points": dots,
            "boxes": boxes,
            "medians": boxes.assign(colour=styles.INK),
            "band": _BAND_ROWS,
        },
        panels=[charts.Panel(height=360)],
        tips=(
            *drawing.HEAD_TIPS,
            charts.Tip("model", "model"),
            drawing.TIME_TIP,
            charts.Tip("model_s", "predicted", "si", "s"),
            charts.Tip("error", "error", "percent"),
        ),
        legend=[
            charts.LegendEntry(
                "model",
                model,
                label=labels.get(model, model),
                colour=colours[model],
                marker="swatch",
            )
            for model in models
        ],
        columns=1,
    )
    outside = int((~(1 + errors["error"]).between(_RATIO_LOW, _RATIO_HIGH)).sum())
    edge = f" {count_of(outside, 'ratio')} beyond the axis sit on its edge." if outside else ""
    rows = errors[errors["model"] == best]
    mean = rows["error"].abs().groupby(rows["regime"]).mean()
    return Picture(
        key="error_by_regime",
        chart=chart,
        op=op,
        alt="Predicted over measured time by regime and model.",
        facts=f"The model with the least error is {best}; its MAPE is highest in regime "
        f"{mean.idxmax()}, {percent(float(mean.max()))}.{_providers_text(errors)}{edge}",
    )


def _providers_text(errors: pd.DataFrame) -> str:
    """Which providers are drawn together, if there are several."""
    names = sorted({str(name) for name in errors["provider"]})
    return f" Drawn together: {', '.join(names)}." if len(names) > 1 else ""


def _spread(rows: pd.DataFrame) -> pd.DataFrame:
    """The dots of a box, set apart evenly: a page must not change at random."""
    jitter = (np.arange(len(rows)) * 0.618034) % 1 - 0.5  # golden section
    shown = rows[[*_DOT_COLUMNS]].assign(place=rows["place"] + 0.6 * jitter)
    return shown.assign(shape=shape_texts(rows))


def _answer(analysis: Analysis) -> Answer:
    rows = {
        op: prediction_errors.error_of(analysis.errors, MODEL, op=op)
        for op in analysis.predicted_ops
    }
    op, row = next(((op, row) for op, row in rows.items() if row is not None), ("", None))
    if row is None:
        reason = "the calibrated model predicted no point of this run."
        return Answer(f"Cannot be told here: {reason}", is_open=True)
    return Answer(
        f"Times of {op} are off by {percent(row['mape'])} on average over "
        f"{count_of(int(row['count']), 'point')} that no fit has seen; "
        f"{percent(row['coverage'], 0)} of them lie inside their 95 % intervals."
    )


def _blocks(analysis: Analysis, writer: SectionWriter) -> Iterator[Block]:
    if analysis.errors.empty:
        yield absence("Nothing was predicted in this run.")
        return
    labelled = prediction_errors.with_model_labels(analysis.errors, analysis.labels)
    for op in analysis.studies:
        frame = analysis.frames[op]
        yield from writer.figures(
            draw_measured_against_predicted(frame, analysis.labels),
            draw_error_by_regime(frame, analysis.labels),
        )
        errors = labelled[labelled["op"] == op]
        if len(errors):
            yield error_table(errors, op, id=f"{writer.anchor}-regimes-{op}")
            name = f"Error of {op} by model, regime, recipe and provider"
            yield writer.table(f"errors-{op}", name, errors, ERRORS, FILE)
        rows = prediction_errors.judged(analysis.frames[op])
        rows = rows[rows["relative_error"].notna()]
        order = rows["relative_error"].abs().sort_values(ascending=False, kind="stable").index
        if len(rows):
            worst = with_shape(rows.loc[order[:_MOST_WORST]])
            title = f"The {len(worst)} points of {op} furthest from their prediction"
            yield writer.table(f"worst-{op}", title, worst, WORST, writer.csv(op))


SECTION = Section(
    "Measured against predicted",
    "trust",
    whole_run,
    _blocks,
    tables=lambda analysis: [CsvTable(FILE, analysis.errors)],
    answer=_answer,
    lead=("measured_against_predicted",),
)
