"""`table`: the tidy frame of an op, one row per point."""

import argparse
import sys

from roofcal.cli import places
from roofcal.cli.places import Commands


def add(commands: Commands) -> None:
    """Declare `table` and its arguments."""
    parser = commands.add_parser("table", help="the tidy frame of an op, one row per point")
    parser.add_argument("--device", required=True)
    parser.add_argument("--op", required=True)
    parser.add_argument("--environment", help="default: the latest calibrated one")
    parser.add_argument("--format", choices=("csv", "json", "markdown"), default="csv")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the table."""
    from roofcal.report.data.table_files import write_table
    from roofcal.study.runs import find_run

    run = find_run(options.device, options.environment)
    text = write_table(run.folder, run.derived, options.op, places.DEVICES, options.format)
    sys.stdout.write(text)
