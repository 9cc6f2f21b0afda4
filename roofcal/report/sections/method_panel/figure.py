"""The method panel: what the way of timing does to the time of the same point."""

from typing import Final

import pandas as pd
from matplotlib.axes import Axes

from roofcal.report.data.tidy import shape_texts, with_protocol
from roofcal.report.kit import styles
from roofcal.report.kit.numbers import count_of, times
from roofcal.report.kit.pictures import Picture

_MARKS: Final = {
    "graph, cold": (styles.INK, "|"),
    "graph, hot": (styles.VERMILLION, "o"),
    "graph, cold, zeros": (styles.BLUE, "s"),
    "events + flush, cold": (styles.GREEN, "D"),
    "profiler, cold": (styles.PURPLE, "^"),
    "wall, cold": (styles.ORANGE, "v"),
}
_SPARE_MARK: Final = (styles.GREY, "P")
_TICKS: Final = (0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0)
_MOST_ROWS: Final = 40


def draw_panel(panel: pd.DataFrame) -> Picture | None:
    """The ratios of a method panel; None if no point was timed in two ways."""
    rows = panel[panel["ratio"].notna()]
    if rows.empty:
        return None
    points = shape_texts(rows) + "  " + rows["recipe"].astype(str)
    rows = with_protocol(rows.assign(point=points))
    if rows.groupby("point").size().max() < 2:
        return None
    shown = list(dict.fromkeys(rows["point"]))[:_MOST_ROWS]
    with styles.look():
        figure = styles.new_figure(110 + 24 * len(shown))
        axes = figure.subplots()
        axes.axvline(1, color=styles.MUTED, linewidth=0.9)
        for protocol in _protocols(rows):
            chosen = (rows["protocol"] == protocol) & rows["point"].isin(shown)
            _marks(axes, protocol, rows[chosen], shown)
        axes.set_xscale("log")
        low, high = min(0.9, float(rows["ratio"].min())), max(1.1, float(rows["ratio"].max()))
        axes.set_xlim(low / 1.06, high * 1.06)
        styles.ratio_ticks(axes.xaxis, _TICKS)
        axes.set_yticks(range(len(shown)), shown)
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.set_xlabel("time over that of graph replay, cold cache, normal data")
        figure.legend(loc="outside upper left", ncols=6)
    return Picture(
        key="method_panel",
        figure=figure,
        op=str(rows["op"].iloc[0]),
        alt="The same points timed by every method, as ratios to graph replay.",
        facts=f"{count_of(len(shown), 'point')} by every method. {_facts(rows)}",
    )


def _protocols(rows: pd.DataFrame) -> list[str]:
    """Protocols in the order of _MARKS, then those without a mark of their own."""
    order = list(_MARKS)
    names = sorted({str(name) for name in rows["protocol"]})
    return sorted(names, key=lambda name: order.index(name) if name in order else len(order))


def _marks(axes: Axes, protocol: str, rows: pd.DataFrame, points: list[str]) -> None:
    colour, marker = _MARKS.get(protocol, _SPARE_MARK)
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


def _facts(rows: pd.DataFrame) -> str:
    others = rows[rows["protocol"] != "graph, cold"]
    spans = []
    for protocol in _protocols(others):
        ratios = others.loc[others["protocol"] == protocol, "ratio"]
        low, high = times(float(ratios.min())), times(float(ratios.max()))
        spans.append(f"{protocol} {low}" if low == high else f"{protocol} {low} to {high}")
    return f"Ratios: {'; '.join(spans)}."
