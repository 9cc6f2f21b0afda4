"""`publish`: freeze a finished run under reports/published."""

import argparse
from pathlib import Path

from roofcal.cli import places
from roofcal.cli.places import Commands


def add(commands: Commands) -> None:
    """Declare `publish` and its arguments."""
    parser = commands.add_parser("publish", help="freeze a finished run under reports/published")
    parser.add_argument("--run", type=Path, required=True, dest="folder", help="run folder")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Publish and print the folder."""
    from roofcal.publish.freeze import publish
    from roofcal.publish.terms import check_terms
    from roofcal.study.config import load_study

    limits = load_study(places.CONFIG).file.publish
    check_terms(options.folder, limits, places.PUBLISHED)
    print(publish(options.folder, places.PUBLISHED, places.DEVICES))
