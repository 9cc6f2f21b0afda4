"""Calibrated constants in units that people read, and what the fit misses on probes left out."""

import re
from collections.abc import Iterator
from typing import Any, Final

import pandas as pd

from roofcal.core.records import Calibration
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.provenance import outdated_commands, outdated_text
from roofcal.report.kit.blocks import Block, Commands, Prose, absence
from roofcal.report.kit.columns import code, count, fraction, named, text, wide, written_number
from roofcal.report.kit.numbers import fitting_unit, is_missing, significant
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import CsvTable, Section, filled_table, whole_run

FILE: Final = "constants.csv"
HEADLINE: Final = (
    *named("of"),
    text("label", "constant"),
    written_number("value", "calibrated", "value_si"),
    *named("unit"),
    text("interval", "95 % interval"),
    written_number("datasheet", "datasheet", "datasheet_si"),
    fraction("fraction", "of datasheet"),
    wide("evidence", "fitted on"),
)
FULL: Final = (*HEADLINE[:-1], code("name", "name"), text("evidence", "fitted on"))
PROBE_ERRORS: Final = (
    *named("op", "provider", "recipe"),
    count("count", "probes"),
    fraction("mape", "MAPE"),
    fraction("median", "median"),
    fraction("p95", "95th percentile"),
)


def readable_constants(constants: pd.DataFrame) -> pd.DataFrame:
    """A constants_table as text, each row in a unit that fits it; `*_si` columns sort it."""
    return pd.DataFrame([_readable(row) for row in constants.to_dict("records")])


def _readable(row: dict[Any, Any]) -> dict[str, Any]:
    factor, unit = fitting_unit(row["value"], row["unit"])
    exact = row["ci95_low"] == row["ci95_high"]

    def shown(value: float) -> str | None:
        if is_missing(value):
            return None
        is_count = exact and float(value).is_integer()
        return f"{value:.0f}" if is_count else significant(value / factor, 4)

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


def probe_errors_table(calibration: Calibration) -> pd.DataFrame:
    """Error of the fit on probes left out of it; fractions of the measured time.

    Rows are named as the constants are: op, provider and recipe.
    """
    columns = [column.key for column in PROBE_ERRORS]
    rows = [
        dict(zip(columns, name.split("."), strict=False)) | dict(errors)
        for name, errors in calibration.probe_errors.items()
    ]
    return pd.DataFrame(rows).reindex(columns=columns)


def _blocks(analysis: Analysis, writer: SectionWriter) -> Iterator[Block]:
    calibration, constants = analysis.run.calibration, analysis.constants
    if calibration is None:
        yield absence("This run is not calibrated: it has no calibration.jsonl.")
        return
    yield Prose(
        text=f"Fitted on {calibration.probe_points:,} probe points alone; intervals are "
        "95 % bootstrap intervals; those of links hold sizes that were left out, too. No constant "
        "is taken from a datasheet."
    )
    if analysis.run.outdated:
        yield Prose(text=f"In this run, {outdated_text(analysis.run)}:")
        yield Commands(lines=outdated_commands(analysis))
    is_headline = constants["headline"].astype(bool)
    headline = readable_constants(constants[is_headline])
    yield writer.table("headline", "What the device does", headline, HEADLINE, FILE)
    others = readable_constants(constants[~is_headline])
    name = "Constants of the models of products and casts"
    yield from writer.filled_table("constants-all", name, others, FULL, FILE)
    name, errors = "Error on probes that were left out of the fit", probe_errors_table(calibration)
    yield from writer.filled_table("probe-errors", name, errors, PROBE_ERRORS)


def _tables(analysis: Analysis) -> Iterator[CsvTable]:
    constants = analysis.constants
    return filled_table(FILE, constants.drop(columns="headline") if len(constants) else constants)


SECTION = Section("Calibrated constants", "trust", whole_run, _blocks, tables=_tables)
