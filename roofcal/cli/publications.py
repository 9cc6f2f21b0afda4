"""`publish`: freeze a finished run under reports/published. `verify`: whether publications hold."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from roofcal.cli.arguments import Commands, add_run_folder, datasheet
from roofcal.core import paths
from roofcal.core.paths import RunFolder, run_folders

if TYPE_CHECKING:
    from roofcal.publish.verify import Outcome

NO_MANIFEST = 3  # the exit code where nothing is wrong, yet a publication has no manifest


def add_publish(commands: Commands) -> None:
    """Declare `publish` and its arguments."""
    parser = commands.add_parser("publish", help="freeze a finished run under reports/published")
    add_run_folder(parser)
    parser.set_defaults(run=_publish)


def _publish(options: argparse.Namespace) -> None:
    """Publish and print the folder."""
    from roofcal.publish.freeze import publish
    from roofcal.publish.terms import check_terms
    from roofcal.study.config import load_study

    limits = load_study(paths.CONFIG).file.publish
    check_terms(options.folder, limits, paths.PUBLISHED)
    print(publish(options.folder, paths.PUBLISHED, paths.DEVICES))


def add_verify(commands: Commands) -> None:
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
    parser.set_defaults(run=_verify)


def _verify(options: argparse.Namespace) -> int:
    """Print what holds; 2 where a publication does not hold, 3 where one has no manifest."""
    from roofcal.publish.index import claimed_twice

    folders = options.folders or [run.folder for run in run_folders(paths.PUBLISHED)]
    if not folders:
        raise ValueError(f"{paths.PUBLISHED}: nothing is published there")
    outcomes = [_outcome(folder, options.quick) for folder in folders]
    twice = [] if options.folders else list(claimed_twice(paths.PUBLISHED))
    for problem in twice:
        print(f"error: {problem}", file=sys.stderr)
    if twice or any(outcome.problems for outcome in outcomes):
        return 2
    return NO_MANIFEST if any(o.state == "no manifest" for o in outcomes) else 0


def _outcome(folder: Path, quick: bool) -> "Outcome":
    """Verify one folder and print the outcome. Raises ValueError for one that is no publication."""
    from roofcal.publish.derive import Descriptions
    from roofcal.publish.verify import verify

    if not RunFolder.at(folder).environment_file.is_file():
        raise ValueError(
            f"{folder}: is no publication (no environment.jsonl); give folders like "
            f"{paths.PUBLISHED}/<device>/<environment_id>"
        )
    spec = datasheet(folder.resolve().parent.name)
    descriptions = Descriptions(spec=spec, devices=paths.DEVICES, models=paths.MODELS)
    outcome = verify(folder, descriptions, quick=quick)
    print(f"{folder}: {_WORDS[outcome.state]}{' (quick)' if quick else ''}")
    for note in outcome.notes:
        print(f"  note: {note}")
    for problem in outcome.problems:
        print(f"error: {problem}", file=sys.stderr)
    return outcome


_WORDS = {
    "holds": "holds",
    "no manifest": "no manifest: published before manifests; publish it again. "
    "Its records are whole",
    "does not hold": "does not hold",
}
