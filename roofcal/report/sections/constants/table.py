"""The table of constants as people read it: value and datasheet in one unit, with a prefix."""

import re
from typing import Any, Final

import pandas as pd

from roofcal.report.kit.blocks import Column
from roofcal.report.kit.columns import text, wide
from roofcal.report.kit.numbers import fitting, is_missing, percent, significant

HEADLINE: Final = (
    text("of", "of"),
    text("label", "constant"),
    Column(key="value", label="calibrated", kind="number", by="value_si"),
    text("unit", "unit"),
    text("interval", "95 % interval"),
    Column(key="datasheet", label="datasheet", kind="number", by="datasheet_si"),
    Column(key="fraction", label="of datasheet", kind="number", show=percent),
    wide("evidence", "fitted on"),
)
FULL: Final = (
    *HEADLINE[:-1],
    Column(key="name", label="name", kind="code"),
    text("evidence", "fitted on"),
)


def readable(constants: pd.DataFrame) -> pd.DataFrame:
    """A constants_table as text, each row in a unit that fits it; `*_si` columns sort it."""
    return pd.DataFrame([_row(row) for row in constants.to_dict("records")])


def _row(row: dict[Any, Any]) -> dict[str, Any]:
    factor, unit = fitting(row["value"], row["unit"])
    exact = row["ci95_low"] == row["ci95_high"]

    def shown(value: float) -> str | None:
        if is_missing(value):
            return None
        counted = exact and float(value).is_integer()
        return f"{value:.0f}" if counted else significant(value / factor, 4)

    return {
        "of": row["group"],
        "label": row["label"],
        "value": shown(row["value"]) if is_missing(row["choice"]) else row["choice"],
        "value_si": row["value"],
        "interval": None if exact else f"{shown(row['ci95_low'])} to {shown(row['ci95_high'])}",
        "datasheet": shown(row["datasheet"]),
        "datasheet_si": row["datasheet"],
        "fraction": row["fraction"],
        "unit": unit,
        "evidence": re.sub(r"[{}']", "", row["evidence"]),  # a shape in Python's spelling
        "name": row["name"],
    }
