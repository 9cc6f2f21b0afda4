"""Stands in for roofcal/cli/main.py in the workflow tests, which are about when a job runs.

It plans for real, and "measures" in no time: every point takes a second. It obeys the same
arguments as the real command line, and a test runs one study through that one.
"""

import argparse
import json
import os
import re
import subprocess
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


def main() -> int:
    """Run one stage."""
    parser = argparse.ArgumentParser()
    stages = parser.add_subparsers(dest="stage", required=True)
    options = {
        "plan": ["op", "environment", "slice", "out"],
        "compile": ["plan", "environment", "processes", "out"],
        "measure": ["plan", "environment", "timing", "journal", "out"],
        "join": ["plan", "out"],
        "calibrate": ["run", "out"],
        "predict": ["run", "calibration", "op", "out"],
        "breakeven": ["run", "calibration", "out"],
        "llm": ["run", "calibration", "out"],
        "compare": ["out"],
        "report": ["out", "figures"],
    }
    for stage, names in options.items():
        sub = stages.add_parser(stage)
        for name in names:
            sub.add_argument(f"--{name}", required=True)
        if stage == "measure":
            sub.add_argument("--world-sizes", nargs="+", type=int)
            sub.add_argument("--compile-first", action="store_true")
        if stage == "join":
            sub.add_argument("parts", nargs="+")
        if stage == "predict":
            sub.add_argument("--also", nargs="+", default=[])
        if stage == "compare":
            sub.add_argument("runs", nargs=2)
            sub.add_argument("--json", action="store_true")
        if stage == "report":
            sub.add_argument("--run", action="append", required=True)
    arguments = parser.parse_args()
    _fail_if_told(arguments)
    code = globals()[arguments.stage](arguments)
    return int(code or 0)


def _fail_if_told(a: Any) -> None:
    """Fail if the file `fail` has this job, such as "measure gemm", on a line of its own."""
    op = getattr(a, "op", None) or Path(getattr(a, "plan", "")).stem
    told = Path("fail").read_text().splitlines() if Path("fail").exists() else []
    if f"{a.stage} {op}" in told:
        raise SystemExit(f"error: {a.stage} {op}: the stand-in was told to fail")


def plan(a: Any) -> None:
    from roofcal.study.plan import plan_op  # the other jobs start faster without

    environment = read_records(Path(a.environment), Environment)[0]
    write_records(Path(a.out), plan_op(json.loads(a.slice), environment))


def compile(a: Any) -> None:
    write_bytes(Path(a.out), b"")


def measure(a: Any) -> None:
    running = Path("measuring")
    running.touch(exist_ok=False)  # FileExistsError: two measurements at once
    try:
        if Path("slow").exists():
            Path("asleep").touch()  # within the try: whoever interrupts now leaves nothing behind
            time.sleep(float(Path("slow").read_text()))
        _measure(a)
    finally:
        running.unlink()


def _measure(a: Any) -> None:
    environment = read_records(Path(a.environment), Environment)[0].environment_id
    points = read_records(Path(a.plan), PlanPoint)
    if "SLURM_JOB_ID" in os.environ:
        with Path("held").open("a") as held:
            held.write(f"{Path(a.out).stem}: {_held_by_job(os.environ['SLURM_JOB_ID'])}\n")
    points = [p for p in points if a.world_sizes is None or p.world_size in a.world_sizes]
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


def join(a: Any) -> None:
    from roofcal.study.cluster import join_measurements

    join_measurements(Path(a.plan), list(map(Path, a.parts)), Path(a.out))


def _file(run: str, kind: str, op: str) -> Path:
    plain = Path(run) / kind / f"{op}.jsonl"
    return plain if plain.exists() else plain.with_suffix(".jsonl.gz")


def calibrate(a: Any) -> None:
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


def predict(a: Any) -> None:
    from roofcal.models.datasheet import longest_part  # 0.2 s of CPU, which the other jobs save

    read_records(Path(a.calibration), Calibration)
    others = [read_records(Path(file), Calibration)[0].environment_id for file in a.also]
    predictions = [
        longest_part(point, model, math_s=1.0, dram_s=0.5)
        for model in ("calibrated", *map(transferred_model, others))
        for point in read_records(_file(a.run, "plan", a.op), PlanPoint)
    ]
    write_records(Path(a.out), predictions)


def compare(a: Any) -> int:
    """Say which runs were compared, and that no point could be: no failure of a study."""
    Path(a.out).write_text(json.dumps(a.runs))
    return 2


def breakeven(a: Any) -> None:
    read_records(Path(a.calibration), Calibration)
    write_bytes(Path(a.out), b"recipe,pass\n")


def llm(a: Any) -> None:
    read_records(Path(a.calibration), Calibration)
    write_bytes(Path(a.out), b"model,recipe\n")


def report(a: Any) -> None:
    pairs = [pair.partition("=") for pair in a.run]
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
