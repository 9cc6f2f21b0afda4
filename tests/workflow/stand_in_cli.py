"""Stands in for roofcal/cli/main.py in the workflow tests, which are about when a job runs.

It plans for real, and "measures" in no time: every point takes a second. A test runs one
study through the real command line, which takes the same arguments.
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from roofcal.core.environments import transferred_model
from roofcal.core.files import write_bytes
from roofcal.core.jsonl import read_records, write_records
from roofcal.core.records import (
    Calibration,
    Environment,
    Measurement,
    PlanPoint,
    Prediction,
    Session,
)


class Options(dict[str, list[str]]):
    """Options of a stage by name, "" for the words before all of them; a.name is a single value."""

    def __getattr__(self, name: str) -> str:
        (value,) = self[name]
        return value


def main() -> int:
    """Run one stage."""
    stage, *words = sys.argv[1:]
    options = Options()
    values = options.setdefault("", [])
    for word in words:
        value = word
        if word.startswith("--"):
            name, _, value = word.removeprefix("--").partition("=")
            values = options.setdefault(name, [])
        values += [value] if value else []
    _fail_if_told(stage, options)
    return int(globals()[stage](options) or 0)


def _fail_if_told(stage: str, a: Options) -> None:
    """Fail if the file `fail` has this job, such as "measure gemm", on a line of its own."""
    op = a.op if "op" in a else Path(a.plan).stem if "plan" in a else ""
    told = Path("fail").read_text().splitlines() if Path("fail").exists() else []
    if f"{stage} {op}" in told:
        raise SystemExit(f"error: {stage} {op}: the stand-in was told to fail")


def plan(a: Options) -> None:
    from roofcal.study.plan import plan_op  # the other jobs start faster without

    environment = read_records(Path(a.environment), Environment)[0]
    write_records(Path(a.out), plan_op(json.loads(a.slice), environment))


def compile(a: Options) -> None:
    write_bytes(Path(a.out), b"")


def measure(a: Options) -> None:
    running = Path("measuring")
    running.touch(exist_ok=False)  # FileExistsError: two measurements at once
    try:
        if Path("slow").exists():
            Path("asleep").touch()  # within the try: whoever interrupts now leaves nothing behind
            time.sleep(float(Path("slow").read_text()))
        _measure(a)
    finally:
        running.unlink()


def _measure(a: Options) -> None:
    environment = read_records(Path(a.environment), Environment)[0].environment_id
    points = read_records(Path(a.plan), PlanPoint)
    if "SLURM_JOB_ID" in os.environ:
        with Path("held").open("a") as held:
            held.write(f"{Path(a.out).stem}: {_held_by_job(os.environ['SLURM_JOB_ID'])}\n")
    sizes = [int(size) for size in a.get("world-sizes", ())]
    points = [p for p in points if not sizes or p.world_size in sizes]
    ids: dict[str, Any] = {"session_id": Path(a.journal).stem, "environment_id": environment}
    unknown: dict[str, Any] = dict.fromkeys(("device_uuid", "git_commit", "git_dirty"))
    told: dict[str, Any] = dict.fromkeys(
        ("host", "code_hash", "command", "started_utc"), "stand-in"
    )
    session = Session(**ids, **unknown, **told, op=points[0].op, timing=json.loads(a.timing))
    rows = [
        Measurement(point_id=point.point_id, status="ok", latency_samples_s=(1.0,), **ids)
        for point in points
    ]
    write_records(Path(a.out), [session, *rows])


def _held_by_job(job: str) -> str:
    """Cores, memory and GPUs of a job of SLURM."""
    command = ["scontrol", "show", "job", "--oneliner", job]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    held = re.search(r"NumCPUs=(\d+).* MinMemoryNode=(\w+).* TresPerJob=gres.gpu:(\d+)", said)
    return "{} cores, {}, {} GPUs".format(*held.groups()) if held else said


def join(a: Options) -> None:
    from roofcal.study.cluster import join_measurements

    join_measurements(Path(a.plan), list(map(Path, a[""])), Path(a.out))


def _file(run: str, kind: str, op: str) -> Path:
    plain = Path(run) / kind / f"{op}.jsonl"
    return plain if plain.exists() else plain.with_suffix(".jsonl.gz")


def calibrate(a: Options) -> None:
    environment = read_records(Path(a.run) / "environment.jsonl", Environment)[0]
    probes = [
        measurement
        for file in sorted((Path(a.run) / "measurements").glob("probe_*"))
        for measurement in read_records(file, Measurement)
    ]
    ids: dict[str, Any] = {
        "device": environment.device,
        "environment_id": environment.environment_id,
    }
    write_records(Path(a.out), [Calibration(**ids, constants={}, probe_points=len(probes))])


def predict(a: Options) -> None:
    from roofcal.models.datasheet import longest_part  # 0.2 s of CPU, which the other jobs save

    read_records(Path(a.calibration), Calibration)
    others = [read_records(Path(file), Calibration)[0].environment_id for file in a.get("also", ())]
    predictions = [
        longest_part(point, model, math_s=1.0, dram_s=0.5)
        for model in ("calibrated", *map(transferred_model, others))
        for point in read_records(_file(a.run, "plan", a.op), PlanPoint)
    ]
    write_records(Path(a.out), predictions)


def compare(a: Options) -> int:
    """Say which runs were compared, and that no point could be: no failure of a study."""
    Path(a.out).write_text(json.dumps(a[""]))
    return 2


def breakeven(a: Options) -> None:
    read_records(Path(a.calibration), Calibration)
    write_bytes(Path(a.out), b"recipe,pass\n")


def llm(a: Options) -> None:
    read_records(Path(a.calibration), Calibration)
    write_bytes(Path(a.out), b"model,recipe\n")


def report(a: Options) -> None:
    pairs = [pair.partition("=") for pair in a["run"]]
    lines = [
        f"{run} {file.stem} {prediction.point_id}"
        for run, _, derived in pairs
        for file in sorted((Path(derived or run) / "predictions").glob("*.jsonl"))
        for prediction in read_records(file, Prediction)
    ]
    for name in (Path(a.out).name, "details.html", "tables/points.csv"):
        write_bytes(Path(a.out).parent / name, "\n".join(lines).encode())
    svg = b'<svg xmlns="http://www.w3.org/2000/svg"/>'
    write_bytes(Path(a.figures) / "How_was_this_measured" / "cpu-test" / "session.gemm.svg", svg)
