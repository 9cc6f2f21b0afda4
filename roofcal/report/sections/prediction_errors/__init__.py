"""Predictions of every op against what was measured."""

from collections.abc import Iterator, Mapping
from typing import Final

import pandas as pd

from roofcal.core.environments import origin_environment
from roofcal.points.columns import MODEL, interval_columns
from roofcal.report.data import drawing, prediction_errors
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.prediction_errors import error_table
from roofcal.report.data.tidy import models_in, shape_texts, with_shape
from roofcal.report.kit import charts
from roofcal.report.kit.blocks import Table, absence
from roofcal.report.kit.charts import Picture
from roofcal.report.kit.columns import code, count, fraction, named, ratio, seconds
from roofcal.report.kit.numbers import count_of, percent
from roofcal.report.section import Answer, CsvTable, Item, Section, tidy_file

_MOST_STRIP_DOTS: Final = 300  # per regime and model
_BAND: Final = 0.1
_BAND_ROWS: Final = pd.DataFrame({"band_low": [1 - _BAND], "band_high": [1 + _BAND], "one": [1.0]})
_RATIO_LOW: Final = 0.25
_RATIO_HIGH: Final = 2.5
_TICKS: Final = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5)  # ratios beyond sit on the edge
_QUANTILES: Final = {"p5": 0.05, "p25": 0.25, "p75": 0.75, "p95": 0.95, "ratio": 0.5}
_RATIO: Final = charts.Axis("ratio", "predicted / measured", "ratio", ticks=_TICKS)
_WITHIN_BAND: Final = charts.Layer(
    "tolerance", table="band", low="band_low", high="band_high", detail="one"
)
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


def show(analysis: Analysis) -> Iterator[Item]:
    """Figures, errors by regime and the worst points of each op."""
    yield answer(analysis)
    yield CsvTable(FILE, analysis.errors)
    if analysis.errors.empty:
        yield absence("Nothing was predicted in this run.")
        return
    labelled = prediction_errors.with_model_labels(analysis.errors, analysis.labels)
    for op in analysis.studies:
        frame, errors = analysis.frames[op], labelled[labelled["op"] == op]
        residuals = prediction_errors.residuals(frame)
        if len(residuals):
            yield draw_measured_against_predicted(frame, residuals, analysis.labels)
            yield draw_error_by_regime(residuals, analysis.labels)
        if len(errors):
            yield error_table(errors, op, id=f"regimes-{op}")
        name = f"Error of {op} by model, regime, recipe and provider"
        yield Table(f"errors-{op}", name, errors, ERRORS, FILE)
        rows = prediction_errors.judged(frame)
        rows = rows[rows["relative_error"].notna()]
        order = rows["relative_error"].abs().sort_values(ascending=False, kind="stable").index
        worst = with_shape(rows.loc[order[:_MOST_WORST]])
        title = f"The {len(worst)} points of {op} furthest from their prediction"
        yield Table(f"worst-{op}", title, worst, WORST, tidy_file(analysis, op))


def answer(analysis: Analysis) -> Answer:
    """How wrong the calibrated model is on the first op that it predicts."""
    for op in analysis.predicted_ops:
        row = prediction_errors.error_of(analysis.errors, MODEL, op=op)
        if row is not None:
            return Answer(
                f"Predicted times of {op} are {percent(row['mape'])} off on average, over "
                f"{count_of(int(row['count']), 'point')} that no fit has seen; "
                f"{percent(row['coverage'], 0)} of the measured times lie inside the predicted "
                "95 % intervals."
            )
    reason = "the calibrated model predicted no point of this run."
    return Answer(f"Cannot be told here: {reason}", is_open=True)


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
    frame: pd.DataFrame, errors: pd.DataFrame, labels: Mapping[str, str]
) -> Picture:
    """Predicted over measured time: a panel per model, the most accurate first.

    errors: `residuals` of the frame; labels: what people read for a model whose name is long.
    """
    models = models_by_error(errors)
    names = {model: labels.get(model, model) for model in models}
    by_model = errors["error"].abs().groupby(errors["model"])
    mapes, sizes = by_model.mean(), by_model.size()
    shares = (errors["error"].abs() <= _BAND).groupby(errors["model"]).mean()
    within = [
        f"{names[model]} {percent(float(shares[model]), 0)} of {count_of(sizes[model], 'point')}"
        for model in models
    ]
    rows, columns = prediction_errors.judged(frame), models_in(frame)
    own: dict[str, pd.Series[float]] = {}
    panels: list[charts.Panel] = []
    for place, model in enumerate(reversed(models)):
        seconds = rows[columns[model]]
        low, high = (rows.get(name, seconds * float("nan")) for name in interval_columns(model))
        ratio = seconds / rows["median_s"]
        shown = {"predicted": seconds, "low": low, "high": high, "ratio": ratio, "error": ratio - 1}
        fields = {name: f"{name}{place}" for name in shown}
        own |= {fields[name]: values for name, values in shown.items() if values.notna().any()}
        choice = f"{names[model]}: {percent(float(mapes[model]))}"
        panels.append(charts.Panel(choice=choice, fields=fields, height=340))
    op = str(errors["op"].iloc[0])
    return Picture(
        key="measured_against_predicted",
        op=op,
        x=charts.Axis("median_s", "measured time", unit="s"),
        y=_RATIO,
        layers=[_WITHIN_BAND, charts.Layer("dots")],
        tables={"points": drawing.chart_points(frame).join(pd.DataFrame(own)), "band": _BAND_ROWS},
        panels=panels,
        tips=drawing.point_tips(
            drawing.TIME_TIP,
            charts.Tip("predicted", "predicted", "si", "s", low="low", high="high"),
            charts.Tip("error", "error", "percent"),
            charts.Tip("bound_by", "bound by"),
        ),
        legend=drawing.point_legend(rows),
        is_shared=True,
        alt=f"Predicted against measured time of {op}, one panel per model.",
        facts=f"Within 10 % of the measured time: {', '.join(within)}.{_providers_text(errors)}"
        f"{charts.thinning_note(max(sizes))}",
    )


