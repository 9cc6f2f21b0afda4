"""The method panel: what the way of timing does to the time of the same point."""

from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from roofcal.report.data.comparisons import protocol_name
from roofcal.report.kit.numbers import count_of, times
from roofcal.report.kit.pictures import Picture
from roofcal.report.kit.styles import (
    BLUE,
    GREEN,
    GREY,
    INK,
    MUTED,
    ORANGE,
    PURPLE,
    VERMILLION,
    look,
    new_figure,
)

_MARKS: Final = {
    "graph, cold": (INK, "|"),
    "graph, hot": (VERMILLION, "o"),
    "graph, cold, zeros": (BLUE, "s"),
    "events + flush, cold": (GREEN, "D"),
    "profiler, cold": (PURPLE, "^"),
    "wall, cold": (ORANGE, "v"),
}
_SPARE: Final = (GREY, "P")
_TICKS: Final = (0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0)
_MOST_ROWS: Final = 40


def draw_panel(panel: pd.DataFrame) -> Picture | None:
    """Ratios of `comparisons.method_panel`; None where no point was timed in two ways."""
    rows = panel[panel["ratio"].notna()]
    if rows.empty or rows.groupby(_names(rows)).size().max() < 2:
        return None
    rows = rows.assign(
        point=_names(rows), protocol=[protocol_name(r) for r in rows.to_dict("records")]
    )
    points = list(dict.fromkeys(rows["point"]))[:_MOST_ROWS]
    with look():
        figure = new_figure(110 + 24 * len(points))
        axes = figure.subplots()
        axes.axvline(1, color=MUTED, linewidth=0.9)
        for protocol in _protocols(rows):
            some = rows[(rows["protocol"] == protocol) & rows["point"].isin(points)]
            _marks(axes, protocol, some, points)
        _ratio_axis(axes, rows)
        axes.set_yticks(range(len(points)), points)
        axes.set_ylim(len(points) - 0.4, -0.6)
        axes.set_xlabel("time over that of graph replay, cold cache, normal data")
        figure.legend(loc="outside upper left", ncols=6)
    facts = _facts(rows)
    return Picture(
        key="method_panel",
        figure=figure,
        op=str(rows["op"].iloc[0]),
        alt=f"The same points timed by every method, as ratios to graph replay. {facts}",
        facts=f"{count_of(len(points), 'point')} by every method. {facts}",
    )


def _names(rows: pd.DataFrame) -> "pd.Series[str]":
    """'bf16 16 x 3,584 x 8,192' per row."""
    columns = list(rows.columns)
    axes = columns[columns.index("recipe") + 1 : columns.index("method")]
    sizes = [
        " \N{MULTIPLICATION SIGN} ".join(f"{v:,}" for v in values)
        for values in rows[axes].to_numpy()
    ]
    names = [f"{size}  {recipe}" for size, recipe in zip(sizes, rows["recipe"], strict=True)]
    return pd.Series(names, index=rows.index)


def _protocols(rows: pd.DataFrame) -> list[str]:
    """Protocols in the order of _MARKS, then those it does not know."""
    known = list(_MARKS)
    found = sorted({str(name) for name in rows["protocol"]})
    return sorted(found, key=lambda name: known.index(name) if name in known else len(known))


def _marks(axes: Axes, protocol: str, rows: pd.DataFrame, points: list[str]) -> None:
    colour, marker = _MARKS.get(protocol, _SPARE)
    axes.scatter(
        rows["ratio"],
        [points.index(point) for point in rows["point"]],
        color=colour,
        marker=marker,
        s=110 if marker == "|" else 34,
        label=protocol,
        zorder=3,
        linewidth=1.6 if marker == "|" else 0,
    )


def _ratio_axis(axes: Axes, rows: pd.DataFrame) -> None:
    axes.set_xscale("log")
    low, high = min(0.9, float(rows["ratio"].min())), max(1.1, float(rows["ratio"].max()))
    axes.set_xlim(low / 1.06, high * 1.06)
    axes.xaxis.set_major_locator(FixedLocator(_TICKS))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:g}\N{MULTIPLICATION SIGN}")
    )


def _facts(rows: pd.DataFrame) -> str:
    others = rows[rows["protocol"] != "graph, cold"]
    spans: list[Any] = []
    for protocol in _protocols(others):
        group = others[others["protocol"] == protocol]
        low, high = times(float(group["ratio"].min())), times(float(group["ratio"].max()))
        spans.append(f"{protocol} {low}" if low == high else f"{protocol} {low} to {high}")
    return f"Ratios: {'; '.join(spans)}."
