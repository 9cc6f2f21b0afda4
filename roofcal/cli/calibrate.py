"""`calibrate`: probe measurements of a run folder to constants with intervals."""

import argparse
from pathlib import Path

from roofcal.cli.places import Commands, datasheet


def add(commands: Commands) -> None:
    """Declare `calibrate` and its arguments."""
    parser = commands.add_parser("calibrate", help="probe measurements of a run -> its constants")
    parser.add_argument("--run", type=Path, required=True, dest="folder", help="run folder")
    parser.add_argument("--out", type=Path, required=True)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Fit and write the calibration of a run folder."""
    from roofcal.calibrate.calibration import calibrate
    from roofcal.core.jsonl import write_records

    spec = datasheet(options.folder.parent.name)
    write_records(options.out, [calibrate(options.folder, spec)])
