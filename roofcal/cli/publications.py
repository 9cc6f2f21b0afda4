"""`publish`: freeze a finished run under reports/published. `verify`: whether publications hold.

`site`: the pages over all publications.
"""

import tempfile
from dataclasses import asdict
from functools import partial
from json import dumps
from pathlib import Path
from typing import Final

from roofcal.cli.commands import Command, checked_folder, remark_on_stderr
from roofcal.core import paths
from roofcal.core.names import printable
from roofcal.core.paths import RunFolder, run_folders

NO_MANIFEST = 3  # the exit code where nothing is wrong, yet a publication has no manifest
_NO_MANIFEST: Final = (
    "no manifest: published before manifests; publish it again. Its records are whole"
)


def publish(
    *,
    run: Path | None = None,
    again: tuple[Path, ...] = (),
    judged: tuple[Path, ...] = (),
    cards: tuple[Path, ...] = (),
) -> None:
    """Publish and print the folders. What the terms refuse leaves all of them unchanged.

    Args:
        again (FOLDER): publications whose derived files the present code makes anew from their
            records
        judged (FOLDER): seed<seed>/<device>/<environment_id> as `tools/spot_checks.py unlisted`
            measures it: its records are put beside the publication of the environment, which is
            made anew as by --again
        cards (FOLDER): run folders <device>/<environment_id>, each measured on one card with the
            driver and libraries of the publication: their records are put beside it likewise
    """
    from roofcal.claims import load_claims
    from roofcal.publish.freeze import (
        check_checkout,
        check_terms,
        publication_of,
        run_folders_anew,
    )
    from roofcal.publish.freeze import publish as freeze
    from roofcal.study.config import load_study

    limits, claims = load_study(paths.CONFIG).file.publish, load_claims(paths.CLAIMS)
    check_checkout(paths.PUBLISHED)  # before minutes of deriving
    with tempfile.TemporaryDirectory() as place:
        beside = [publication_of(folder, paths.PUBLISHED, is_judged=True) for folder in judged]
        beside += [publication_of(folder, paths.PUBLISHED, is_judged=False) for folder in cards]
        if publications := list(dict.fromkeys((*again, *beside))):
            for folder in publications:
                _refuse_other_folder(folder)
            folders = run_folders_anew(publications, Path(place), judged, cards)
        else:
            assert run  # one of the four is given
            folders = [checked_folder(run)]
        for folder in folders:
            check_terms(folder, limits)
        check_checkout(paths.PUBLISHED)  # deriving took minutes, in which a file may change
        for folder in folders:
            print(freeze(folder, paths.PUBLISHED, claims))
    _write_site(paths.PUBLISHED)


def site(*, out: Path = paths.RESULTS / "site") -> int:
    """Write the site and print its first page; 2 where every publication is left out.

    Args:
        out: folder of the pages and copies of the publications, ready to host (results/site)
    """
    left_out = _write_site(out)
    print(out / "index.html")
    return 2 if 0 < left_out == len(run_folders(paths.PUBLISHED)) else 0


def _write_site(out: Path) -> int:
    """Write the site and count what is left out, with a note on stderr for each."""
    from roofcal.publish.site.write import write_site

    left_out = write_site(paths.PUBLISHED, out)
    for folder in left_out:
        problem = printable(folder.problems[0])
        remark_on_stderr(f"left out of the site: {folder.key}: {problem}")
    return len(left_out)


def verify(*folders: Path, quick: bool = False, json: bool = False) -> int:
    """Print what holds; 2 where a publication does not hold, 3 where one has no manifest.

    Args:
        folders (FOLDER): reports/published/<device>/<environment_id>; default: all publications
        quick: hashes, records and CSV tables alone: seconds instead of a minute or two
        json: for programs
    """
    from roofcal.fitting.parallel import parallel_map
    from roofcal.publish.verify import claimed_twice
    from roofcal.publish.verify import verify as verified

    named = list(folders) or [run.folder for run in run_folders(paths.PUBLISHED)]
    if not named:
        raise ValueError(f"{paths.PUBLISHED}: nothing is published there")
    for folder in named:
        _refuse_other_folder(folder)
    outcomes = parallel_map(partial(verified, quick=quick), named)
    for outcome in [] if json else outcomes:
        words = _NO_MANIFEST if outcome.state == "no manifest" else outcome.state
        print(f"{outcome.folder}: {words}{' (quick)' if quick else ''}")
        for note in outcome.notes:
            print(f"  note: {printable(note)}")
        for problem in outcome.problems:
            remark_on_stderr(f"error: {printable(problem)}")
    twice = [] if folders else list(claimed_twice(paths.PUBLISHED))
    if json:
        publications = [asdict(o) | {"folder": o.folder.as_posix()} for o in outcomes]
        print(dumps({"publications": publications, "problems": twice}))
    for problem in twice:
        remark_on_stderr(f"error: {problem}")
    if twice or any(outcome.problems for outcome in outcomes):
        return 2
    return NO_MANIFEST if any(o.state == "no manifest" for o in outcomes) else 0


def _refuse_other_folder(folder: Path) -> None:
    """Raises ValueError for a folder that is no publication."""
    if not RunFolder.at(folder).environment_file.is_file():
        raise ValueError(
            f"{folder}: is no publication (no environment.jsonl); give folders like "
            f"{paths.PUBLISHED}/<device>/<environment_id>"
        )


PUBLISH: Final = Command({"": publish}, either=("run", "again", "judged", "cards"), is_needed=True)
