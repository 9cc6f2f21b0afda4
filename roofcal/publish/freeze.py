"""Freeze a finished run under reports/published: records, calibration, tables, report, manifest."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from roofcal.core.environments import origin_environment
from roofcal.core.jsonl import read_records, read_single_record, write_records
from roofcal.core.machine.checkout import checkout_commit
from roofcal.core.paths import DERIVED_TABLES, RunFolder
from roofcal.core.records import (
    Calibration,
    Environment,
    Measurement,
    PlanPoint,
    Prediction,
    Session,
)
from roofcal.publish.index import claimed_twice, write_index
from roofcal.publish.manifest import write_manifest
from roofcal.report.write import write_report


class PublishError(ValueError):
    """A run that is not finished, or a publication of it that says something else."""


def publish(folder: Path, published: Path, devices_folder: Path) -> Path:
    """The folder reports/published/<device>/<environment_id> of the finished run of `folder`.

    Predictions with the calibration of another environment are left out unless that calibration is
    published beside it: they could not be made again from what is published. The same records give
    the same bytes, manifest.json of the same commit too. index.json and index.html of all
    publications are written again.

    Raises PublishError for an unfinished run or a different publication of the same environment,
    RecordsError for bad files; then nothing was changed.
    """
    run = RunFolder.at(folder)
    environment = read_single_record(run.environment_file, Environment)
    for problem in claimed_twice(published):
        raise PublishError(problem)
    missing = ", ".join(_missing(run))
    if missing:
        raise PublishError(f"{folder}: {missing} is missing; finish the study first (`make study`)")
    target = published / environment.device / environment.environment_id
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as place:
        fresh = RunFolder.at(Path(place) / target.name)
        _freeze(run, fresh, target.parent)
        if target.exists():
            _refuse_other_records(fresh, RunFolder.at(target))
            shutil.rmtree(target)
        write_report([(fresh.folder, fresh.folder)], fresh.folder / "report.html", devices_folder)
        fresh.folder.replace(target)
    write_manifest(target, checkout_commit())
    write_index(published)
    return target


def _missing(run: RunFolder) -> Iterator[str]:
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


def _freeze(run: RunFolder, fresh: RunFolder, beside: Path) -> None:
    """Write records, calibration, predictions and derived tables of `run` to `fresh`, packed.

    beside: folder of the device's publications.
    """
    write_records(fresh.environment_file, read_records(run.environment_file, Environment))
    for op in run.planned_ops():
        points = read_records(run.plan_file(op), PlanPoint)
        rows = read_records(run.measurements_file(op), Session, Measurement)
        write_records(fresh.folder / "plan" / f"{op}.jsonl.gz", points)
        write_records(fresh.folder / "measurements" / f"{op}.jsonl.gz", rows)
    write_records(fresh.calibration_file, read_records(run.calibration_file, Calibration))
    for op in run.predicted_ops():
        predictions = read_records(run.predictions_file(op), Prediction)
        reproducible = [p for p in predictions if _is_reproducible(p, beside)]
        write_records(fresh.predictions_file(op), reproducible)
    for name in DERIVED_TABLES:
        if run.table_file(name).is_file():
            shutil.copyfile(run.table_file(name), fresh.table_file(name))


def _is_reproducible(prediction: Prediction, beside: Path) -> bool:
    """Whether the calibration behind a prediction is the run's own or published beside it."""
    origin = origin_environment(prediction.model)
    return origin is None or RunFolder.at(beside / origin).calibration_file.is_file()


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
