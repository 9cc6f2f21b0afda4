"""Calibrated constants in units that people read, and what the fit misses on probes left out."""

import re
from collections.abc import Iterator
from typing import Final

import pandas as pd

from roofcal.core.devices import DeviceSpec
from roofcal.core.recipes import GEMM_RECIPES
from roofcal.core.records import Calibration
from roofcal.core.units import fitting_unit, significant, with_interval
from roofcal.ops.constants import Constant, family_of_constant
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.op_pages import constant_ranks, constant_texts
from roofcal.report.data.provenance import outdated_commands, outdated_text
from roofcal.report.kit import columns as col
from roofcal.report.kit.blocks import Commands, Prose, Table, absence
from roofcal.report.kit.numbers import is_missing
from roofcal.report.section import CsvTable, Item, Section

FILE: Final = "constants.csv"
HEADLINE: Final = (
    *col.named("of"),
    col.text("label", "constant"),
    col.written_number("value", "calibrated", "value_si"),
    *col.named("unit"),
    col.text("interval", "95 % interval"),
    col.written_number("datasheet", "datasheet", "datasheet_si"),
    col.fraction("fraction", "of datasheet"),
    col.wide("evidence", "fitted on"),
)
FULL: Final = (*HEADLINE[:-1], col.code("name", "name"), col.text("evidence", "fitted on"))
PROBE_ERRORS: Final = (
    *col.named("op", "provider", "recipe"),
    col.count("count", "probes"),
    col.fraction("mape", "MAPE"),
    col.fraction("median", "median"),
    col.fraction("p95", "95th percentile"),
)

COLUMNS: Final = (
    *("group", "name", "label", "value", "ci95_low", "ci95_high", "unit", "datasheet"),
    *("fraction", "choice", "evidence", "headline"),
)
DEVICE_GROUP: Final = "device"


def show(analysis: Analysis) -> Iterator[Item]:
    """Constants of the device, then those of its models, and the error of the fit."""
    calibration = analysis.run.calibration
    if calibration is None:
        yield absence("This run is not calibrated: it has no calibration.jsonl.")
        return
    constants = constants_table(calibration, analysis.spec)
    if len(constants):
        yield CsvTable(FILE, constants.drop(columns="headline"))
    yield Prose(
        text=f"Fitted on {calibration.probe_points:,} probe points alone; intervals are "
        "95 % bootstrap intervals; those of links hold sizes that were left out, too. No constant "
        "is taken from a datasheet."
    )
    if analysis.run.outdated:
        yield Prose(text=f"In this run, {outdated_text(analysis.run)}:")
        yield Commands(lines=outdated_commands(analysis))
    is_headline = constants["headline"].astype(bool)
    headline, others = map(readable_constants, (constants[is_headline], constants[~is_headline]))
    yield Table("headline", "What the device does", headline, HEADLINE, FILE)
    name = "Constants of the models of products and casts"
    yield Table("constants-all", name, others, FULL, FILE)
    columns = col.keys_of(PROBE_ERRORS)  # named as the constants are: op, provider and recipe
    errors = [
        dict(zip(columns, name.split("."), strict=False)) | dict(errors)
        for name, errors in calibration.probe_errors.items()
    ]
    name = "Error on probes that were left out of the fit"
    yield Table("probe-errors", name, pd.DataFrame(errors).reindex(columns=columns), PROBE_ERRORS)


def constants_table(calibration: Calibration, spec: DeviceSpec | None) -> pd.DataFrame:
    """One row per constant, those of the device first, then by provider and recipe.

    A constant is named `<prefix>.<provider>.<recipe>.<constant>`, those of the device by one word.
    datasheet and fraction (value / datasheet) are empty for constants that the datasheet does not
    have, and without a datasheet. `choice` is what a constant of unit "code" stands for.
    """
    ranks, rows = constant_ranks(), []
    for name, constant in calibration.constants.items():
        head, _, last = name.rpartition(".")
        prefix, *group = head.split(".")
        spare = Constant(last, constant.unit, last.replace("_", " "))
        declared = constant_texts(prefix).get(last) or spare
        datasheet = None
        if spec is not None and declared.datasheet == "peak":
            product = GEMM_RECIPES.get(group[-1] if group else "")
            datasheet = spec.peak_flops_per_s.get(product.math_dtype) if product else None
        elif spec is not None and declared.datasheet:
            datasheet = float(getattr(spec, declared.datasheet))
        row = {
            "group": " ".join(group) or DEVICE_GROUP,
            "name": name,
            "label": declared.label,
            "value": constant.value,
            "ci95_low": constant.ci95_low,
            "ci95_high": constant.ci95_high,
            "unit": constant.unit,
            "datasheet": datasheet,
            "fraction": constant.value / datasheet if datasheet else None,
            "choice": family_of_constant(name, constant),
            "evidence": constant.evidence,
            "headline": declared.headline,
        }
        place = (group != [], row["group"], ranks.get(last, len(ranks)), name)
        rows.append((place, row))
    rows.sort(key=lambda pair: pair[0])
    return pd.DataFrame([row for _, row in rows], columns=list(COLUMNS))


def readable_constants(constants: pd.DataFrame) -> pd.DataFrame:
    """A constants_table as text, each row in a unit that fits it; `*_si` columns sort it."""
    rows = []
    for row in constants.to_dict("records"):
        numbers = row["value"], row["ci95_low"], row["ci95_high"]
        value, interval, unit = with_interval(*numbers, row["unit"])
        factor, _ = fitting_unit(row["value"], row["unit"])
        printed = row["datasheet"]
        digits = 4 if interval or factor != 1.0 else 1  # an exact count has no decimals
        readable = {
            "of": row["group"],
            "value": value if is_missing(row["choice"]) else row["choice"],
            "value_si": row["value"],
            "interval": interval or None,
            "datasheet": None if is_missing(printed) else significant(printed / factor, digits),
            "datasheet_si": printed,
            "unit": unit,
            "evidence": re.sub(r"[{}']", "", row["evidence"]),  # a shape in Python's spelling
        }
        rows.append({name: row[name] for name in ("label", "fraction", "name")} | readable)
    return pd.DataFrame(rows)


SECTION = Section("Calibrated constants", "trust", show)
