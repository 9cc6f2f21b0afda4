"""A checkout that commands are tried in, and what they do there: words, memory, files outside."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Final

import pytest

from roofcal.core.jsonl import read_records, write_records
from roofcal.core.records import Measurement, PlanPoint
from roofcal.models.registry import predict_run
from roofcal.publish.freeze import publish
from tests.campaign.one_command import be_command
from tests.paths import ROOT
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT, write_run
from tests.roofcal.models.runs import calibration
from tests.roofcal.published import write_tables_alone

NAME: Final = f"{ENVIRONMENT.device}/{ENVIRONMENT.environment_id}"
PUBLISHED: Final = f"reports/published/{NAME}"
RUN: Final = f"results/{NAME}"
SECRET: Final = "the secret of another folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a command did; `code` is negative for a signal, as where it did not end in time."""

    code: int | None
    said: str
    peak_bytes: int


def make_template(folder: Path) -> Path:
    """A checkout with config/, a finished run and its publication; a secret lies beside it."""
    checkout = folder / "checkout"
    shutil.copytree(ROOT / "config", checkout / "config")
    run = write_run(checkout / RUN)
    _write_study_points(run)
    constants = replace(calibration(), environment_id=ENVIRONMENT.environment_id)
    write_records(run / "calibration.jsonl", [constants])
    predictions = predict_run(run, run / "calibration.jsonl", "gemm", None)
    write_records(run / "predictions/gemm.jsonl", predictions)
    with pytest.MonkeyPatch.context() as patch:  # no command below looks at the page
        patch.setattr("roofcal.publish.freeze.write_report", write_tables_alone)
        publish(run, checkout / "reports/published")
    (folder / "secret").write_text(SECRET)
    return checkout


def _write_study_points(run: Path) -> None:
    """Twelve of the products that were measured as probes, as points of op gemm."""
    points = read_records(run / "plan/probe_math.jsonl", PlanPoint)[:12]
    rows = {
        row.point_id: row
        for row in read_records(run / "measurements/probe_math.jsonl", Measurement)
    }
    moved = {point.point_id: replace(point, op="gemm", provider="cublaslt") for point in points}
    write_records(run / "plan/gemm.jsonl", moved.values())
    measured = [replace(rows[key], point_id=point.point_id) for key, point in moved.items()]
    write_records(run / "measurements/gemm.jsonl", measured)


def snapshot(folder: Path) -> dict[str, bytes]:
    """Path -> content of every file below a folder; of links, what they point to."""
    return {
        str(path.relative_to(folder)): (
            str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
        )
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def run_command(folder: Path, arguments: Sequence[str]) -> Outcome:
    """`python -m roofcal` with these arguments in `folder`, killed after ten minutes."""
    log, usage = folder.parent / "said", folder.parent / "usage"
    process = SpawnProcess(target=be_command, args=(folder, list(arguments), log, usage))
    process.start()
    process.join(600)
    process.kill()
    process.join()
    return Outcome(
        code=process.exitcode,
        said=log.read_bytes().decode("utf-8", "replace") if log.exists() else "",
        peak_bytes=int(usage.read_text()) if usage.exists() else 0,
    )
