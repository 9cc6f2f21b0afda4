"""A figure with all that must stand beside it in words."""

from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from roofcal.report.kit.charts import Chart
from roofcal.report.kit.print_chart import print_chart


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure: a chart that is declared, or one that is drawn by hand.

    key    <section folder>/<key>.md says what it shows and how that was measured
    alt    what a reader who cannot see it should know; `facts` follow it
    facts  numbers of this very figure, one or two sentences
    op     the op whose tidy table it was drawn from
    """

    key: str
    drawn: Chart | Figure
    alt: str
    facts: str
    op: str

    @property
    def chart(self) -> Chart | None:
        """What a page shows in the place of the figure, for readers with a pointer."""
        return self.drawn if isinstance(self.drawn, Chart) else None

    @property
    def figure(self) -> Figure:
        """The figure on paper; a chart is drawn anew each time."""
        return print_chart(self.drawn) if isinstance(self.drawn, Chart) else self.drawn


def thinned(rows: pd.DataFrame, most: int) -> pd.DataFrame:
    """At most so many rows, evenly spaced in the order of measuring; more dots hide each other."""
    if len(rows) <= most:
        return rows
    return rows.iloc[[index * len(rows) // most for index in range(most)]]


def thinning_note(drawn: int, total: int) -> str:
    """A sentence for a figure that leaves points out, "" for one that draws all."""
    return f" {drawn:,} of {total:,} points are drawn, evenly chosen." if drawn < total else ""
