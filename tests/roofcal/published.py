"""A small finished run with everything derived, published: what verify and derive are tried on."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from roofcal.ask.breakeven import run_map
from roofcal.calibrate import calibrate
from roofcal.core import paths
from roofcal.core.jsonl import write_records
from roofcal.judge.layers import unlisted_points
from roofcal.publish.freeze import publish
from roofcal.report.write import tables_of_run
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT, write_run
from tests.roofcal.made_up_records import session, timed
from tests.roofcal.models.runs import calibration
from tests.roofcal.resamples import draw_few_resamples


def write_tables_alone(folders: Sequence[tuple[Path, Path | None]], page: Path, *_: object) -> None:
    """Writes what write_report does of one run, but for its page, whose drawing takes a second."""
    ((folder, _derived),) = folders
    (folder / "tables").mkdir(exist_ok=True)
    for name, text in tables_of_run(folder, paths.DEVICES).items():
        (folder / "tables" / name).write_bytes(text.encode())
    page.write_text("<!doctype html><title>report</title>")


def finished_run(results: Path) -> Path:
    """A run of made-up probes below `results`, whose calibration and predictions nobody fitted."""
    run = write_run(results / ENVIRONMENT.device / ENVIRONMENT.environment_id)
    fitted = calibration(ENVIRONMENT.device, ENVIRONMENT.environment_id)
    write_records(run / "calibration.jsonl", [fitted])
    return run


def judged_run(folder: Path, seed: int) -> Path:
    """Records of all points of a seed, as `tools/spot_checks.py unlisted` leaves them."""
    environment = ENVIRONMENT.environment_id
    run = folder / f"seed{seed}" / ENVIRONMENT.device / environment
    write_records(run / "environment.jsonl", [ENVIRONMENT])
    for op, points in unlisted_points(seed, ENVIRONMENT.device).items():
        rows = [timed(point, ENVIRONMENT, *[1e-4] * 9) for point in points]
        own = session(environment_id=environment, op=op, started_utc="2026-11-27T10:00:00")
        write_records(run / f"plan/{op}.jsonl", points)
        write_records(run / f"measurements/{op}.jsonl", [own, *rows])
        write_records(run / f"journal/{op}.jsonl", [own, *rows])
    return run


def files_in(folder: Path) -> dict[str, bytes]:
    """Path below a folder -> content, of every file."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def publish_made_up(folder: Path) -> Path:
    """The publication of made-up probes, below `folder`."""
    run = write_run(folder / "results" / ENVIRONMENT.device / ENVIRONMENT.environment_id)
    with pytest.MonkeyPatch.context() as patch:
        draw_few_resamples(patch)  # as all tests that derive its files again
        write_records(run / "calibration.jsonl", [calibrate(run)])
        (run / "breakeven.csv").write_text(run_map(run, run / "calibration.jsonl"))
        return publish(run, folder / "published")
