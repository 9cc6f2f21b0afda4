"""Plans, environments and jobs for the tests of measure, and how to put stand-ins in place."""

import hashlib
import json
import os
import pickle
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from roofcal.core.jsonl import read_records, write_records
from roofcal.core.machine import locks
from roofcal.core.records import Environment, Measurement, PlanPoint, Protocol, Session
from roofcal.measure import workers
from roofcal.measure.session import Job, measure
from roofcal.measure.workers import WorkerProcess, Workers
from roofcal.study.staleness import measure_hash
from tests.forked import start_server
from tests.made_once import make_once
from tests.roofcal.made_up_records import environment_of, point_of
from tests.roofcal.measure.forked_worker import ForkedWorker

STAND_INS = Path(__file__).parent / "stand_ins"
TIMING = {
    "settle_min_s": 0.001,
    "settle_max_s": 0.002,
    "slice_s": 0.001,
    "budget_s": 0.002,
    "min_samples": 2,
    "min_rounds": 1,
    "sample_s": 0.0001,
    "visits": 1,
    "more_visits": 0,
    "warm_card_s": 0,
    "point_timeout_s": 20.0,
    "seed": 3,
}
SHAPE = {"m": 8, "n": 8, "k": 8}
hash_of_code = cache(measure_hash)  # parses 50 files: 0.2 s of CPU


def environment(**changes: Any) -> Environment:
    """This machine's CPU under another name, so that no result is taken for a real one."""
    known: dict[str, Any] = {"device": "test-cpu", "vendor": "cpu", "compute_units": 1}
    return environment_of(**known | {"last_level_cache_bytes": 1 << 16} | changes)


def point(recipe: str, deed: str = "works", **changes: Any) -> PlanPoint:
    """A point of op gemm. `deed` says what the scripted worker does; it is no part of its id."""
    known: dict[str, Any] = {"op": "gemm", "shape": SHAPE, "sweeps": (deed,)}
    known |= {"provider": "torch_cpu", "device": "test-cpu", "recipe": recipe}
    return point_of(**known | changes)


def hot(recipe: str, **changes: Any) -> PlanPoint:
    return point(recipe, protocol=Protocol(cache="hot"), **changes)


@dataclass(frozen=True)
class Run:
    """A run folder with one op, and what its sessions left there."""

    folder: Path

    def job(self, points: Sequence[PlanPoint], **changes: Any) -> Job:
        """Write plan and environment, and name all files."""
        found = changes.pop("environment", environment())
        write_records(self.folder / "plan.jsonl", points)
        write_records(self.folder / "environment.jsonl", [found])
        timing = TIMING | changes.pop("timing", {})
        return Job(
            plan=self.folder / "plan.jsonl",
            environment=self.folder / "environment.jsonl",
            journal=self.folder / "journal.jsonl",
            out=self.folder / "out.jsonl",
            timing=timing,
            **({"code_hash_of": hash_of_code} | changes),
        )

    def command(self, job: Job) -> list[str]:
        """The arguments of `python` that do the job on the command line."""
        names = ("plan", "environment", "journal", "out")
        files = [word for name in names for word in (f"--{name}", str(getattr(job, name)))]
        return ["-m", "roofcal", "measure", *files, "--timing", json.dumps(job.timing)]

    def program(self, job: Job) -> list[str]:
        """The arguments of `python` that do the job without asking whether this is the device."""
        names = ("plan", "environment", "journal", "out")
        files = ", ".join(f"{name}=Path({str(getattr(job, name))!r})" for name in names)
        head = "from pathlib import Path; from roofcal.measure.session import Job, measure"
        hashes = {op: hash_of_code(op) for op in ("gemm",)}
        rest = f"timing={dict(job.timing)!r}, code_hash_of={hashes!r}.__getitem__"
        return ["-c", f"{head}; measure(Job({files}, {rest}))"]

    @property
    def locks(self) -> str:
        """The name of its space of locks."""
        return hashlib.sha256(str(self.folder).encode()).hexdigest()[:16]

    @property
    def trace(self) -> list[str]:
        """What the scripted workers were asked for, in order."""
        path = self.folder / "trace"
        return path.read_text().splitlines() if path.exists() else []

    def forget(self) -> None:
        """Start a new trace."""
        (self.folder / "trace").unlink(missing_ok=True)

    def journal(self) -> list[Measurement]:
        return read_records(self.folder / "journal.jsonl", Measurement)

    def sessions(self, name: str = "out") -> list[Session]:
        return read_records(self.folder / f"{name}.jsonl", Session)


