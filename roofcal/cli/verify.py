"""`verify`: whether publications hold: hashes, records, and everything derived, made again."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from roofcal.cli import places
from roofcal.cli.llm import MODELS
from roofcal.cli.places import Commands, datasheet

if TYPE_CHECKING:
    from roofcal.publish.verify import Outcome

NO_MANIFEST = 3  # the exit code where nothing is wrong, yet a publication has no manifest


def add(commands: Commands) -> None:
    """Declare `verify` and its arguments."""
    parser = commands.add_parser("verify", help="whether publications hold, without a GPU")
    parser.add_argument(
        "folders",
        nargs="*",
        type=Path,
        metavar="FOLDER",
        help="reports/published/<device>/<environment_id>; default: all publications",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="hashes, records and CSV tables alone: seconds instead of a minute or two",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what was found; 2 where a publication does not hold, 3 where one has no manifest."""
    from roofcal.publish.index import claimed_twice, publications

    folders = options.folders or publications(places.PUBLISHED)
    if not folders:
        raise ValueError(f"{places.PUBLISHED}: nothing is published there")
    outcomes = [_outcome(folder, options.quick) for folder in folders]
    twice = [] if options.folders else list(claimed_twice(places.PUBLISHED))
    for problem in twice:
        print(f"error: {problem}", file=sys.stderr)
    if twice or any(outcome.problems for outcome in outcomes):
        return 2
    return NO_MANIFEST if any(o.state == "no manifest" for o in outcomes) else 0


def _outcome(folder: Path, quick: bool) -> "Outcome":
    from roofcal.publish.derive import Known
    from roofcal.publish.verify import verify

    if not (folder / "environment.jsonl").is_file():
        raise ValueError(
            f"{folder}: is no publication (no environment.jsonl); give folders like "
            f"{places.PUBLISHED}/<device>/<environment_id>"
        )
    device = folder.resolve().parent.name
    known = Known(spec=datasheet(device), devices=places.DEVICES, models=MODELS)
    outcome = verify(folder, known, quick=quick)
    print(f"{folder}: {_SAID[outcome.state]}{' (quick)' if quick else ''}")
    for note in outcome.notes:
        print(f"  note: {note}")
    for problem in outcome.problems:
        print(f"error: {problem}", file=sys.stderr)
    return outcome


_SAID = {
    "holds": "holds",
    "no manifest": "no manifest: published before manifests; publish it again. "
    "Its records are whole",
    "does not hold": "does not hold",
}
