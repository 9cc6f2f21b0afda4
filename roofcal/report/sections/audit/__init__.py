"""Points that are faster than a roof, with the likely cause."""

from collections.abc import Iterator
from typing import Final

from roofcal.report.data.analysis import Analysis
from roofcal.report.data.tidy import with_protocol
from roofcal.report.kit.blocks import Prose, Table
from roofcal.report.kit.columns import named, ratio, seconds, text, wide
from roofcal.report.section import CsvTable, Item, Section

FILE: Final = "violations.csv"
CAUSES: Final = (
    text("bound", "roof"),
    *named("op", "points"),
    ratio("worst", "faster by at most"),
    wide("cause", "most likely cause"),
)
POINTS: Final = (
    text("bound", "roof"),
    *named("op", "recipe", "shape", "provider", "protocol"),
    seconds("median_s", "measured"),
    seconds("bound_s", "least by the roof"),
    ratio("factor", "faster by"),
    *named("interval_holds", "sm_clock_hz"),
    wide("cause", "most likely cause"),
)


def show(analysis: Analysis) -> Iterator[Item]:
    """Violations by roof, op and cause with their largest factor, then one by one."""
    table = analysis.violations
    yield CsvTable(FILE, table)
    yield Prose(
        text="A point whose whole interval lies below the least time of a roof has one of three "
        "causes: the roof is wrong, the data came from the cache, or the timer is broken. Points "
        "timed hot are left out: their data stays in the cache on purpose."
    )
    if table.empty:
        yield Prose(text="There is none.")
        return
    groups = table.groupby(["bound", "op", "cause"], sort=True)["factor"]
    causes = groups.agg(points="size", worst="max").reset_index()
    causes = causes.sort_values(["bound", "points"], ascending=False)
    yield Table("causes", "Roofs beaten, and the likely cause", causes, CAUSES)
    yield Table("violations", "Points faster than a roof", with_protocol(table), POINTS, FILE)


SECTION = Section("Points faster than a roof", "trust", show)
