"""`report`: the HTML page of one or more runs."""

import argparse
from pathlib import Path

from roofcal.cli import places
from roofcal.cli.places import Commands


def add(commands: Commands) -> None:
    """Declare `report` and its arguments."""
    parser = commands.add_parser("report", help="the HTML page of one or more runs")
    parser.add_argument(
        "--run",
        action="append",
        required=True,
        dest="folders",
        metavar="DIR[=DERIVED]",
        help="run folder; DERIVED holds calibration and predictions where they stand apart",
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--figures", type=Path, metavar="DIR", help="every figure as an SVG file below this folder"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the page and print its path."""
    from roofcal.claims.load import load_claims
    from roofcal.report.write import write_report

    pairs = [folder.partition("=")[::2] for folder in options.folders]
    runs = [(Path(folder), Path(derived or folder)) for folder, derived in pairs]
    claims = load_claims(places.CLAIMS)
    write_report(runs, options.out, places.DEVICES, claims, options.figures)
    print(f"report: {options.out.resolve()}")
