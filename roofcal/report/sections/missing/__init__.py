"""Points without a result, and why each has none."""

from collections.abc import Iterator
from typing import Final

from roofcal.report.data.analysis import Analysis
from roofcal.report.data.tidy import with_protocol
from roofcal.report.kit.blocks import Prose, Table
from roofcal.report.kit.columns import count, named, text, wide
from roofcal.report.section import CsvTable, Item, Section

FILE: Final = "not_ok.csv"
REASONS: Final = (
    count("count", "points"),
    *named("status", "op", "recipe", "provider"),
    text("example", "for example"),
    wide("reason", "reason"),
)
POINTS: Final = (
    *named("status", "op", "recipe", "shape", "provider", "protocol"),
    wide("reason", "reason"),
)
_KEYS: Final = ["op", "status", "provider", "recipe"]


def show(analysis: Analysis) -> Iterator[Item]:
    """Reasons, the most frequent first, then every point that has no result."""
    table = analysis.missing
    yield CsvTable(FILE, table)
    if table.empty:
        yield Prose(text="Every planned point was measured.")
        return
    # Reasons that differ in their numbers alone count as one, shown as the first point has it.
    kind = table["reason"].fillna("").str.replace(r"\d[\d.,]*", "#", regex=True)
    groups = table.groupby([*_KEYS, kind.rename("kind")], as_index=False)
    counted = groups.agg(
        reason=("reason", "first"), count=("op", "size"), example=("shape", "first")
    )
    counted = counted.sort_values("count", ascending=False, kind="stable", ignore_index=True)
    yield Table("reasons", "Why points have no result", counted, REASONS)
    yield Table("missing-all", "Every point that is not ok", with_protocol(table), POINTS, FILE)


SECTION = Section("Points without a result", "how", show)
