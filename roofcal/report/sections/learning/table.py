"""The learning curves of a run, and the repetitions of each point of a curve as one row."""

from typing import Final

import pandas as pd

from roofcal.report.kit.columns import count, fraction, texts

FILE: Final = "learning.csv"
_CURVE: Final = ("op", "recipe", "provider")
_COUNTS: Final = ("probes", "repetition", "held_out")
_ERRORS: Final = ("mape", "median", "p95")
NEEDED: Final = (*_CURVE, *_COUNTS, *_ERRORS)
NUMBERS: Final = (*_COUNTS, *_ERRORS)

COLUMNS: Final = (
    *texts("op", "recipe", "provider"),
    count("probes", "probes fitted on"),
    count("held_out", "judged on"),
    count("repetitions", "repetitions"),
    fraction("mape", "MAPE"),
    fraction("mape_low", "lowest"),
    fraction("mape_high", "highest"),
    fraction("median", "median"),
    fraction("p95", "95th percentile"),
)


def middle_repetitions(curves: pd.DataFrame) -> pd.DataFrame:
    """One row per curve and number of probes: the middle repetition of each error, MAPE's range."""
    rows = curves.groupby([*_CURVE, "probes"], sort=False, as_index=False)
    return rows.agg(
        held_out=("held_out", "first"),
        repetitions=("repetition", "nunique"),
        mape=("mape", "median"),
        mape_low=("mape", "min"),
        mape_high=("mape", "max"),
        median=("median", "median"),
        p95=("p95", "median"),
    )
