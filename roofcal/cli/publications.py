"""`publish`: freeze a finished run under reports/published. `verify`: whether publications hold.

`site`: the pages over all publications.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from roofcal.cli.arguments import Commands, checked_folder
from roofcal.core import paths
from roofcal.core.names import printable
from roofcal.core.paths import RunFolder, run_folders

if TYPE_CHECKING:
    from roofcal.publish.derive import Descriptions
    from roofcal.publish.verify import Outcome

NO_MANIFEST = 3  # the exit code where nothing is wrong, yet a publication has no manifest


def add_publish(commands: Commands) -> None:
    """Declare `publish` and its arguments."""
    parser = commands.add_parser("publish", help="freeze a finished run under reports/published")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--run", type=Path, dest="folder", help="run folder")
    source.add_argument(
        "--again",
        nargs="+",
        type=Path,
        metavar="FOLDER",
        help="publications whose derived files the present code makes anew from their records",
    )
    parser.set_defaults(run=_publish)


def _publish(options: argparse.Namespace) -> None:
    """Publish and print the folders. What the terms refuse leaves all of them unchanged."""
    from roofcal.claims.ledgers import load_claims
    from roofcal.publish.freeze import publish
    from roofcal.publish.renew import run_folders_anew
    from roofcal.publish.terms import check_checkout, check_terms
    from roofcal.study.config import load_study

    limits, claims = load_study(paths.CONFIG).file.publish, load_claims(paths.CLAIMS)
    check_checkout(paths.PUBLISHED)  # before minutes of deriving
    with tempfile.TemporaryDirectory() as place:
        if options.again:
            for folder in options.again:
                _refuse_other_folder(folder)
            folders = run_folders_anew(options.again, Path(place), _descriptions())
        else:
            folders = [checked_folder(options)]
        for folder in folders:
            check_terms(folder, limits, paths.PUBLISHED)
        for folder in folders:
            print(publish(folder, paths.PUBLISHED, paths.DEVICES, claims))
    _write_site(paths.PUBLISHED)


def add_site(commands: Commands) -> None:
    """Declare `site` and its arguments."""
    parser = commands.add_parser("site", help="write the pages over all publications")
    parser.add_argument(
        "--out",
        type=Path,
        default=paths.RESULTS / "site",
        help="folder of the pages and copies of the publications, ready to host (results/site)",
    )
    parser.set_defaults(run=_site)


def _site(options: argparse.Namespace) -> int:
    """Write the site and print its first page; 2 where every publication is left out."""
    left_out = _write_site(options.out)
    print(options.out / "index.html")
    return 2 if 0 < left_out == len(run_folders(paths.PUBLISHED)) else 0


def _write_site(out: Path) -> int:
    """Write the site and count what is left out, with a note on stderr for each."""
    from roofcal.publish.site.write import write_site

    left_out = write_site(paths.PUBLISHED, out, _descriptions(), paths.CLAIMS)
    for folder in left_out:
        problem = printable(folder.problems[0])
        print(f"left out of the site: {folder.key}: {problem}", file=sys.stderr)
    return len(left_out)


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
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run=_verify)


def _verify(options: argparse.Namespace) -> int:
    """Print what holds; 2 where a publication does not hold, 3 where one has no manifest."""
    from roofcal.publish.index import claimed_twice

    folders = options.folders or [run.folder for run in run_folders(paths.PUBLISHED)]
    if not folders:
        raise ValueError(f"{paths.PUBLISHED}: nothing is published there")
    outcomes = [_outcome(folder, options.quick, quiet=options.json) for folder in folders]
    twice = [] if options.folders else list(claimed_twice(paths.PUBLISHED))
    if options.json:
        publications = [asdict(o) | {"folder": o.folder.as_posix()} for o in outcomes]
        print(json.dumps({"publications": publications, "problems": twice}))
    for problem in twice:
        print(f"error: {problem}", file=sys.stderr)
    if twice or any(outcome.problems for outcome in outcomes):
        return 2
    return NO_MANIFEST if any(o.state == "no manifest" for o in outcomes) else 0


def _outcome(folder: Path, quick: bool, *, quiet: bool) -> "Outcome":
    """Verify one folder and print the outcome; raises ValueError for one that is no publication."""
    from roofcal.publish.verify import verify

    _refuse_other_folder(folder)
    outcome = verify(folder, _descriptions(), quick=quick)
    if quiet:
        return outcome
    print(f"{folder}: {_WORDS[outcome.state]}{' (quick)' if quick else ''}")
    for note in outcome.notes:
        print(f"  note: {printable(note)}")
    for problem in outcome.problems:
        print(f"error: {printable(problem)}", file=sys.stderr)
    return outcome


def _refuse_other_folder(folder: Path) -> None:
    """Raises ValueError for a folder that is no publication."""
    if not RunFolder.at(folder).environment_file.is_file():
        raise ValueError(
            f"{folder}: is no publication (no environment.jsonl); give folders like "
            f"{paths.PUBLISHED}/<device>/<environment_id>"
        )


def _descriptions() -> "Descriptions":
    from roofcal.publish.derive import Descriptions

    return Descriptions(devices=paths.DEVICES, models=paths.MODELS)


_WORDS = {
    "holds": "holds",
    "no manifest": "no manifest: published before manifests; publish it again. "
    "Its records are whole",
    "does not hold": "does not hold",
}
