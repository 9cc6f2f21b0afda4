"""What other programs read: `table`, the tidy frame of an op; `export`, calibrated constants."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from roofcal.cli.arguments import write_or_print
from roofcal.cli.commands import Command
from roofcal.core import paths
from roofcal.core.environments import version_key
from roofcal.core.paths import RunFolder, run_folders

if TYPE_CHECKING:
    import pandas as pd


def table(
    *,
    device: str,
    op: str,
    environment: str | None = None,
    format: Literal["csv", "json", "markdown", "latex"] = "csv",
    json: bool = False,
    where: list[str] | None = None,
    columns: str = "",
) -> None:
    """Print the tidy frame of an op.

    Args:
        op: e.g. gemm
        environment: default: the latest calibrated one
        format: how it is written; default: csv
        json: as --format json
        where (CONDITION): rows that fit alone, as 'm = 4096' or 'provider != triton'; may be given
            again
        columns (NAMES): these columns, with commas between
    """
    from roofcal.report.data.table_files import table_text

    names = [name.strip() for name in columns.split(",") if name.strip()]
    form = "json" if json else format
    sys.stdout.write(table_text(_frame(device, op, environment), form, where or [], names))


def _frame(device: str, op: str, environment: str | None) -> "pd.DataFrame":
    """The tidy frame by the records; that of the publication where it is without its samples."""
    from roofcal.export.frames import RunFrames
    from roofcal.report.data.table_files import tidy_table
    from roofcal.study.run_search import find_run
    from roofcal.study.runs import RunsError

    try:
        run = find_run(device, environment)
    except RunsError:
        published = published_without_samples(device, environment)
        if published is None:
            raise
        return RunFrames(device, published.environment_id, published).table(op)
    return tidy_table(run.folder, run.derived, op, paths.DEVICES)


def published_without_samples(device: str, environment: str | None) -> RunFolder | None:
    """The latest publication of a device that has tables and no samples, as a wheel carries it."""
    runs = [
        run
        for run in run_folders(paths.PUBLISHED)
        if run.device == device
        and environment in (None, run.environment_id)
        and not run.measured_ops()
        and (run.folder / "tables").is_dir()
    ]
    return max(runs, key=lambda run: version_key(run.environment_id), default=None)


def export(
    *,
    device: str,
    environment: str | None = None,
    format: str = "json",
    json: bool = False,  # noqa: ARG001 (the default of --format)
    out: Path | None = None,
) -> None:
    """Print calibrated constants for another tool, and say where they come from.

    Args:
        format: torchao, aiconfigurator, calculon, llm-analysis, genz, csv, json, yaml, markdown or
            latex
        json: as --format json
        out (FILE): default: print it
    """
    from roofcal.ask.devices import datasheet
    from roofcal.export.formats import check_format
    from roofcal.export.formats import export as exported
    from roofcal.export.subject import Subject
    from roofcal.models.calibrations import find_calibration

    check_format(format)
    folder, calibration = find_calibration(device, environment, paths.PUBLISHED, paths.RESULTS)
    subject = Subject.of_run(RunFolder.at(folder), calibration, datasheet(calibration.device))
    write_or_print(exported(format, subject), out)
    print(f"from: {folder}", file=sys.stderr)


TABLE: Final = Command({"": table}, either=("format", "json"))
EXPORT: Final = Command({"": export}, either=("format", "json"), is_needed=True)
