"""Freeze a finished run under reports/published: records, calibration, tables, report, manifest.

Or a publication again, with derived files of the present code.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from roofcal.claims.ledgers import Entry
from roofcal.core.environments import origin_environment
from roofcal.core.files import check_folder
from roofcal.core.jsonl import read_plan, read_records, read_single_record, write_records
from roofcal.core.machine.checkout import checkout_commit
from roofcal.core.manifest import manifest_problems, write_manifest
from roofcal.core.paths import DERIVED_TABLES, RunFolder
from roofcal.core.records import Calibration, Environment, Measurement, Prediction, Session
from roofcal.ops import point_problem
from roofcal.publish.derive import Descriptions, derive, derived_names
from roofcal.publish.verify import claimed_twice, record_problems
from roofcal.report.write import write_report


class PublishError(ValueError):
    """A run that is not finished, or whose environment is published with other records."""


def publish(
    folder: Path, published: Path, devices_folder: Path, claims: Sequence[Entry] = ()
) -> Path:
    """The folder reports/published/<device>/<environment_id> of the finished run of `folder`.

    Predictions with the calibration of another environment are left out unless that calibration is
    published beside it: they could not be made again from what is published. The same records give
    the same bytes, manifest.json of the same commit too. The site over all publications is not
    written: see roofcal.publish.site.write.

    claims: of the ledger as it is today; the report carries their verdicts.

    Raises PublishError for an unfinished run or a different publication of the same environment,
    RecordsError for bad files, and OSError; then the publication from before stands unchanged.
    """
    check_folder(folder)
    run = RunFolder.at(folder)
    environment = read_single_record(run.environment_file, Environment)
    for problem in claimed_twice(published):
        raise PublishError(problem)
    missing = ", ".join(_missing_parts(run))
    if missing:
        raise PublishError(f"{folder}: {missing} is missing; finish the study first (`make study`)")
    target = published / environment.device / environment.environment_id
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=published) as place:
        fresh = RunFolder.at(Path(place) / environment.device / environment.environment_id)
        _freeze_records(run, fresh, target.parent)
        _refuse_other_records(fresh, RunFolder.at(target))
        page = fresh.folder / "report.html"
        write_report([(fresh.folder, fresh.folder)], page, devices_folder, claims)
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


def _missing_parts(run: RunFolder) -> Iterator[str]:
    """What a run lacks to be finished, in words."""
    planned = run.planned_ops()
    if not planned:
        yield "the plan of any op"
        return
    for op in planned:
        if not run.measurements_file(op).is_file():
            yield f"the measurement of {op}"
    if not run.calibration_file.is_file():
        yield "the calibration"


def _freeze_records(run: RunFolder, fresh: RunFolder, beside: Path) -> None:
    """Write records, calibration, predictions and derived tables of `run` to `fresh`, packed.

    beside: folder of the device's publications.
    """
    write_records(fresh.environment_file, read_records(run.environment_file, Environment))
    for op in run.planned_ops():
        points = read_plan(run, op, point_problem)
        rows = read_records(run.measurements_file(op), Session, Measurement)
        write_records(fresh.folder / "plan" / f"{op}.jsonl.gz", points)
        write_records(fresh.folder / "measurements" / f"{op}.jsonl.gz", rows)
    write_records(fresh.calibration_file, read_records(run.calibration_file, Calibration))
    for op in run.predicted_ops():
        predictions = read_records(run.predictions_file(op), Prediction)
        # Those whose calibration is the run's own or published beside it.
        reproducible = [
            prediction
            for prediction in predictions
            if (origin := origin_environment(prediction.model)) is None
            or RunFolder.at(beside / origin).calibration_file.is_file()
        ]
        write_records(fresh.predictions_file(op), reproducible)
    for name in DERIVED_TABLES:
        if run.table_file(name).is_file():
            shutil.copyfile(run.table_file(name), fresh.table_file(name))


def _refuse_other_records(fresh: RunFolder, target: RunFolder) -> None:
    """Published measurements are never replaced; a new calibration of the same ones may be."""
    for old in sorted((target.folder / "measurements").glob("*")):
        new = fresh.folder / "measurements" / old.name
        if not new.is_file():
            raise PublishError(f"{old} would be lost: this run has no such measurements; {_NEVER}")
        if old.read_bytes() != new.read_bytes():
            raise PublishError(f"{old} holds other measurements of this environment; {_NEVER}")


_NEVER: Final = (
    "published records are never replaced: remove the folder in a commit of its own if they are "
    "wrong"
)


def run_folders_anew(
    publications: Sequence[Path], place: Path, descriptions: Descriptions
) -> list[Path]:
    """Run folders below `place` with the records of publications and fresh derived files.

    All calibrations are derived first, because environments of one device predict each other.

    Raises PublishError for records that are not those of the manifest or cannot be read, ValueError
    for a file that cannot be made; no publication is changed.
    """
    runs = [RunFolder.at(folder) for folder in publications]
    for run in runs:
        problems = manifest_problems(run.folder, records_only=True)
        if problems := problems or list(record_problems(run)):
            raise PublishError("\n".join(problems))
    for run in runs:
        for part in (run.environment_file, run.folder / "plan", run.folder / "measurements"):
            copy = shutil.copytree if part.is_dir() else shutil.copyfile
            (place / run.name).mkdir(parents=True, exist_ok=True)
            copy(part, place / run.name / part.name)
        list(derive(run, derived_names(run)[:1], place / run.name, descriptions))
    for run in runs:
        list(derive(run, derived_names(run)[1:], place / run.name, descriptions))
    return [place / run.name for run in runs]
