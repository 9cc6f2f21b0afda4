"""The same points timed by every method: what the way of timing does to a number."""

from collections.abc import Iterator
from typing import Final

import pandas as pd

from roofcal.points.columns import INTERVAL_HOLDS, PROTOCOL
from roofcal.report.data import tidy
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.comparisons import TIME_COLUMNS, with_ratios
from roofcal.report.data.drawing import TIME_TIP
from roofcal.report.kit import charts
from roofcal.report.kit.blocks import Table, absence
from roofcal.report.kit.charts import Picture
from roofcal.report.kit.columns import named, ratio, seconds
from roofcal.report.kit.numbers import count_of, percent, times
from roofcal.report.section import CsvTable, Item, Section

FILE: Final = "method_panel.csv"
COLUMNS: Final = (
    *named("recipe", "shape", "protocol"),
    seconds("median_s", "median"),
    ratio("ratio", "to graph, cold"),
    ratio("ratio_low", "low"),
    ratio("ratio_high", "high"),
    *named("interval_holds", "sm_clock_hz", "power_w"),
)
_RATIOS: Final = ("ratio", "ratio_low", "ratio_high")
_MARKS: Final = {
    "graph, cold": (charts.INK, "|"),
    "alone, cold": (charts.WINE, "X"),
    "burst, cold": (charts.SKY, "*"),
    "graph, hot": (charts.VERMILLION, "o"),
    "graph, cold, zeros": (charts.BLUE, "s"),
    "events + flush, cold": (charts.GREEN, "D"),
    "profiler, cold": (charts.PURPLE, "^"),
    "wall, cold": (charts.ORANGE, "v"),
}
_SPARE_MARK: Final = (charts.GREY, "P")
_TICKS: Final = (0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0)
_MOST_ROWS: Final = 40
_ALONE: Final = "alone, cold"
_AIMS: Final = {0.5: 0.01, 0.95: 0.04}  # quantile -> most that turns may change times


def show(analysis: Analysis) -> Iterator[Item]:
    """The longest method panel of any op."""
    frames = [frame for frame in analysis.frames.values() if not frame.empty]
    panels = [(method_panel(frame), frame) for frame in frames]
    panel, frame = max(panels, key=lambda pair: len(pair[0]), default=(pd.DataFrame(), None))
    if panel.empty or frame is None:
        yield absence("This run has no method panel.")
        return
    yield CsvTable(FILE, tidy.with_shape(panel))
    yield draw_panel(panel, _burst_text(analysis, frame))
    rows = tidy.with_shape(tidy.with_protocol(panel))
    yield Table("panel", "The same points by every method", rows, COLUMNS, FILE)


def method_panel(frame: pd.DataFrame) -> pd.DataFrame:
    """The panel's points by every method, and their time over that of graph replay, cold, normal.

    One row per point of a shape and recipe that was timed in more than one way; `ratio` is empty
    if the graph/cold/normal point has no time.
    """
    axes = tidy.axes_of(frame)
    timed = tidy.ok_rows(frame)
    keys = ["op", "provider", "recipe", *axes, "world_size"]
    base = timed[tidy.standard_protocol(timed)].drop_duplicates(keys)
    base = base[[*keys, "point_id", *TIME_COLUMNS]]
    names_panel = timed["sweeps"].astype(str).str.contains(r"(?:^|;)panel", regex=True)
    is_in_panel = names_panel.astype(bool) & (timed["repeat"] == 0)
    rows = timed[is_in_panel].merge(base, on=keys, how="left", suffixes=("", "_graph"))
    rows = with_ratios(rows, _RATIOS, under="_graph")
    is_graph = rows["point_id"] == rows["point_id_graph"]
    rows.loc[is_graph, [*_RATIOS]] = 1.0  # the ratio of a point to itself is exact
    columns = ["op", "provider", "recipe", *axes, *PROTOCOL, "median_s", *_RATIOS, INTERVAL_HOLDS]
    columns += ["sm_clock_hz", "power_w", "throttle_reasons", "point_id"]
    return rows[columns].sort_values([*axes, "recipe", *PROTOCOL]).reset_index(drop=True)


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


def draw_panel(panel: pd.DataFrame, burst: str = "") -> Picture | None:
    """The ratios of a method panel; None if no point was timed in two ways."""
    rows = panel[panel["ratio"].notna()]
    if rows.empty:
        return None
    points = tidy.shape_texts(rows) + "  " + rows["recipe"].astype(str)
    rows = tidy.with_protocol(rows.assign(point=points))
    if rows.groupby("point").size().max() < 2:
        return None
    shown = list(dict.fromkeys(rows["point"]))[:_MOST_ROWS]
    marks = {name: _MARKS.get(name, _SPARE_MARK) for name in _protocols(rows)}
    drawn = rows[rows["point"].isin(shown)]
    drawn = drawn.assign(**charts.mark_columns(drawn["protocol"], marks))
    return Picture(
        key="method_panel",
        op=str(rows["op"].iloc[0]),
        x=charts.Axis(
            "ratio",
            "time over that of graph replay, cold cache, normal data",
            "ratio",
            ticks=charts.ticks_around([0.9, 1.1, *drawn["ratio"]], _TICKS),
        ),
        y=charts.Axis("point", "", "names", order=shown),
        layers=[charts.Layer("upright", table="equal"), charts.Layer("dots")],
        tables={"points": drawn, "equal": charts.line_at(1.0, "ratio", charts.MUTED)},
        panels=[charts.Panel(height=60 + 20 * len(shown))],
        tips=(
            *charts.text_tips(point="point", protocol="timed by"),
            charts.Tip("ratio", "to graph, cold", "ratio", "", *_RATIOS[1:]),
            TIME_TIP,
        ),
        legend=charts.marked("protocol", marks),
        alt="The same points timed by every method, as ratios to graph replay.",
        facts=" ".join((f"{count_of(len(shown), 'point')} by every method.", *_facts(rows, burst))),
    )


def _protocols(rows: pd.DataFrame) -> list[str]:
    """Protocols in the order of _MARKS, then those without a mark of their own."""
    names = sorted({str(name) for name in rows["protocol"]})
    return [*(name for name in _MARKS if name in names), *(n for n in names if n not in _MARKS)]


def _facts(rows: pd.DataFrame, burst: str) -> Iterator[str]:
    """Ratios of every protocol, how bursts were timed, and what turns change of a time."""
    others = rows[rows["protocol"] != "graph, cold"]
    spans = []
    for protocol in _protocols(others):
        chosen = others[others["protocol"] == protocol]
        parts = {"": chosen}
        if protocol == _ALONE and chosen["sm_clock_hz"].notna().all():
            # Contenders that take turns at the power limit share power. A point is at the limit
            # where the card named power in one of both ways of timing. CPUs say no clock: there
            # all points are one part.
            either = rows[rows["protocol"].isin(["graph, cold", _ALONE])]
            names_power = either["throttle_reasons"].astype(object).fillna("").str.contains("power")
            is_limited = chosen["point"].isin(either.loc[names_power.astype(bool), "point"])
            parts = {" at the power limit": chosen[is_limited], " below it": chosen[~is_limited]}
        for limit, part in ((limit, part) for limit, part in parts.items() if len(part)):
            ends = dict.fromkeys(times(float(end)) for end in part["ratio"].agg(["min", "max"]))
            spans.append(f"{protocol}{limit} {' to '.join(ends)}")
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
            f"Times in turns and alone differ by {half} in the median over "
            f"{count_of(len(alone), 'point')}, and by {most} in the 95th percentile."
        )


SECTION = Section("Method panel", "how", show)
