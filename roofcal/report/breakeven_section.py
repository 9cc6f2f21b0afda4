"""The break-even map of a run as the report reads it, and the break-even M of each weight."""

from pathlib import Path
from typing import Final

import pandas as pd

from roofcal.report.columns import count, text
from roofcal.report.loading import ReportError
from roofcal.report.page import Column

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
    """The rows of breakeven.csv of a run; empty where it has none.

    Raises ReportError for a file without the columns NEEDED or with text for a number.
    """
    path = derived / SOURCE
    if not path.is_file():
        return pd.DataFrame(columns=list(NEEDED))
    again = "delete it and run `make study` again"
    try:
        table = pd.read_csv(path, keep_default_na=False, na_values=[""])
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ReportError(f"{path}: is no CSV file ({error}); {again}") from None
    missing = [name for name in NEEDED if name not in table.columns]
    if missing:
        raise ReportError(f"{path}: column {', '.join(missing)} is missing; {again}")
    for name in (*_SIZES, *_RATIOS, *_ENDS):
        if len(table) and not pd.api.types.is_numeric_dtype(table[name]):
            raise ReportError(f"{path}: column {name} holds something else than numbers; {again}")
    return table


def smallest_m(table: pd.DataFrame) -> pd.DataFrame:
    """Per recipe, pass, casts and weight the break-even m and the highest speed-up of the map."""
    keys = [*_LABELS, "n", "k"]
    rows = table.groupby(keys, sort=True, as_index=False)
    best = rows["speedup"].max()["speedup"]
    return rows[[*keys, *_ENDS]].head(1).sort_values(keys, ignore_index=True).assign(best=best)
