"""What other programs read: `table`, the tidy frame of an op; `export`, calibrated constants."""

import argparse
import sys
from pathlib import Path

from roofcal.cli.arguments import Commands, datasheet, write_or_print
from roofcal.core import paths
from roofcal.core.paths import RunFolder


def add_table(commands: Commands) -> None:
    """Declare `table` and its arguments."""
    parser = commands.add_parser("table", help="the tidy frame of an op, one row per point")
    parser.add_argument("--device", required=True)
    parser.add_argument("--op", required=True)
    parser.add_argument("--environment", help="default: the latest calibrated one")
    parser.add_argument("--format", choices=("csv", "json", "markdown"), default="csv")
    parser.set_defaults(run=_table)


def _table(options: argparse.Namespace) -> None:
    from roofcal.report.data.table_files import tidy_table_text
    from roofcal.study.run_search import find_run

    run = find_run(options.device, options.environment)
    text = tidy_table_text(run.folder, run.derived, options.op, paths.DEVICES, options.format)
    sys.stdout.write(text)


def add_export(commands: Commands) -> None:
    """Declare `export` and its arguments."""
    parser = commands.add_parser("export", help="calibrated constants for other tools")
    parser.add_argument("--device", required=True, help="e.g. nvidia-h200")
    parser.add_argument("--environment", help="environment id; default: the latest calibration")
    parser.add_argument(
        "--format",
        required=True,
        help="torchao, aiconfigurator, calculon, llm-analysis, genz, csv, json, yaml, markdown "
        "or latex",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: print it")
    parser.set_defaults(run=_export)


def _export(options: argparse.Namespace) -> None:
    """Print the file, or write it to --out, and say where the constants come from."""
    from roofcal.core.jsonl import read_single_record
    from roofcal.core.records import Environment
    from roofcal.export.formats import check_format, export
    from roofcal.export.subject import Subject
    from roofcal.models.calibrations import find_calibration

    check_format(options.format)
    folder, calibration = find_calibration(
        options.device, options.environment, paths.PUBLISHED, paths.RESULTS
    )
    recorded = RunFolder.at(folder).environment_file
    subject = Subject(
        calibration=calibration,
        spec=datasheet(calibration.device),
        environment=read_single_record(recorded, Environment) if recorded.is_file() else None,
    )
    write_or_print(export(options.format, subject), options.out)
    print(f"from: {folder}", file=sys.stderr)
