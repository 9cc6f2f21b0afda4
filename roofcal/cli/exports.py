"""What other programs read: `table`, the tidy frame of an op; `export`, calibrated constants."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from roofcal.cli.arguments import Commands, add_device, write_or_print
from roofcal.core import paths
from roofcal.core.environments import version_key
from roofcal.core.paths import RunFolder, run_folders

if TYPE_CHECKING:
    import pandas as pd


def add_table(commands: Commands) -> None:
    """Declare `table` and its arguments."""
    parser = commands.add_parser("table", help="the tidy frame of an op, one row per point")
    parser.add_argument("--device", required=True, help="e.g. h200")
    parser.add_argument("--op", required=True, help="e.g. gemm")
    parser.add_argument("--environment", help="default: the latest calibrated one")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--format", choices=("csv", "json", "markdown", "latex"), default="csv")
    form.add_argument("--json", action="store_const", dest="format", const="json")
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="CONDITION",
        help="rows that fit alone, as 'm = 4096' or 'provider != triton'; may be given again",
    )
    parser.add_argument("--columns", metavar="NAMES", help="these columns, with commas between")
    parser.set_defaults(run=_table)


def _table(options: argparse.Namespace) -> None:
    from roofcal.report.data.table_files import table_text

    columns = [name.strip() for name in (options.columns or "").split(",") if name.strip()]
    text = table_text(_frame(options), options.format, options.where, columns)
    sys.stdout.write(text)


def _frame(options: argparse.Namespace) -> "pd.DataFrame":
    """The tidy frame by the records; that of the publication where it is without its samples."""
    from roofcal.export.frames import RunFrames
    from roofcal.report.data.table_files import tidy_table
    from roofcal.study.run_search import find_run
    from roofcal.study.runs import RunsError

    try:
        run = find_run(options.device, options.environment)
    except RunsError:
        published = published_without_samples(options.device, options.environment)
        if published is None:
            raise
        return RunFrames(options.device, published.environment_id, published).table(options.op)
    return tidy_table(run.folder, run.derived, options.op, paths.DEVICES)


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


def add_export(commands: Commands) -> None:
    """Declare `export` and its arguments."""
    parser = commands.add_parser("export", help="calibrated constants for other tools")
    add_device(parser, required=True)
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--json", action="store_const", dest="format", const="json")
    form.add_argument(
        "--format",
        help="torchao, aiconfigurator, calculon, llm-analysis, genz, csv, json, yaml, markdown "
        "or latex",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: print it")
    parser.set_defaults(run=_export)


def _export(options: argparse.Namespace) -> None:
    """Print the file, or write it to --out, and say where the constants come from."""
    from roofcal.ask.sources import datasheet
    from roofcal.export.formats import check_format, export
    from roofcal.export.subject import Subject
    from roofcal.models.calibrations import find_calibration

    check_format(options.format)
    folder, calibration = find_calibration(
        options.device, options.environment, paths.PUBLISHED, paths.RESULTS
    )
    subject = Subject.of_run(RunFolder.at(folder), calibration, datasheet(calibration.device))
    write_or_print(export(options.format, subject), options.out)
    print(f"from: {folder}", file=sys.stderr)
