"""The tables of points that a report wrote of its records: answers are made of these.

A table is read in a hundredth of the time of the records, which hold every sample; a wheel carries
the tables of publications and no samples. Columns are those of `roofcal.points.columns`.
"""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from roofcal.core import paths
from roofcal.core.paths import RunFolder
from roofcal.ops import BY_NAME


def sqnr_column(output: str) -> str:
    """The column of an output's signal to quantisation noise."""
    return f"{output}_sqnr_db"


def table_files(run: RunFolder) -> dict[str, Path]:
    """Op, or name of another table -> its file: of a publication, else of the report here."""
    folders = (run.folder / "tables", paths.RESULTS / "report/tables")
    files = [file for folder in folders for file in sorted(folder.glob("*.csv"))]
    named = {file.stem.removeprefix(f"{run.device}_"): file for file in reversed(files)}
    foreign = tuple(f"_{op}" for op in BY_NAME)  # ops of other devices in the same report
    return {
        name: file
        for name, file in sorted(named.items())
        if name in BY_NAME or not name.endswith(foreign)
    }


def asked_table_file(run: RunFolder, op: str) -> Path:
    """The table of the points of an op that people asked to be measured in a run's environment."""
    return run.asked.folder / "tables" / f"{op}.csv"


def table_rows(run: RunFolder, op: str, where: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The points of an op whose cells are those of `where`, as text; "" for a missing value.

    Those of the study come before those that were asked for. A run without tables (before its
    report) has none of the first.
    """
    # the tables of a report may hold several runs
    wanted = [("environment_id", run.environment_id), *where.items()]
    for path in (table_files(run).get(op), asked_table_file(run, op)):
        if path is None or not path.is_file():
            continue
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if all(row[name] == value for name, value in wanted):
                    yield row
