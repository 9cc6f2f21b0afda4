"""The tidy frames as files that other programs read."""

import json
from pathlib import Path
from typing import Final, Literal

import pandas as pd

from roofcal.core.devices import load_devices
from roofcal.core.files import write_bytes
from roofcal.report.data.loading import ReportError, load_run
from roofcal.report.data.tidy import tidy_frame
from roofcal.report.kit.numbers import is_missing, significant

Format = Literal["csv", "json", "markdown"]
FORMATS: Final = ("csv", "json", "markdown")


def write_table(
    run_dir: Path, derived_dir: Path | None, op: str, devices_folder: Path, form: str = "csv"
) -> str:
    """The tidy frame of one op as CSV (full precision), JSON (a list of rows) or Markdown.

    Raises ReportError where the run has no plan of the op or the format is unknown, RecordsError
    for bad files, ConfigError for a bad datasheet.
    """
    run = load_run(run_dir, derived_dir)
    if op not in run.ops:
        has = ", ".join(run.ops) or "none"
        raise ReportError(f"{run_dir} has no plan of op '{op}'; it has: {has}")
    frame = tidy_frame(run, op, load_devices(devices_folder).get(run.environment.device))
    if form not in FORMATS:
        raise ReportError(f"unknown format '{form}'; known: {', '.join(FORMATS)}")
    return {"csv": as_csv, "json": as_json, "markdown": as_markdown}[form](frame)


def as_csv(frame: pd.DataFrame) -> str:
    """A header and one line per row; numbers as Python reprs, nothing for what is missing."""
    return str(frame.to_csv(index=False, lineterminator="\n"))


def as_json(frame: pd.DataFrame) -> str:
    """A list of objects, one per line; null for what is missing."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return f"[\n{lines}\n]\n" if rows else "[]\n"


def as_markdown(frame: pd.DataFrame) -> str:
    """A table of the columns in which something stands, numbers to five digits."""
    some = frame[[name for name in frame.columns if frame[name].notna().any()]]
    lines = ["| " + " | ".join(some.columns) + " |", "|" + " --- |" * len(some.columns)]
    rows = (" | ".join(_cell(value) for value in row) for row in some.itertuples(index=False))
    lines += [f"| {row} |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    if is_missing(value):
        return ""
    if isinstance(value, float):
        return significant(value, 5, plain=True)
    return str(value).replace("|", "\\|")


def write_csv(path: Path, frame: pd.DataFrame) -> None:
    """A frame as CSV, whole or not at all; raises OSError."""
    write_bytes(path, as_csv(frame).encode())