def rig(
    patch: pytest.MonkeyPatch, folder: Path, *, measures_here: bool = True, **files: str
) -> Run:
    """A run in `folder` whose processes run the named files of stand_ins instead of modules.

    files: "measure.worker" (with _ for the dot) -> file. The locks of devices are the test's own:
    it neither waits for a study on this machine nor holds it up. Workers of sessions in this
    process are forked from one that has imported torch; where no session is, that is not started:
    it takes 7 s of CPU.
    """
    if measures_here:
        start_server()
        forking = SimpleNamespace(Popen=ForkedWorker, PIPE=subprocess.PIPE)
        patch.setattr(workers, "subprocess", forking)
    modules = {
        f"roofcal.{name}".replace("__", "."): str(STAND_INS / f) for name, f in files.items()
    }
    patch.setenv("ROOFCAL_STAND_INS", json.dumps(modules))
    patch.setenv("PYTHONPATH", os.pathsep.join([str(STAND_INS), os.environ.get("PYTHONPATH", "")]))
    patch.setenv("TMPDIR", str(folder))
    patch.setattr(tempfile, "tempdir", None)
    patch.setenv("ROOFCAL_LOCKS", Run(folder).locks)
    patch.setenv("TRACE", str(folder / "trace"))
    return Run(folder)


def hangs_are_noted(patch: pytest.MonkeyPatch, run: Run) -> None:
    """Sessions of this process wait for a silent worker until it has noted that it hangs.

    On a loaded machine a good worker is silent for seconds, so a deadline would have to be long,
    and every point that hangs would take that long. Stand-ins note their process number in the file
    `hanging` instead: from then on one or two seconds of silence are the end of the point's time.
    """

    def hangs(worker: WorkerProcess) -> bool:
        path = run.folder / "hanging"
        noted = path.read_text().split() if path.exists() else []
        return str(worker.pid) in noted or not worker.is_running()

    next_event = Workers.next_event

    def wait_for_event(waiting: Workers, _: float) -> Any:
        while True:
            is_hopeless = any(map(hangs, waiting._workers))
            event = next_event(waiting, 1.0 if waiting.world_size == 1 else 2.0)
            if event is not None or is_hopeless or waiting._end is not None:
                return event

    patch.setattr(Workers, "next_event", wait_for_event)


def device_is_free() -> bool:
    """Whether nobody measures on this CPU, in the space of locks that is set."""
    return not locks.is_locked("cpu")


def workers_here() -> list[psutil.Process]:
    """Workers that this process started and that are still there."""
    server = start_server()
    workers = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # it ended meanwhile
            command = " ".join(child.cmdline())
            is_python = "roofcal.measure.worker" in command or "multiprocessing.fork" in command
            workers += [child] if is_python and child.pid != server else []
    return workers


def scripted(patch: pytest.MonkeyPatch, folder: Path, *, measures_here: bool = True) -> Run:
    """A run whose worker is stand_ins/scripted_worker.py."""
    files = {"measure__worker": "scripted_worker.py"}
    return rig(patch, folder, measures_here=measures_here, **files)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run folder whose worker follows a script."""
    return scripted(monkeypatch, tmp_path)


@dataclass(frozen=True)
class Sweep:
    """A plan of points with different recipes, and what measuring them left."""

    plan: Sequence[PlanPoint]
    rows: Mapping[str, Measurement]  # by recipe
    run: Run


def sweep_once(
    factory: pytest.TempPathFactory, plan: Sequence[PlanPoint], **timing: float
) -> Sweep:
    """What measuring a plan left where stand_ins/faulty_bench.py is the bench of op gemm.

    One process measures, because a sweep takes some 20 s and pytest-xdist spreads the tests of a
    module over its processes.
    """

    def measure_and_keep(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            (folder / "run").mkdir()
            run = rig(patch, folder / "run", ops__gemm__bench="faulty_bench.py")
            hangs_are_noted(patch, run)
            patch.setattr(workers, "_GRACE_S", 20.0)  # it ends when all ranks have ended
            rows = measure(run.job(plan, timing=timing))
        by_recipe = {point.recipe: row for point, row in zip(plan, rows, strict=True)}
        (folder / "sweep.pickle").write_bytes(pickle.dumps(Sweep(plan, by_recipe, run)))

    kept = make_once(factory, f"sweep-{plan[0].world_size}", measure_and_keep) / "sweep.pickle"
    sweep: Sweep = pickle.loads(kept.read_bytes())
    return sweep
