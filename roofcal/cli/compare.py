"""`compare`: what moved between two runs, real change told from noise, drift and another clock."""

import argparse
import json
import math
from pathlib import Path

from roofcal.cli import places
from roofcal.cli.arguments import write_or_print
from roofcal.cli.places import Commands


def add(commands: Commands) -> None:
    """Declare `compare` and its arguments."""
    parser = commands.add_parser("compare", help="what moved from run A to run B")
    about = "run folder, <device>/<environment_id>, or the start of one; DIR=DERIVED as in `report`"
    parser.add_argument("a", metavar="A", help=about)
    parser.add_argument("b", metavar="B", help="the later one")
    parser.add_argument(
        "--threshold", type=_fraction, default=0.02, help="changes below do not matter (0.02)"
    )
    parser.add_argument(
        "--limit", type=_fraction, help="exit code 1 beyond this slowdown (default: threshold)"
    )
    parser.add_argument("--json", action="store_true", help="for programs, every point")
    parser.add_argument("--out", type=Path, help="write here, default: the terminal")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the comparison; 1 for a regression beyond the limit, else 0."""
    from roofcal.compare.comparison import compare
    from roofcal.compare.names import find
    from roofcal.compare.wording import sentences

    roots = (places.PUBLISHED, places.RESULTS)
    found = compare(
        find(options.a, roots), find(options.b, roots), options.threshold, options.limit
    )
    text = json.dumps(found, indent=1) if options.json else sentences(found)
    write_or_print(text + "\n", options.out)
    return int(bool(found["regressions"] or found["regressed_groups"]))


def _fraction(text: str) -> float:
    """A fraction from the command line; raises ArgumentTypeError unless it is in (0, 1)."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a fraction between 0 and 1, as 0.02 is")
    return value
