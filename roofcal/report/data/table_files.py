"""Frames as files that other programs read: CSV, JSON, Markdown, LaTeX; chosen rows of them."""

import json
import operator
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd

from roofcal.ask.devices import datasheet
from roofcal.core.csv_files import defused
from roofcal.core.names import did_you_mean
from roofcal.points.run import load_run
from roofcal.report.data.provenance import ReportError

_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    # longer ones first, so that >= is not read as >
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    "=": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}


def table_text(
    frame: pd.DataFrame, form: str, conditions: Sequence[str] = (), columns: Sequence[str] = ()
) -> str:
    """Rows of a frame as csv (full precision), json (a list of rows), markdown or latex.

    conditions: what holds of the rows, as `m = 4096`; columns: which to write, none for all. Raises
    ReportError for an unknown column or format, what is no condition, and where no row fits.
    """
    chosen = frame
    for condition in conditions:
        chosen = chosen[_rows_that_fit(frame, condition).loc[chosen.index]]
    if chosen.empty and len(frame):
        raise ReportError(f"no row fits {' and '.join(conditions)}; {_columns_there_are(frame)}")
    for name in columns:
        _check_column(frame, name)
    formats = {"csv": as_csv, "json": as_json, "markdown": as_markdown, "latex": as_latex}
    if form not in formats:
        raise ReportError(f"unknown format '{form}'; known: {', '.join(formats)}")
    return formats[form](chosen[list(columns)] if columns else chosen)


def _rows_that_fit(frame: pd.DataFrame, condition: str) -> "pd.Series[bool]":
    sign = next((sign for sign in _COMPARISONS if sign in condition), None)
    name, _, text = (part.strip() for part in condition.partition(sign or "\0"))
    if sign is None:
        signs = " ".join(_COMPARISONS)
        raise ReportError(f"'{condition}' is no condition, as m = 4096 is one; signs: {signs}")
    _check_column(frame, name)
    compare = _COMPARISONS[sign]
    if not pd.api.types.is_numeric_dtype(frame[name]):
        return pd.Series(compare(frame[name].fillna("").astype(str), text))
    try:
        return pd.Series(compare(frame[name], float(text)))
    except ValueError:
        raise ReportError(
            f"{condition}: column {name} holds numbers, and '{text}' is none"
        ) from None


def _check_column(frame: pd.DataFrame, name: str) -> None:
    if name not in frame:
        columns = list(map(str, frame))
        hint = did_you_mean(name, columns, otherwise=f"; {_columns_there_are(frame)}")
        raise ReportError(f"there is no column '{name}'{hint}")


def _columns_there_are(frame: pd.DataFrame) -> str:
    return f"columns are {', '.join(map(str, frame))}"


def tidy_table(run_dir: Path, derived_dir: Path | None, op: str) -> pd.DataFrame:
    """The tidy frame of one op of a run; raises ReportError where it has no plan of the op.

    Raises RecordsError and ConfigError for bad files.
    """
    run = load_run(run_dir, derived_dir)
    if op not in run.ops:
        planned = ", ".join(run.ops) or "none"
        raise ReportError(f"{run_dir} has no plan of op '{op}'; it has: {planned}")
    return run.points(op, datasheet(run.environment.device)).table


def as_csv(frame: pd.DataFrame) -> str:
    """A header and one line per row; numbers as Python reprs, nothing for a missing value.

    Text that a spreadsheet would take for a formula is defused.
    """
    text = frame.select_dtypes(include=["object", "string"])
    safe = text.map(lambda cell: defused(cell) if isinstance(cell, str) else cell)
    return str(frame.assign(**safe).to_csv(index=False, lineterminator="\n"))


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


def as_latex(frame: pd.DataFrame) -> str:
    """A longtable of the columns that hold any value, numbers to five digits."""
    filled = frame.dropna(axis="columns", how="all").rename(
        columns=lambda name: _escaped(str(name))
    )
    text = filled.select_dtypes(include=["object", "string"])
    escaped = text.map(lambda cell: _escaped(cell) if isinstance(cell, str) else cell)
    # not escape=True: pandas escapes names of columns twice where they hold underscores
    return filled.assign(**escaped).to_latex(
        index=False, longtable=True, escape=False, float_format="%.5g", na_rep=""
    )


def _escaped(text: str) -> str:
    return re.sub(r"([&%$#_{}])", r"\\\1", text.replace("\\", r"\textbackslash "))
