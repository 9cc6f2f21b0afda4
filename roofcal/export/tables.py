"""The constants of a calibration as tables and as plain data. See docs/exports.md."""

import json
import re
from dataclasses import asdict
from html import escape
from typing import Any

import pandas as pd
import yaml

from roofcal.core.csv_files import defused
from roofcal.core.units import with_interval
from roofcal.export.subject import ExportError, Subject, comment_lines
from roofcal.ops.constants import family_of_constant


def constant_rows(subject: Subject) -> list[dict[str, Any]]:
    """The constants of the device, then those of each recipe, by name.

    `choice` names the family that a constant of unit "code" stands for. Raises ExportError where
    there are none.
    """
    constants = subject.calibration.constants
    if not constants:
        raise ExportError("this calibration holds no constants: none of its probes was measured")
    return [
        {
            "name": name,
            "value": constants[name].value,
            "ci95_low": constants[name].ci95_low,
            "ci95_high": constants[name].ci95_high,
            "unit": constants[name].unit,
            "choice": family_of_constant(name, constants[name]),
            "evidence": constants[name].evidence,
        }
        for name in sorted(constants, key=lambda name: ("." in name, name))
    ]


def write_csv(subject: Subject) -> str:
    """The table; floats as Python prints them, which reads back to the same bits."""
    calibration = subject.calibration
    frame = pd.DataFrame(constant_rows(subject))
    frame.insert(0, "device", calibration.device)
    frame.insert(1, "environment_id", calibration.environment_id)
    frame = frame.map(lambda cell: defused(cell) if isinstance(cell, str) else cell)
    return frame.to_csv(index=False, lineterminator="\n")


def plain_data(subject: Subject, form: str) -> dict[str, Any]:
    """The whole calibration as mappings, lists, text and numbers in a fixed order."""
    calibration = subject.calibration
    errors = calibration.probe_errors
    return {
        "made_by": subject.command(form),
        "device": calibration.device,
        "environment_id": calibration.environment_id,
        "environment": asdict(subject.environment) if subject.environment else None,
        "probe_points": calibration.probe_points,
        "seed": calibration.seed,
        "constants": constant_rows(subject),
        "probe_errors": {recipe: dict(sorted(errors[recipe].items())) for recipe in sorted(errors)},
    }


def write_json(subject: Subject) -> str:
    """The object; raises ExportError for a constant that is infinite or not a number."""
    data = plain_data(subject, "json")
    try:
        return json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    except ValueError:
        raise ExportError(
            "cannot hold infinite numbers, and a constant of this calibration is one; "
            "export yaml or csv"
        ) from None


def write_yaml(subject: Subject) -> str:
    """The mapping below comments that say where it comes from."""
    data = plain_data(subject, "yaml")
    body = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)
    return comment_lines(subject.provenance("yaml")) + str(body)


def _readable_frame(subject: Subject) -> pd.DataFrame:
    """The constants for people: value and interval share a unit that fits them."""
    rows = []
    for row in constant_rows(subject):
        numbers = row["value"], row["ci95_low"], row["ci95_high"]
        value, interval, unit = with_interval(*numbers, row["unit"])
        value, fitted = row["choice"] or value, re.sub(r"[{}']", "", row["evidence"])
        rows.append((row["name"], value, interval, unit, fitted))
    columns = ["constant", "value", "95 % interval", "unit", "fitted on"]
    return pd.DataFrame(rows, columns=columns, dtype=object)


def write_markdown(subject: Subject) -> str:
    """A sentence on where it comes from, and the table."""
    calibration = subject.calibration
    head = (
        f"Calibrated constants of {calibration.device} in {calibration.environment_id}"
        f" ({calibration.probe_points} probe points, seed {calibration.seed}):"
        f" `{subject.command('markdown')}`"
    )
    # Cells are text alone: what a stranger wrote makes no column, link or HTML.
    frame = _readable_frame(subject).map(lambda text: escape(" ".join(text.split()), quote=False))
    frame = frame.replace(r"([|\[\]`])", r"\\\1", regex=True)
    frame["constant"] = "`" + frame["constant"] + "`"
    table = frame.to_markdown(
        index=False,
        disable_numparse=True,  # 4.280 is text: tabulate would write 4.28
        colalign=("left", "right", "right", "left", "left"),
    )
    return f"{head}\n\n{table}\n"


def write_latex(subject: Subject) -> str:
    """A longtable; comments say where it comes from."""
    calibration = subject.calibration
    frame = _readable_frame(subject).drop(columns="fitted on")
    frame["95 % interval"] = frame["95 % interval"].str.replace(" to ", "--")
    frame.columns = [title.capitalize() for title in frame.columns]
    title = f"Calibrated constants of {calibration.device} in {calibration.environment_id}."
    table = frame.to_latex(
        index=False,
        longtable=True,
        escape=True,
        # pandas escapes cells, and no caption
        caption=re.sub(r"([&%$#_{}])", r"\\\1", title),
        column_format=r"@{}>{\ttfamily}lrrl@{}",
    )
    packages = r"needs \usepackage{array}, \usepackage{booktabs} and \usepackage{longtable}"
    comments = comment_lines([*subject.provenance("latex"), packages], mark="%")
    return comments + table.replace("µ", r"\textmu ")
