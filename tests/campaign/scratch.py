"""A checkout that commands are tried in, and what they do there: words, memory, files outside."""

import os
import resource
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Final

from roofcal.core.jsonl import read_records, write_records
from roofcal.core.records import Measurement, PlanPoint
from roofcal.models.run import predict_run
from roofcal.publish.freeze import publish
from tests.paths import ROOT
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT, write_run
from tests.roofcal.models.runs import calibration

NAME: Final = f"{ENVIRONMENT.device}/{ENVIRONMENT.environment_id}"
PUBLISHED: Final = f"reports/published/{NAME}"
RUN: Final = f"results/{NAME}"
SECRET: Final = "the secret of another folder"
_MOST_ADDRESS_SPACE: Final = 8 << 30  # a command that runs away must not take the machine along


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a command did. `code` is None where it did not end in time."""

    code: int | None
    said: str
    peak_bytes: int
    wall_s: float


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
    publish(run, checkout / "reports/published", checkout / "config/devices")
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


def run_command(folder: Path, arguments: Sequence[str], limit_s: float = 600) -> Outcome:
    """`python -m roofcal` with these arguments in `folder`, killed after so many seconds."""
    log, usage = folder.parent / "said", folder.parent / "usage"
    for path in (log, usage):
        path.unlink(missing_ok=True)
    process = SpawnProcess(target=_command, args=(folder, list(arguments), log, usage))
    start = time.perf_counter()
    process.start()
    process.join(limit_s)
    is_in_time = not process.is_alive()
    if not is_in_time:
        process.kill()
        process.join()
    return Outcome(
        code=process.exitcode if is_in_time else None,
        said=log.read_bytes().decode("utf-8", "replace") if log.exists() else "",
        peak_bytes=int(usage.read_text()) if usage.exists() else 0,
        wall_s=time.perf_counter() - start,
    )


def _command(folder: Path, arguments: list[str], log: Path, usage: Path) -> None:
    """Run one command; what it says goes to `log`, its largest memory to `usage`."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_ADDRESS_SPACE, _MOST_ADDRESS_SPACE))
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    os.chdir(folder)
    from roofcal.cli.main import main

    try:
        sys.exit(main(arguments))
    finally:
        usage.write_text(str(_peak_bytes()))
        sys.stdout.flush()


def _peak_bytes() -> int:
    """The largest resident memory of this process, in bytes.

    getrusage would not do: Linux hands its maximum on through exec, so a test process that held
    2 GB to write a hostile file made every command after it seem as large.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


def markdown_table(names: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Rows as a table in Markdown, for docs/survives.md."""
    lines = [[*names], ["---"] * len(names), *([str(row[name]) for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
