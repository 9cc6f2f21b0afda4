"""The break-even map of a run, and the break-even m of each weight."""

from typing import Final

import pandas as pd

from roofcal.report.kit.columns import count, counts, ratio, text, texts

FILE: Final = "breakeven.csv"
_LABELS: Final = ("recipe", "pass", "casts")
_SIZES: Final = ("m", "n", "k")
_RATIOS: Final = ("speedup", "low", "high")
_ENDS: Final = ("breakeven_m_low", "breakeven_m", "breakeven_m_high")
NEEDED: Final = (*_LABELS, *_SIZES, *_RATIOS, "class", *_ENDS)
NUMBERS: Final = (*_SIZES, *_RATIOS, *_ENDS)

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
    keys = [*_LABELS, "n", "k"]
    rows = table.groupby(keys, sort=True, as_index=False)
    best = rows["speedup"].max()["speedup"]
    return rows[[*keys, *_ENDS]].head(1).sort_values(keys, ignore_index=True).assign(best=best)