def draw_error_by_regime(errors: pd.DataFrame, labels: Mapping[str, str]) -> Picture:
    """A box and every point of `residuals` per regime and model.

    labels: what people read for a model whose name is long.
    """
    regimes = sorted({str(r) for r in errors["regime"]}, key=prediction_errors.regime_rank)
    models, best = models_by_error(errors), best_model(errors)
    colours = charts.model_colours(models)
    counts = errors.loc[errors["model"] == best, "regime"].value_counts()
    ticks = {name: f"{name}: {count_of(int(counts.get(name, 0)), 'point')}" for name in regimes}
    drawn = errors.assign(
        ratio=(1 + errors["error"]).clip(_RATIO_LOW, _RATIO_HIGH),
        name=errors["regime"].map(ticks),
        place=[models.index(model) for model in errors["model"]],
        colour=errors["model"].map(colours),
        marker="o",
    )
    groups = drawn.groupby(["regime", "model"], sort=False)
    dots = pd.concat([charts.thinned(group, _MOST_STRIP_DOTS) for _, group in groups])
    # set apart evenly, by the golden section: a page must not change at random
    jitter = dots.groupby(["regime", "model"], sort=False).cumcount() * 0.618034 % 1 - 0.5
    dots = dots.assign(place=dots["place"] + 0.6 * jitter, shape=shape_texts(dots))
    # a box is its quantiles, and its median is a dash
    ratios = drawn.groupby(["name", "place", "model", "colour"], sort=False)["ratio"]
    boxes = pd.DataFrame({name: ratios.quantile(share) for name, share in _QUANTILES.items()})
    boxes = boxes.reset_index().assign(marker="_")
    outside = int((~(1 + errors["error"]).between(_RATIO_LOW, _RATIO_HIGH)).sum())
    edge = f" {count_of(outside, 'ratio')} beyond the axis sit on its edge." if outside else ""
    of_best = errors[errors["model"] == best]
    mean = of_best["error"].abs().groupby(of_best["regime"]).mean()
    return Picture(
        key="error_by_regime",
        op=str(errors["op"].iloc[0]),
        x=charts.Axis("name", "", "names", order=list(ticks.values()), offset="place"),
        y=_RATIO,
        layers=[
            _WITHIN_BAND,
            charts.Layer("interval", table="boxes", low="p5", high="p95"),
            charts.Layer("interval", table="boxes", low="p25", high="p75", size=12),
            charts.Layer("dots", size=9),
            charts.Layer("dots", table="medians", size=90),
        ],
        tables={
            "points": dots,
            "boxes": boxes,
            "medians": boxes.assign(colour=charts.INK),
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
            charts.LegendEntry("model", name, colours[name], "swatch", (), labels.get(name, name))
            for name in models
        ],
        alt="Predicted over measured time by regime and model.",
        facts=f"The model with the least error is {best}; its MAPE is highest in regime "
        f"{mean.idxmax()}, {percent(float(mean.max()))}.{_providers_text(errors)}{edge}",
    )


def _providers_text(errors: pd.DataFrame) -> str:
    """Which providers are drawn together, if there are several."""
    names = sorted({str(name) for name in errors["provider"]})
    return f" Drawn together: {', '.join(names)}." if len(names) > 1 else ""


SECTION = Section("Measured against predicted", "trust", show, lead=("measured_against_predicted",))
