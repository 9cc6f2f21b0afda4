"""Measured against predicted: every judged point of every model, and the errors by regime."""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any, Final

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from roofcal.core.environments import origin_environment
from roofcal.report.data.drawing import in_recipe_order, recipe_colour, recipe_colours
from roofcal.report.data.prediction_errors import regime_rank, residuals
from roofcal.report.kit import styles
from roofcal.report.kit.numbers import count_of, percent
from roofcal.report.kit.pictures import Picture, thinned, thinning_note
from roofcal.report.sections.prediction_errors.chart import errors_chart

_MOST_DOTS: Final = 1200  # per panel
_MOST_STRIP_DOTS: Final = 300  # per regime and model
_ABREAST: Final = 5  # models side by side
_LETTERS: Final = 118  # of a line of text, over the whole width
_BAND: Final = 0.1
_RATIO_LOW: Final = 0.25
_RATIO_HIGH: Final = 2.5
_TICKS: Final = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5)
_STRIP_WIDTH: Final = 0.78  # of the boxes of all models beside each other


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
    """Two panels per model: both times, and their ratio; None if nothing was predicted.

    labels: what people read for a model whose name is long.
    """
    errors = residuals(frame)
    if errors.empty:
        return None
    models = models_by_error(errors)
    names = {model: (labels or {}).get(model, model) for model in models}
    op = str(errors["op"].iloc[0])
    with styles.look():
        columns, bands = min(len(models), _ABREAST), -(-len(models) // _ABREAST)
        figure = styles.new_figure(560 * bands)
        panels = _panels(figure, len(models), columns, bands)
        span = np.array([errors["median_s"].min() / 1.6, errors["median_s"].max() * 1.6])
        for column, model in zip(panels, models, strict=True):
            rows = errors[errors["model"] == model]
            _times(column[0], rows, span)
            _ratios(column[1], rows, span)
            mape, letters = percent(float(rows["error"].abs().mean())), _LETTERS // columns
            title = f"{names[model]}: MAPE {mape}"
            if len(title) > letters:
                title = f"{fill(f'{names[model]}:', letters)}\nMAPE {mape}"
            column[0].set_title(title)
            if columns == _ABREAST:
                styles.log_axis(column[1].xaxis, "s", base=100)
        for times, ratios in panels[::_ABREAST]:
            times.set_ylabel("predicted time")
            ratios.set_ylabel("predicted / measured")
        recipes = in_recipe_order(errors["recipe"], op)
        styles.legend(figure, styles.colour_patches(recipe_colours(recipes)), 5, 0.8)
    within_band = (errors["error"].abs() <= _BAND).groupby(errors["model"])
    shares, sizes = within_band.mean(), within_band.size()
    within = [
        f"{names[model]} {percent(float(shares[model]), 0)} of {count_of(sizes[model], 'point')}"
        for model in models
    ]
    note = thinning_note(min(_MOST_DOTS, max(sizes)), max(sizes))
    return Picture(
        key="measured_against_predicted",
        figure=figure,
        op=op,
        alt=f"Predicted against measured time of {op}, one panel per model.",
        facts=f"Within 10 % of the measured time: {', '.join(within)}.{_providers_text(errors)}"
        f"{note}",
        chart=errors_chart(frame, errors, models, names),
    )


def _panels(figure: Figure, models: int, columns: int, bands: int) -> list[tuple[Axes, Axes]]:
    """(times, ratios) of each model, in bands of so many columns."""
    heights = (3, 2) * bands
    grid = figure.subplots(
        2 * bands, columns, squeeze=False, sharex=True, sharey="row", height_ratios=heights
    )
    panels = [(grid[2 * b, c], grid[2 * b + 1, c]) for b in range(bands) for c in range(columns)]
    for pair in panels[models:]:
        for axes in pair:
            axes.remove()
    for _, ratios in panels[:models]:
        ratios.tick_params(labelbottom=True)
    return panels[:models]


def _times(axes: Axes, rows: pd.DataFrame, span: Any) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.fill_between(span, span * (1 - _BAND), span * (1 + _BAND), color=styles.GRID, linewidth=0)
    axes.plot(span, span, color=styles.MUTED, linewidth=0.8)
    _scatter(axes, rows, "model_s")
    styles.log_axis(axes.yaxis, "s")
    axes.set_xlim(*span)


def _ratios(axes: Axes, rows: pd.DataFrame, span: Any) -> None:
    axes.set_xscale("log")
    _perfect_band(axes)
    _scatter(axes, rows.assign(ratio=_clipped_ratio(rows)), "ratio")
    _ratio_axis(axes)
    styles.log_axis(axes.xaxis, "s")
    axes.set_xlim(*span)
    axes.set_xlabel("measured time")


def _perfect_band(axes: Axes) -> None:
    axes.axhspan(1 - _BAND, 1 + _BAND, color=styles.GRID, linewidth=0)
    axes.axhline(1, color=styles.MUTED, linewidth=0.8)


def _clipped_ratio(errors: pd.DataFrame) -> "pd.Series[float]":
    """Predicted over measured; ratios beyond the axis lie on its edge."""
    return (1 + errors["error"]).clip(_RATIO_LOW, _RATIO_HIGH)


def _scatter(axes: Axes, rows: pd.DataFrame, y: str) -> None:
    for recipe, group in thinned(rows, _MOST_DOTS).groupby("recipe"):
        colour = recipe_colour(str(recipe))
        styles.dots(axes, group["median_s"], group[y], colour, 13, edge=0.25)


def _ratio_axis(axes: Axes) -> None:
    """A logarithmic axis of predicted / measured with ticks that people read."""
    axes.set_yscale("log")
    axes.set_ylim(_RATIO_LOW / 1.05, _RATIO_HIGH * 1.05)
    styles.fixed_ticks(axes.yaxis, _TICKS)


def draw_error_by_regime(
    frame: pd.DataFrame, labels: Mapping[str, str] | None = None
) -> Picture | None:
    """A box and every point per regime and model; None if nothing was predicted.

    labels: what people read for a model whose name is long.
    """
    errors = residuals(frame)
    if errors.empty:
        return None
    regimes = sorted({str(r) for r in errors["regime"]}, key=regime_rank)
    models, best = models_by_error(errors), best_model(errors)
    errors = errors.assign(ratio=_clipped_ratio(errors))
    with styles.look():
        figure = styles.new_figure(400)
        axes = figure.subplots()
        _perfect_band(axes)
        _strips(axes, errors, regimes, models)
        _boxes(axes, errors, regimes, models)
        _ratio_axis(axes)
        counts = [int(((errors["regime"] == r) & (errors["model"] == best)).sum()) for r in regimes]
        ticks = [
            f"{name}\n{count_of(count, 'point')}"
            for name, count in zip(regimes, counts, strict=True)
        ]
        axes.set_xticks(range(len(regimes)), ticks)
        axes.grid(visible=False, axis="x")
        axes.set(xlabel="", ylabel="predicted / measured")
        _models_legend(figure, models, labels or {})
    outside = int((~(1 + errors["error"]).between(_RATIO_LOW, _RATIO_HIGH)).sum())
    edge = f" {count_of(outside, 'ratio')} beyond the axis sit on its edge." if outside else ""
    return Picture(
        key="error_by_regime",
        figure=figure,
        op=str(errors["op"].iloc[0]),
        alt="Predicted over measured time by regime and model.",
        facts=_worst_regime(errors, best) + edge,
    )


def _models_legend(figure: Figure, models: Sequence[str], labels: Mapping[str, str]) -> None:
    names = {model: labels.get(model, model) for model in models}
    columns = min(6, max(1, _LETTERS // (max(map(len, names.values())) + 4)))
    colours = styles.model_colours(models)
    handles = [Patch(edgecolor=colours[m], fill=False, label=names[m]) for m in models]
    styles.legend(figure, handles, columns)


def _worst_regime(errors: pd.DataFrame, best: str) -> str:
    rows = errors[errors["model"] == best]
    mean = rows["error"].abs().groupby(rows["regime"]).mean()
    return (
        f"The model with the least error is {best}; its MAPE is highest in regime "
        f"{mean.idxmax()}, {percent(float(mean.max()))}.{_providers_text(errors)}"
    )


def _providers_text(errors: pd.DataFrame) -> str:
    """Which providers are drawn together, if there are several."""
    names = sorted({str(name) for name in errors["provider"]})
    return f" Drawn together: {', '.join(names)}." if len(names) > 1 else ""


def _boxes(axes: Axes, errors: pd.DataFrame, regimes: list[str], models: list[str]) -> None:
    sns.boxplot(
        data=errors,
        x="regime",
        y="ratio",
        hue="model",
        order=regimes,
        hue_order=models,
        palette=styles.model_colours(models),
        ax=axes,
        width=_STRIP_WIDTH,
        gap=0.25,
        fill=False,
        showfliers=False,
        linewidth=1.2,
        whis=(5, 95),
        legend=False,
    )


def _strips(axes: Axes, errors: pd.DataFrame, regimes: list[str], models: list[str]) -> None:
    """Every point beside its box; seaborn's stripplot would jitter at random, a page must not."""
    width, colours = _STRIP_WIDTH / len(models), styles.model_colours(models)
    for number, model in enumerate(models):
        for place, regime in enumerate(regimes):
            rows = errors[(errors["model"] == model) & (errors["regime"] == regime)]
            ratio = thinned(rows, _MOST_STRIP_DOTS)["ratio"].to_numpy(dtype=float)
            jitter = (np.arange(len(ratio)) * 0.618034) % 1 - 0.5  # golden section: spreads evenly
            centre = place + (number - (len(models) - 1) / 2) * width
            x = centre + jitter * width * 0.6
            styles.dots(axes, x, ratio, colours[model], 6, alpha=0.45)
