"""`learning`: error of predictions by the number of probes they were fitted on, from probes."""

import argparse
from pathlib import Path

from roofcal.cli.arguments import write_or_print
from roofcal.cli.places import Commands, datasheet


def add(commands: Commands) -> None:
    """Declare `learning` and its arguments."""
    text = "error of predictions by the number of probes they were fitted on, as CSV"
    parser = commands.add_parser("learning", help=text)
    parser.add_argument("--run", type=Path, required=True, dest="folder", help="run folder")
    parser.add_argument("--out", type=Path, help="write here, default: the terminal")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write or print the learning curves of a run folder."""
    from roofcal.calibrate.learning import learning_csv

    spec = datasheet(options.folder.parent.name)
    write_or_print(learning_csv(options.folder, spec), options.out)
