"""Points that are faster than a roof, with the likely cause."""

from collections.abc import Iterator
from typing import Final

import pandas as pd

from roofcal.report.data.analysis import Analysis
from roofcal.report.data.tidy import with_protocol
from roofcal.report.kit.blocks import Block, Prose
from roofcal.report.kit.columns import named, ratio, seconds, text, wide
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import CsvTable, Section, whole_run

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


def counted_causes(violations: pd.DataFrame) -> pd.DataFrame:
    """Violations by roof, op and cause: points, and the largest factor."""
    groups = violations.groupby(["bound", "op", "cause"], sort=True)["factor"]
    counted = groups.agg(points="size", worst="max").reset_index()
    return counted.sort_values(["bound", "points"], ascending=False).reset_index(drop=True)


def _blocks(analysis: Analysis, writer: SectionWriter) -> Iterator[Block]:
    table = analysis.violations
    yield Prose(
        text="A point whose whole interval lies below the least time of a roof has one of three "
        "causes: the roof is wrong, the data came from the cache, or the timer is broken. Points "
        "timed hot are left out: their data stays in the cache on purpose."
    )
    if table.empty:
        yield Prose(text="There is none.")
        return
    name = "Roofs beaten, and the likely cause"
    yield writer.table("causes", name, counted_causes(table), CAUSES)
    points = with_protocol(table)
    yield writer.table("violations", "Points faster than a roof", points, POINTS, FILE)


SECTION = Section(
    "Violation audit",
    "trust",
    whole_run,
    _blocks,
    tables=lambda analysis: [CsvTable(FILE, analysis.violations)],
)
