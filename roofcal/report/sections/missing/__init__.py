"""Points without a result, and why each has none."""

from collections.abc import Iterator
from typing import Final

import pandas as pd

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
    yield Table("reasons", "Why points have no result", counted_reasons(table), REASONS)
    yield Table("missing-all", "Every point that is not ok", with_protocol(table), POINTS, FILE)


def counted_reasons(missing: pd.DataFrame) -> pd.DataFrame:
    """Points without a result by reason, the most frequent first.

    Reasons that differ in their numbers alone count as one, which is shown as the first point has
    it.
    """
    kind = missing["reason"].fillna("").str.replace(r"\d[\d.,]*", "#", regex=True)
    groups = missing.assign(kind=kind).groupby([*_KEYS, "kind"], as_index=False)
    table = groups.agg(reason=("reason", "first"), count=("op", "size"), example=("shape", "first"))
    ascending = [False, *[True] * len(_KEYS)]
    ordered = table.sort_values(["count", *_KEYS], ascending=ascending, kind="stable")
    return ordered.drop(columns="kind").reset_index(drop=True)


SECTION = Section("Points without a result", "how", show)
