"""Files that a stage derives beside the records of a run, as the report reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from roofcal.points.run import Run
from roofcal.report.data.provenance import derived_command, is_outdated


class ReportError(ValueError):
    """A run that cannot be reported; the message names the file and the way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedTable:
    """A derived CSV file of a run: its rows, none without the file, and what prints them."""

    name: str
    rows: pd.DataFrame
    command: str


def derived_table(
    run: Run, name: str, labels: Sequence[str], numbers: Sequence[str]
) -> DerivedTable:
    """The file `name` of a run, empty if it follows from outdated ops; raises as read_derived."""
    rows = read_derived(run.derived / name, labels, numbers)
    if is_outdated(run, name):
        rows = rows.iloc[:0]
    return DerivedTable(name=name, rows=rows, command=derived_command(run, name))


def read_derived(path: Path, labels: Sequence[str], numbers: Sequence[str]) -> pd.DataFrame:
    """The rows of a CSV file; empty without the file.

    Args:
        path: the file.
        labels: columns that it must have.
        numbers: further ones, which must hold numbers alone.

    Raises:
        ReportError: the file lacks a column, or holds text among numbers.
    """
    if not path.is_file():
        return pd.DataFrame(columns=[*labels, *numbers])
    way_out = "delete it and run `make study` again"
    try:
        table = pd.read_csv(path, keep_default_na=False, na_values=[""])
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ReportError(f"{path}: is no CSV file ({error}); {way_out}") from None
    missing = [name for name in (*labels, *numbers) if name not in table.columns]
    if missing:
        raise ReportError(f"{path}: column {', '.join(missing)} is missing; {way_out}")
    for name in numbers:
        if len(table) and not pd.api.types.is_numeric_dtype(table[name]):
            raise ReportError(f"{path}: column {name} holds something else than numbers; {way_out}")
    return table
