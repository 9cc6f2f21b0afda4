"""Freeze a finished run under reports/published: records, calibration, tables, report, manifest."""

import shutil
import tempfile
from pathlib import Path
from typing import Final

from roofcal.core.environments import origin_environment
from roofcal.core.jsonl import read_records, write_records
from roofcal.core.records import (
    Calibration,
    Environment,
    Measurement,
    PlanPoint,
    Prediction,
    Session,
)
from roofcal.publish.index import claimed_twice, write_index
from roofcal.publish.manifest import commit_of_checkout, write_manifest
from roofcal.report.write import write_report
from roofcal.study.runs import TABLES


class PublishError(ValueError):
    """A run that is not finished, or a publication of it that says something else."""


def publish(run: Path, published: Path, devices_folder: Path) -> Path:
    """The folder reports/published/<device>/<environment_id> of a finished run.

    Of predictions with the calibration of another environment, those whose calibration is published
    beside it: the others could not be made again from what is published.
    The same records give the same bytes, manifest.json of the same commit too. index.json and
    index.html of all publications are written again. Raises PublishError for an unfinished run or
    a different publication of the same environment, RecordsError for bad files; then nothing was
    changed.
    """
    environment = read_records(run / "environment.jsonl", Environment)[0]
    for problem in claimed_twice(published):
        raise PublishError(problem)
    target = published / environment.device / environment.environment_id
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as place:
        fresh = Path(place) / target.name
        _freeze(run, fresh, target.parent)
        if target.exists():
            _refuse_other_records(fresh, target)
            shutil.rmtree(target)
        write_report([(fresh, fresh)], fresh / "report.html", devices_folder)
        fresh.replace(target)
    write_manifest(target, commit_of_checkout())
    write_index(published)
    return target


def _freeze(run: Path, fresh: Path, beside: Path) -> None:
    write_records(fresh / "environment.jsonl", read_records(run / "environment.jsonl", Environment))
    ops = sorted(path.stem for path in (run / "plan").glob("*.jsonl"))
    unmeasured = [op for op in ops if not (run / "measurements" / f"{op}.jsonl").is_file()]
    if unmeasured or not ops or not (run / "calibration.jsonl").is_file():
        missing = ", ".join(unmeasured) or "everything" if not ops else "the calibration"
        raise PublishError(f"{run}: {missing} is missing; finish the study first (`make study`)")
    for op in ops:
        points = read_records(run / "plan" / f"{op}.jsonl", PlanPoint)
        rows = read_records(run / "measurements" / f"{op}.jsonl", Session, Measurement)
        write_records(fresh / "plan" / f"{op}.jsonl.gz", points)
        write_records(fresh / "measurements" / f"{op}.jsonl.gz", rows)
    write_records(fresh / "calibration.jsonl", read_records(run / "calibration.jsonl", Calibration))
    for path in sorted((run / "predictions").glob("*.jsonl")):
        predictions = [p for p in read_records(path, Prediction) if _is_lasting(p, beside)]
        write_records(fresh / "predictions" / path.name, predictions)
    for name in TABLES:
        if (run / name).is_file():
            shutil.copyfile(run / name, fresh / name)


def _is_lasting(prediction: Prediction, beside: Path) -> bool:
    """Whether the calibration behind a prediction is the run's own or published beside it."""
    origin = origin_environment(prediction.model)
    return origin is None or (beside / origin / "calibration.jsonl").is_file()


def _refuse_other_records(fresh: Path, target: Path) -> None:
    """Published measurements are never replaced; a new calibration of the same ones may be."""
    for old in sorted((target / "measurements").glob("*")):
        path = fresh / "measurements" / old.name
        if not path.is_file():
            raise PublishError(f"{old} would be lost: this run has no such measurements; {_NEVER}")
        if old.read_bytes() != path.read_bytes():
            raise PublishError(f"{old} holds other measurements of this environment; {_NEVER}")


_NEVER: Final = (
    "published records are never replaced: remove the folder in a commit of its own if they are "
    "wrong"
)
