"""Freeze a finished run under reports/published: records, calibration, tables, report, manifest.

Or a publication again, with derived files of the present code. A run is published on terms: from a
clean checkout, and with predictions that are good enough. The checkout is that of the person who
publishes: its commit is what the manifest names. The commits that the measuring sessions recorded
are not checked.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from roofcal.claims import Entry
from roofcal.core import paths
from roofcal.core.environments import origin_environment
from roofcal.core.files import check_folder
from roofcal.core.jsonl import read_plan, read_records, read_single_record, write_records
from roofcal.core.machine.checkout import MEASURING_CODE, GitError, changed_files, checkout_commit
from roofcal.core.manifest import manifest_problems, write_manifest
from roofcal.core.names import is_name
from roofcal.core.records import Calibration, Environment, Measurement, Prediction, Session
from roofcal.ops import BY_NAME, point_problem
from roofcal.points.columns import MODEL
from roofcal.points.run import load_run
from roofcal.publish.verify import (
    claimed_twice,
    derive,
    derived_names,
    is_drawn,
    names_of_cards,
    problems_of_records,
    record_problems,
)
from roofcal.report.data.prediction_errors import error_by_regime, error_of
from roofcal.report.write import write_report
from roofcal.study.schema import Publishing

_DECIDING: Final = ("config", *MEASURING_CODE)  # a file more changes what is derived
_NAMED: Final = 3  # files of a dirty checkout that the message names


class PublishError(ValueError):
    """A run that is not finished, or whose environment is published with other records."""


def publish(folder: Path, published: Path, claims: Sequence[Entry] = ()) -> Path:
    """The folder reports/published/<device>/<environment_id> of the finished run of `folder`.

    Predictions with the calibration of another environment are left out unless that calibration is
    published beside it: they could not be made again from what is published. What `roofcal time`
    measured is left out as well: its sessions have no sentinels that tie them to others. The same
    records give the same bytes, manifest.json of the same commit too. The site over all
    publications is not written: see roofcal.publish.site.write.

    claims: of the ledger as it is today; the report carries their verdicts.

    Raises PublishError for an unfinished run or a different publication of the same environment,
    RecordsError for bad files, and OSError; then the publication from before stands unchanged.
    """
    check_folder(folder)
    run = paths.RunFolder.at(folder)
    environment = read_single_record(run.environment_file, Environment)
    for problem in claimed_twice(published):
        raise PublishError(problem)
    planned = run.planned_ops()
    missing = [] if planned else ["the plan of any op"]
    unmeasured = [op for op in planned if not run.measurements_file(op).is_file()]
    missing += [f"the measurement of {op}" for op in unmeasured]
    missing += [] if run.calibration_file.is_file() else ["the calibration"]
    if missing:
        raise PublishError(
            f"{folder}: {', '.join(missing)} is missing; finish the study first (`make study`)"
        )
    target = published / environment.device / environment.environment_id
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=published) as place:
        fresh = paths.RunFolder.at(Path(place) / environment.device / environment.environment_id)
        _freeze_records(run, fresh, target.parent)
        _refuse_other_records(fresh, paths.RunFolder.at(target))
        page = fresh.folder / "report.html"
        write_report([(fresh.folder, fresh.folder)], page, paths.DEVICES, claims)
        write_manifest(fresh.folder, checkout_commit())
        replaced = Path(place) / "replaced"
        try:
            if target.exists():
                target.rename(replaced)
            fresh.folder.rename(target)
        finally:  # roll back: leaving `place` deletes what is in it
            if replaced.exists() and not target.exists():
                replaced.rename(target)
    return target


def _freeze_records(run: paths.RunFolder, fresh: paths.RunFolder, beside: Path) -> None:
    """Write records, calibration, predictions and derived tables of `run` to `fresh`, packed.

    beside: folder of the device's publications.
    """
    _freeze_measured(run, fresh.folder)
    published = paths.RunFolder.at(beside / fresh.environment_id).beside()
    for place, records in (published | run.beside()).items():
        _freeze_measured(records, fresh.folder / place)
    write_records(fresh.calibration_file, read_records(run.calibration_file, Calibration))
    for op in run.predicted_ops():
        predictions = read_records(run.predictions_file(op), Prediction)
        # Those whose calibration is the run's own or published beside it.
        reproducible = [
            prediction
            for prediction in predictions
            if (origin := origin_environment(prediction.model)) is None
            or paths.RunFolder.at(beside / origin).calibration_file.is_file()
        ]
        write_records(fresh.predictions_file(op), reproducible)
    for name in paths.DERIVED_TABLES:
        if run.table_file(name).is_file():
            shutil.copyfile(run.table_file(name), fresh.table_file(name))


def _freeze_measured(run: paths.RunFolder, target: Path) -> None:
    """Write environment, plans and measurements of `run` to the folder `target`, packed."""
    write_records(target / paths.ENVIRONMENT_FILE, read_records(run.environment_file, Environment))
    for op in run.planned_ops():
        points = read_plan(run, op, point_problem)
        rows = read_records(run.measurements_file(op), Session, Measurement)
        write_records(target / "plan" / f"{op}.jsonl.gz", points)
        write_records(target / "measurements" / f"{op}.jsonl.gz", rows)


def _refuse_other_records(fresh: paths.RunFolder, target: paths.RunFolder) -> None:
    """Published measurements are never replaced; a new calibration of the same ones may be."""
    folders = ("", f"{paths.JUDGED}/*/", f"{paths.CARDS}/*/")
    for old in (p for at in folders for p in sorted(target.folder.glob(f"{at}measurements/*"))):
        new = fresh.folder / old.relative_to(target.folder)
        if not new.is_file():
            raise PublishError(f"{old} would be lost: this run has no such measurements; {_NEVER}")
        if old.read_bytes() != new.read_bytes():
            raise PublishError(f"{old} holds other measurements of this environment; {_NEVER}")


_NEVER: Final = (
    "published records are never replaced: remove the folder in a commit of its own if they are "
    "wrong"
)


def run_folders_anew(
    publications: Sequence[Path],
    place: Path,
    judged: Sequence[Path] = (),
    cards: Sequence[Path] = (),
) -> list[Path]:
    """Run folders below an empty `place` with the records of publications and fresh derived files.

    All calibrations are derived first, because environments of one device predict each other. No
    publication is changed.

    judged: folders seed<seed>/<device>/<environment_id> of the judge, and cards: folders
    <device>/<environment_id> measured on one further card; their records are added to those of the
    publication of the environment.

    Raises PublishError for records that are not those of the manifest, or may not be published, and
    ValueError for a file that cannot be made.
    """
    runs = [paths.RunFolder.at(folder) for folder in publications]
    added = [(folder, _place_beside(folder, runs, is_judged=True)) for folder in judged]
    added += [(folder, _place_beside(folder, runs, is_judged=False)) for folder in cards]
    places = {(*folder.absolute().parts[-2:], beside) for folder, beside in added}
    if len(places) < len(added):
        raise PublishError("several of the folders are of one seed or card; give one of them")
    for run in runs:
        problems = manifest_problems(run.folder, records_only=True)
        if problems := problems or list(record_problems(run)):
            raise PublishError("\n".join(problems))
    for run in runs:
        (place / run.name).mkdir(parents=True)
        for part in (paths.ENVIRONMENT_FILE, "plan", "measurements", paths.JUDGED, paths.CARDS):
            if (run.folder / part).exists():
                copy = shutil.copytree if (run.folder / part).is_dir() else shutil.copyfile
                copy(run.folder / part, place / run.name / part)
        list(derive(run, derived_names(run)[:1], place / run.name))
    for run in runs:
        list(derive(run, derived_names(run)[1:], place / run.name))
    for folder, beside in added:
        records = paths.RunFolder.at(folder.absolute())
        _freeze_measured(records, place / records.name / beside)
    return [place / run.name for run in runs]


def publication_of(records: Path, published: Path, *, is_judged: bool) -> Path:
    """The publication beside which records belong, by the names of their folders.

    is_judged: of a judge, whose folders name its seed, too; else of a further card.
    Raises PublishError where there is none, or no seed in the names.
    """
    publication = paths.RunFolder.at(published / paths.RunFolder.at(records.absolute()).name)
    if not publication.environment_file.is_file() or (is_judged and _seed_of(records) is None):
        raise PublishError(
            f"{records}: give a folder seed<seed>/<device>/<environment_id>, as `python "
            "tools/spot_checks.py unlisted` makes it, of an environment that is published"
            if is_judged
            else f"{records}: give a run folder <device>/<environment_id> of an environment that "
            f"is published; there is no {publication.folder}"
        )
    return publication.folder


def _seed_of(judged: Path) -> int | None:
    match = paths.SEED_FOLDER.fullmatch(judged.absolute().parent.parent.name)
    return int(match[1]) if match else None


def _place_beside(folder: Path, runs: Sequence[paths.RunFolder], *, is_judged: bool) -> str:
    """Where the finished records of a judge or of one card go below that of `runs` they belong to.

    Raises PublishError for records that may not be published.
    """
    check_folder(folder)
    records, seed = paths.RunFolder.at(folder.absolute()), _seed_of(folder)
    run = next((run for run in runs if run.name == records.name), None)
    if run is None or (is_judged and seed is None):
        no_seed = "of no seed, or " if is_judged else ""
        raise PublishError(f"{folder}: is {no_seed}of no publication that is made anew")
    if problems := list(problems_of_records(records, run)):
        raise PublishError("\n".join(problems))
    names = sorted(names_of_cards(records))
    if is_judged and seed is not None:
        _refuse_chosen(records, seed, run.device)
    elif len(names) != 1 or not is_name(names[0]):
        on = " and ".join(names) or "no card"
        raise PublishError(f"{folder}: was measured on {on}; give the records of one card")
    place = f"{paths.JUDGED}/seed{seed}" if is_judged else f"{paths.CARDS}/{names[0]}"
    if place in run.beside():
        way_out = "draw another seed" if is_judged else _NEVER
        raise PublishError(f"{run.beside()[place].folder}: is published; {way_out}")
    return place


def _refuse_chosen(judged: paths.RunFolder, seed: int, device: str) -> None:
    """Raises PublishError where records are not of all points that a seed draws for a device."""
    if not is_drawn(judged, seed, device):
        raise PublishError(
            f"{judged.folder}/plan: holds other points than seed {seed} draws; {_ALL}"
        )
    for op in judged.planned_ops():
        file = judged.measurements_file(op)
        rows = read_records(file, Measurement)
        missing = len(read_plan(judged, op, point_problem)) - len({row.point_id for row in rows})
        if missing:
            raise PublishError(f"{file}: lacks {missing} of the points that were drawn; {_ALL}")


_ALL: Final = "nobody may choose among them: measure the seed again with this roofcal"


# --- the terms ------------------------------------------------------------------------------------


class TermsError(ValueError):
    """Why a run may not be published; the message says how to go on."""


def check_terms(run: Path, limits: Publishing) -> None:
    """Raises TermsError for an op whose predictions are beyond their limit.

    Raises RecordsError, ReportError for bad files of the run.
    """
    beyond = []
    for op, error, count in hold_out_errors(run):
        limit = limits.per_op.get(op, limits.largest_error)
        if error > limit:
            beyond.append(
                f"op {op}: the calibrated model is {error:.1%} off (MAPE of {count} study points), "
                f"the limit is {limit:.1%}"
            )
    if beyond:
        raise TermsError("\n".join([*beyond, _RAISE]))


def check_checkout(published: Path) -> None:
    """Raises TermsError where the checkout is not that of its commit, and where git fails.

    Files that git does not track count where they decide numbers: in the folders _DECIDING. Outside
    a git checkout nobody can tell, and nothing is raised.

    published: the folder of all publications; changes in it do not make its checkout dirty.
    """
    where = published.resolve()
    root = where.parents[1]
    if not any((place / ".git").exists() for place in (root, *root.parents)):
        return
    tracked = (".", f":(exclude){where.relative_to(root).as_posix()}")
    try:
        files = changed_files(root, "HEAD", tracked, _DECIDING)
    except GitError as error:
        raise TermsError(f"{root}: git cannot tell whether it is clean: {error}") from None
    if files:
        more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
        raise TermsError(
            f"{', '.join(files[:_NAMED])}{more}: not as in the commit that the manifest would "
            "name; commit the changes, or put them away (git stash), publish, and take them back "
            "(git stash pop)"
        )


_RAISE: Final = (
    "find what the model misses (the report lists the worst points), or raise the limit of the op "
    "in a commit that says why: config/config.yaml, publish.per_op and publish.largest_error"
)


def hold_out_errors(run: Path) -> Iterator[tuple[str, float, int]]:
    """(op, MAPE, points) of the calibrated model on the study points of a run, which no fit saw.

    Ops without predictions are left out. Raises RecordsError, ReportError for bad files.
    """
    loaded = load_run(run)
    for op in loaded.ops:
        if BY_NAME[op].role != "study":
            continue
        errors = error_by_regime(loaded.points(op).table)
        row = error_of(errors, MODEL, op=op) if len(errors) else None
        if row is not None:
            yield op, float(row["mape"]), int(row["count"])
