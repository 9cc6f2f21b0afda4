"""From how many tokens on a linear in fp8, casts included, is faster than in bf16."""

from collections.abc import Iterator
from typing import Final

import pandas as pd

from roofcal.report.data.derived import DerivedTable, derived_table
from roofcal.report.kit.blocks import Block, absence
from roofcal.report.kit.columns import count, counts, ratio, text, texts
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Section, derived_file
from roofcal.report.sections.breakeven.figure import draw_breakeven

FILE: Final = "breakeven.csv"
_KEYS: Final = ("recipe", "pass", "casts")
LABELS: Final = (*_KEYS, "class")
_ENDS: Final = ("breakeven_m_low", "breakeven_m", "breakeven_m_high")
NUMBERS: Final = ("m", "n", "k", "speedup", "low", "high", *_ENDS)
COLUMNS: Final = (
    *texts("recipe", "pass"),
    text("casts", "casts by"),
    *counts("n", "k"),
    count(
        "breakeven_m_low",
        "perhaps from m",
        "from here on the high end of the 95 % interval of the speed-up is above 1",
    ),
    count("breakeven_m", "best estimate"),
    count("breakeven_m_high", "surely from m", "from here on the low end is above 1"),
    ratio("best", "best speed-up"),
)


def smallest_m(table: pd.DataFrame) -> pd.DataFrame:
    """Per recipe, pass, casts and weight the break-even m and the highest speed-up of the map."""
    keys = [*_KEYS, "n", "k"]
    rows = table.groupby(keys, sort=True, as_index=False)
    best = rows["speedup"].max()["speedup"]
    return rows[[*keys, *_ENDS]].head(1).sort_values(keys, ignore_index=True).assign(best=best)


def _blocks(derived: DerivedTable, writer: SectionWriter) -> Iterator[Block]:
    if derived.rows.empty:
        yield absence("This run has no break-even map of linears.")
        return
    picture = draw_breakeven(derived.rows)
    yield from writer.figures(picture, source=FILE, command=derived.command)
    name = "Smallest m from which on a linear is faster than in bf16; none: never up to 131,072"
    yield writer.table("breakeven-m", name, smallest_m(derived.rows), COLUMNS, FILE)


SECTION = Section(
    key="breakeven",
    title="Break-even of linears in fp8",
    question="recipe",
    contents=lambda analysis: derived_table(analysis.run, FILE, LABELS, NUMBERS),
    blocks=_blocks,
    tables=derived_file,
)
