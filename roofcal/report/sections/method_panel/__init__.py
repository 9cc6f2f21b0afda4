"""The same points timed by every method: what the way of timing does to a number."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pandas as pd

from roofcal.points.columns import INTERVAL_HOLDS, PROTOCOL
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.comparisons import TIME_COLUMNS, holds_of_ratios, ratio_of_times, times_of
from roofcal.report.data.tidy import (
    axes_of,
    ok_rows,
    shape_texts,
    standard_protocol,
    with_protocol,
    with_shape,
)
from roofcal.report.kit import styles
from roofcal.report.kit.blocks import Block, absence
from roofcal.report.kit.columns import CLOCK, HOLDS_COLUMN, POWER, ratio, seconds, text, texts
from roofcal.report.kit.numbers import count_of, percent, times
from roofcal.report.kit.writer import Picture, SectionWriter
from roofcal.report.section import Section, filled_table

FILE: Final = "method_panel.csv"
COLUMNS: Final = (
    *texts("recipe", "shape"),
    text("protocol", "timed by"),
    seconds("median_s", "median"),
    ratio("ratio", "to graph, cold"),
    ratio("ratio_low", "low"),
    ratio("ratio_high", "high"),
    HOLDS_COLUMN,
    CLOCK,
    POWER,
)
_RATIOS: Final = ("ratio", "ratio_low", "ratio_high")
_MARKS: Final = {
    "graph, cold": (styles.INK, "|"),
    "alone, cold": (styles.WINE, "X"),
    "burst, cold": (styles.SKY, "*"),
    "graph, hot": (styles.VERMILLION, "o"),
    "graph, cold, zeros": (styles.BLUE, "s"),
    "events + flush, cold": (styles.GREEN, "D"),
    "profiler, cold": (styles.PURPLE, "^"),
    "wall, cold": (styles.ORANGE, "v"),
}
_SPARE_MARK: Final = (styles.GREY, "P")
_TICKS: Final = (0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0)
_MOST_ROWS: Final = 40
_ALONE: Final = "alone, cold"
_AIMS: Final = {0.5: 0.01, 0.95: 0.04}  # share of points -> most that turns may change of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """What the section shows.

    rows   of `method_panel`
    burst  how its sessions timed bursts, a sentence; "" where none was timed
    """

    rows: pd.DataFrame
    burst: str = ""


def method_panel(frame: pd.DataFrame) -> pd.DataFrame:
    """The panel's points by every method, and their time over that of graph replay, cold, normal.

    One row per point of a shape and recipe that was timed in more than one way; `ratio` is empty
    if the graph/cold/normal point has no time.
    """
    axes = axes_of(frame)
    timed = ok_rows(frame)
    keys = ["op", "provider", "recipe", *axes, "world_size"]
    base = timed.loc[standard_protocol(timed), [*keys, "point_id", *TIME_COLUMNS]].drop_duplicates(
        keys
    )
    names_panel = timed["sweeps"].astype(str).str.contains(r"(?:^|;)panel", regex=True)
    is_in_panel = names_panel.astype(bool) & (timed["repeat"] == 0)
    rows = timed[is_in_panel].merge(base, on=keys, how="left", suffixes=("", "_graph"))
    by_graph = times_of(rows, "_graph")
    rows = rows.assign(**dict(zip(_RATIOS, ratio_of_times(rows, by_graph), strict=True)))
    rows[INTERVAL_HOLDS] = pd.Series(holds_of_ratios(rows, by_graph), dtype=object)
    is_graph = rows["point_id"] == rows["point_id_graph"]
    rows.loc[is_graph, [*_RATIOS]] = 1.0  # of a point over itself nothing is uncertain
    columns = ["op", "provider", "recipe", *axes, *PROTOCOL, "median_s", *_RATIOS, INTERVAL_HOLDS]
    columns += ["sm_clock_hz", "power_w", "throttle_reasons", "point_id"]
    return rows[columns].sort_values([*axes, "recipe", *PROTOCOL]).reset_index(drop=True)


def _contents(analysis: Analysis) -> Panel:
    """The panel of the op that has the longest one."""
    frames = [frame for frame in analysis.frames.values() if not frame.empty]
    panels = [Panel(rows=method_panel(f), burst=_burst_text(analysis, f)) for f in frames]
    return max(panels, key=lambda panel: len(panel.rows), default=Panel(rows=pd.DataFrame()))


def _burst_text(analysis: Analysis, frame: pd.DataFrame) -> str:
    """How long bursts and the rests before them were, by the sessions that timed them."""
    timed = set(frame.loc[frame["method"] == "burst", "session_id"])
    timings = {
        (s.timing["burst_s"], s.timing["burst_rest_s"])
        for s in analysis.all_sessions
        if s.session_id in timed and {"burst_s", "burst_rest_s"} <= s.timing.keys()
    }
    lengths = [
        f"{1e3 * burst_s:g} ms after a rest of {rest_s:g} s" for burst_s, rest_s in sorted(timings)
    ]
    return f"A burst took {' or '.join(lengths)}." if lengths else ""


def _blocks(panel: Panel, writer: SectionWriter) -> Iterator[Block]:
    if panel.rows.empty:
        yield absence("This run has no method panel.")
        return
    yield from writer.figures(draw_panel(panel))
    rows = with_shape(with_protocol(panel.rows))
    yield writer.table("panel", "The same points by every method", rows, COLUMNS, FILE)


def draw_panel(panel: Panel) -> Picture | None:
    """The ratios of a method panel; None if no point was timed in two ways."""
    rows = panel.rows[panel.rows["ratio"].notna()]
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
            drawn = rows[chosen]
            colour, marker = _MARKS.get(protocol, _SPARE_MARK)
            axes.scatter(
                drawn["ratio"],
                [shown.index(point) for point in drawn["point"]],
                color=colour,
                marker=marker,
                s=110 if marker == "|" else 34,
                label=protocol,
                zorder=3,
                linewidth=1.6 if marker == "|" else 0,
            )
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
        drawn=figure,
        op=str(rows["op"].iloc[0]),
        alt="The same points timed by every method, as ratios to graph replay.",
        facts=" ".join(
            (f"{count_of(len(shown), 'point')} by every method.", *_facts(rows, panel.burst))
        ),
    )


def _protocols(rows: pd.DataFrame) -> list[str]:
    """Protocols in the order of _MARKS, then those without a mark of their own."""
    order = list(_MARKS)
    names = sorted({str(name) for name in rows["protocol"]})
    return sorted(names, key=lambda name: order.index(name) if name in order else len(order))


def _facts(rows: pd.DataFrame, burst: str) -> Iterator[str]:
    """Ratios of every protocol, how bursts were timed, and what turns change of a time."""
    others = rows[rows["protocol"] != "graph, cold"]
    spans = []
    for protocol in _protocols(others):
        chosen = others[others["protocol"] == protocol]
        # at the power limit, turns let contenders share power; below it there is nothing to share
        parts = _by_power_limit(rows, chosen) if protocol == _ALONE else {"": chosen}
        spans += [f"{protocol}{limit} {_span(part['ratio'])}" for limit, part in parts.items()]
    yield f"Ratios: {'; '.join(spans)}."
    if burst:
        yield burst
    alone = (rows.loc[rows["protocol"] == _ALONE, "ratio"] - 1).abs()
    if len(alone):
        half, most = (
            f"{percent(float(alone.quantile(share)))} (aim: at most {percent(aim, 0)})"
            for share, aim in _AIMS.items()
        )
        yield (
            f"Between in turns and alone lies a difference of {half} in the median of "
            f"{count_of(len(alone), 'point')}, and of {most} in the 95th percentile."
        )


def _span(ratios: "pd.Series[float]") -> str:
    low, high = times(float(ratios.min())), times(float(ratios.max()))
    return low if low == high else f"{low} to {high}"


def _by_power_limit(rows: pd.DataFrame, alone: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Points timed alone, by whether the card named its power as a limit, alone or in turns.

    All are one part where the card was not observed, as on CPUs.
    """
    if not alone["sm_clock_hz"].notna().all():
        return {"": alone}
    either = rows[rows["protocol"].isin(["graph, cold", _ALONE])]
    names_power = either["throttle_reasons"].astype(object).fillna("").str.contains("power")
    is_limited = alone["point"].isin(either.loc[names_power.astype(bool), "point"])
    parts = {" at the power limit": alone[is_limited], " below it": alone[~is_limited]}
    return {limit: part for limit, part in parts.items() if len(part)}


SECTION = Section(
    "Method panel",
    "how",
    _contents,
    _blocks,
    tables=lambda panel: filled_table(
        FILE, with_shape(panel.rows) if len(panel.rows) else panel.rows
    ),
)
