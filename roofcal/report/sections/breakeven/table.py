"""The break-even map of a run as the report reads it, and the break-even M of each weight."""

from pathlib import Path
from typing import Final

import pandas as pd

from roofcal.report.data.derived import read_derived
from roofcal.report.kit.blocks import Column
from roofcal.report.kit.columns import count, text

_LABELS: Final = ("recipe", "pass", "casts")
_SIZES: Final = ("m", "n", "k")
_RATIOS: Final = ("speedup", "low", "high")
_ENDS: Final = ("breakeven_m_low", "breakeven_m", "breakeven_m_high")
NEEDED: Final = (*_LABELS, *_SIZES, *_RATIOS, "class", *_ENDS)
SOURCE: Final = "breakeven.csv"

COLUMNS: Final[tuple[Column, ...]] = (
    text("recipe", "recipe"),
    text("pass", "pass"),
    text("casts", "casts by"),
    count("n", "n"),
    count("k", "k"),
    Column(
        key="breakeven_m_low",
        label="perhaps from m",
        kind="number",
        show=lambda v: f"{int(v):,}",
        about="from here on the high end of the 95 % interval of the speed-up is above 1",
    ),
    count("breakeven_m", "best estimate"),
    Column(
        key="breakeven_m_high",
        label="surely from m",
        kind="number",
        show=lambda v: f"{int(v):,}",
        about="from here on the low end is above 1",
    ),
    Column(
        key="best",
        label="best speed-up",
        kind="number",
        show=lambda v: f"{v:.2f}\N{MULTIPLICATION SIGN}",
    ),
)


def read_map(derived: Path) -> pd.DataFrame:
    """The rows of breakeven.csv of a run; empty where it has none. Raises as read_derived."""
    return read_derived(derived / SOURCE, NEEDED, (*_SIZES, *_RATIOS, *_ENDS))


def smallest_m(table: pd.DataFrame) -> pd.DataFrame:
    """Per recipe, pass, casts and weight the break-even m and the highest speed-up of the map."""
    keys = [*_LABELS, "n", "k"]
    rows = table.groupby(keys, sort=True, as_index=False)
    best = rows["speedup"].max()["speedup"]
    return rows[[*keys, *_ENDS]].head(1).sort_values(keys, ignore_index=True).assign(best=best)
