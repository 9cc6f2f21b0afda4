"""Frames as files that other programs read: CSV, JSON, Markdown."""

import json
from pathlib import Path
from typing import Final

import pandas as pd

from roofcal.core.devices import load_devices
from roofcal.core.files import write_bytes
from roofcal.report.data.loading import ReportError, load_run
from roofcal.report.data.tidy import tidy_frame

FORMATS: Final = ("csv", "json", "markdown")


def tidy_table_text(
    run_dir: Path, derived_dir: Path | None, op: str, devices_folder: Path, form: str = "csv"
) -> str:
    """The tidy frame of one op as text: CSV (full precision), JSON (a list of rows) or Markdown.

    Raises:
        ReportError: the run has no plan of the op, or there is no such format.
        RecordsError: a file of the run is bad.
        ConfigError: a datasheet is bad.
    """
    run = load_run(run_dir, derived_dir)
    if op not in run.ops:
        planned = ", ".join(run.ops) or "none"
        raise ReportError(f"{run_dir} has no plan of op '{op}'; it has: {planned}")
    frame = tidy_frame(run, op, load_devices(devices_folder).get(run.environment.device))
    if form not in FORMATS:
        raise ReportError(f"unknown format '{form}'; known: {', '.join(FORMATS)}")
    return {"csv": as_csv, "json": as_json, "markdown": as_markdown}[form](frame)


def as_csv(frame: pd.DataFrame) -> str:
    """A header and one line per row; numbers as Python reprs, nothing for a missing value."""
    return str(frame.to_csv(index=False, lineterminator="\n"))


def as_json(frame: pd.DataFrame) -> str:
    """A list of objects, one per line; null for a missing value."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return f"[\n{lines}\n]\n" if rows else "[]\n"


def as_markdown(frame: pd.DataFrame) -> str:
    """A table of the columns that hold any value, numbers to five digits."""
    filled = frame.dropna(axis="columns", how="all").replace(r"\|", r"\\|", regex=True)
    cells = filled.astype(object).where(filled.notna(), None)
    # pandas writes Markdown through tabulate, which comes with Snakemake
    return f"{cells.to_markdown(index=False, floatfmt='.5g', missingval='')}\n"


def write_csv(path: Path, frame: pd.DataFrame) -> None:
    """A frame as CSV, whole or not at all; raises OSError."""
    write_bytes(path, as_csv(frame).encode())
