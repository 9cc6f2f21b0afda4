"""`export`: the calibrated constants of a device in the files of other tools."""

import argparse
import sys
from pathlib import Path

from roofcal.cli import places
from roofcal.cli.arguments import write_or_print
from roofcal.cli.places import Commands, datasheet


def add(commands: Commands) -> None:
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
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the file, or write it to --out and say where the constants come from."""
    from roofcal.core.jsonl import read_records
    from roofcal.core.records import Environment
    from roofcal.export.formats import export, format_named
    from roofcal.export.subject import Subject
    from roofcal.models.calibrations import find_calibration

    format_named(options.format)
    folder, calibration = find_calibration(
        options.device, options.environment, places.PUBLISHED, places.RESULTS
    )
    recorded = folder / "environment.jsonl"
    environments = read_records(recorded, Environment) if recorded.is_file() else []
    subject = Subject(
        calibration=calibration,
        spec=datasheet(calibration.device),
        environment=environments[0] if environments else None,
    )
    write_or_print(export(options.format, subject), options.out)
    print(f"from: {folder}", file=sys.stderr)
