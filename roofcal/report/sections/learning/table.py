"""The learning curves of a run as the report reads them, and their repetitions in one row."""

from pathlib import Path
from typing import Final

import pandas as pd

from roofcal.report.data.derived import read_derived
from roofcal.report.kit.blocks import Column
from roofcal.report.kit.columns import count, fraction, text

_CURVE: Final = ("op", "recipe", "provider")
_COUNTS: Final = ("probes", "repetition", "held_out")
_ERRORS: Final = ("mape", "median", "p95")
NEEDED: Final = (*_CURVE, *_COUNTS, *_ERRORS)
SOURCE: Final = "learning.csv"

COLUMNS: Final[tuple[Column, ...]] = (
    text("op", "op"),
    text("recipe", "recipe"),
    text("provider", "provider"),
    count("probes", "probes fitted on"),
    count("held_out", "judged on"),
    count("repetitions", "repetitions"),
    fraction("mape", "MAPE"),
    fraction("mape_low", "lowest"),
    fraction("mape_high", "highest"),
    fraction("median", "median"),
    fraction("p95", "95th percentile"),
)


def read_curves(derived: Path) -> pd.DataFrame:
    """The rows of learning.csv of a run; empty where it has none. Raises as read_derived."""
    return read_derived(derived / SOURCE, NEEDED, (*_COUNTS, *_ERRORS))


def by_probes(table: pd.DataFrame) -> pd.DataFrame:
    """One row per curve and number of probes: the middle repetition of each error, MAPE's range."""
    rows = table.groupby([*_CURVE, "probes"], sort=False, as_index=False)
    return rows.agg(
        held_out=("held_out", "first"),
        repetitions=("repetition", "nunique"),
        mape=("mape", "median"),
        mape_low=("mape", "min"),
        mape_high=("mape", "max"),
        median=("median", "median"),
        p95=("p95", "median"),
    )
