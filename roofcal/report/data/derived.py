"""CSV files that a stage derives beside the records of a run, as the report reads them."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from roofcal.report.data.loading import ReportError


def read_derived(path: Path, needed: Sequence[str], numbers: Sequence[str]) -> pd.DataFrame:
    """The rows of a CSV file; empty where there is none.

    Raises ReportError for a file without the columns `needed`, or with text in those of `numbers`.
    """
    if not path.is_file():
        return pd.DataFrame(columns=list(needed))
    again = "delete it and run `make study` again"
    try:
        table = pd.read_csv(path, keep_default_na=False, na_values=[""])
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ReportError(f"{path}: is no CSV file ({error}); {again}") from None
    missing = [name for name in needed if name not in table.columns]
    if missing:
        raise ReportError(f"{path}: column {', '.join(missing)} is missing; {again}")
    for name in numbers:
        if len(table) and not pd.api.types.is_numeric_dtype(table[name]):
            raise ReportError(f"{path}: column {name} holds something else than numbers; {again}")
    return table
