"""The same points timed by every method: what the way of timing does to a number."""

from collections.abc import Iterator
from typing import Final

import pandas as pd

from roofcal.report.data.analysis import Analysis
from roofcal.report.data.tidy import (
    PROTOCOL,
    axes_of,
    ok_rows,
    standard_protocol,
    with_protocol,
    with_shape,
)
from roofcal.report.kit.blocks import Block, absence
from roofcal.report.kit.columns import CLOCK, POWER, ratio, seconds, text, texts
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Section, filled_table
from roofcal.report.sections.method_panel.figure import draw_panel

FILE: Final = "method_panel.csv"
COLUMNS: Final = (
    *texts("recipe", "shape"),
    text("protocol", "timed by"),
    seconds("median_s", "median"),
    ratio("ratio", "to graph, cold"),
    ratio("ratio_low", "low"),
    ratio("ratio_high", "high"),
    CLOCK,
    POWER,
)
_RATIOS: Final = {"ratio": "median_s", "ratio_low": "ci95_low_s", "ratio_high": "ci95_high_s"}


def method_panel(frame: pd.DataFrame) -> pd.DataFrame:
    """The panel's points by every method, and their time over that of graph replay, cold, normal.

    One row per point of a shape and recipe that was timed in more than one way; `ratio` is empty
    if the graph/cold/normal point has no time.
    """
    axes = axes_of(frame)
    timed = ok_rows(frame)
    keys = ["op", "provider", "recipe", *axes, "world_size"]
    base = timed.loc[standard_protocol(timed), [*keys, "median_s"]].drop_duplicates(keys)
    names_panel = timed["sweeps"].astype(str).str.contains(r"(?:^|;)panel", regex=True)
    is_in_panel = names_panel.astype(bool) & (timed["repeat"] == 0)
    rows = timed[is_in_panel].merge(base, on=keys, how="left", suffixes=("", "_graph"))
    for name, seconds_column in _RATIOS.items():
        rows[name] = rows[seconds_column] / rows["median_s_graph"]
    columns = ["op", "provider", "recipe", *axes, *PROTOCOL, "median_s", *_RATIOS]
    columns += ["sm_clock_hz", "power_w", "point_id"]
    return rows[columns].sort_values([*axes, "recipe", *PROTOCOL]).reset_index(drop=True)


def _contents(analysis: Analysis) -> pd.DataFrame:
    """The panel of the op that has the longest one."""
    panels = [method_panel(frame) for frame in analysis.frames.values() if not frame.empty]
    return max(panels, key=len, default=pd.DataFrame())


def _blocks(panel: pd.DataFrame, writer: SectionWriter) -> Iterator[Block]:
    if panel.empty:
        yield absence("This run has no method panel.")
        return
    yield from writer.figures(draw_panel(panel))
    rows = with_shape(with_protocol(panel))
    yield writer.table("panel", "The same points by every method", rows, COLUMNS, FILE)


SECTION = Section(
    key="method-panel",
    title="Method panel",
    question="how",
    contents=_contents,
    blocks=_blocks,
    tables=lambda panel: filled_table(FILE, with_shape(panel) if len(panel) else panel),
)
