"""`doctor`: what was found on this machine and what a study here can do."""

import argparse
from pathlib import Path

from roofcal.cli import places
from roofcal.cli.places import Commands


def add(commands: Commands) -> None:
    """Declare `doctor` and its arguments."""
    parser = commands.add_parser("doctor", help="what is here, and what a study here can do")
    parser.add_argument(
        "--write-environment",
        type=Path,
        metavar="RESULTS",
        help="write environment.jsonl of the devices here below RESULTS (on a cluster node)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the page, or write the environments of the devices here."""
    from roofcal.study import doctor

    if options.write_environment:
        for path in doctor.write_environments(places.DEVICES, options.write_environment):
            print(path)
        return
    for line in doctor.examine(places.DEVICES, places.PUBLISHED):
        print(line)
