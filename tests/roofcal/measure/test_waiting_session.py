"""A session whose card is being measured imports meanwhile, and takes the card when it is free."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from roofcal.core.machine import locks
from roofcal.core.records import Environment, PlanPoint
from tests.campaign.one_op_study import processes_of
from tests.paths import ROOT
from tests.roofcal.measure.runs import STAND_INS, Run, environment, point, scripted
from tests.roofcal.measure.test_session_devices import GPU
from tests.waiting import wait_until

PATIENCE_S = 60
SOFT = (signal.SIGTERM, signal.SIGINT)
ENDS = [signal.SIGKILL, *(pytest.param(end, marks=pytest.mark.campaign) for end in SOFT)]


@dataclass
class Sessions:
    """Sessions that measure on one card, each into a run folder of its own."""

    folder: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, name: str, *deeds: str) -> tuple[Run, subprocess.Popen[bytes]]:
        """A session with a point for each deed, as a process."""
        run = Run(self.folder / name)
        run.folder.mkdir()
        plan: list[PlanPoint] = [
            point(f"{name}{number}", deed, repeat=number) for number, deed in enumerate(deeds)
        ]
        card: Environment = environment(**GPU)
        command = [sys.executable, *run.program(run.job(plan, environment=card))]
        # SIGINT, even where this process ignores it, as jobs in the background of a shell do.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        with (run.folder / "said").open("wb") as said:
            process = subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=said)
        signal.signal(signal.SIGINT, before)
        self.started.append(process)
        return run, process

    @property
    def trace(self) -> list[str]:
        """The points that workers were asked for, in order."""
        return Run(self.folder).trace

    def wait_for_point(self, name: str) -> None:
        wait_until(lambda: any(line.startswith(name) for line in self.trace), name)


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sessions]:
    scripted(monkeypatch, tmp_path)
    stand_ins = json.loads(os.environ["ROOFCAL_STAND_INS"])
    stand_ins["roofcal.core.machine.nvml"] = str(STAND_INS / "one_card.py")
    monkeypatch.setenv("ROOFCAL_STAND_INS", json.dumps(stand_ins))
    sessions = Sessions(tmp_path)
    yield sessions
    for process in sessions.started:
        process.kill()
        process.wait()
    wait_until(lambda: not processes_of(os.environ["ROOFCAL_LOCKS"]), "the end of all processes")


def worker_of(session: subprocess.Popen[bytes]) -> psutil.Process:
    """The worker of a session, once it is there."""
    wait_until(lambda: bool(workers_of(session)), "a worker")
    return workers_of(session)[0]


def workers_of(session: subprocess.Popen[bytes]) -> list[psutil.Process]:
    workers = []
    for child in psutil.Process(session.pid).children():
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            workers += [child] if "roofcal.measure.worker" in child.cmdline() else []
    return workers


def test_the_worker_is_there_before_the_card_is_free_and_holds_its_lock_afterwards(
    sessions: Sessions,
) -> None:
    with locks.lock_held("GPU-1", pytest.fail):
        run, waiting = sessions.start("a", "tries_the_lock")
        worker = worker_of(waiting)
        wait_until(lambda: b"waiting: another measurement uses GPU-1" in said(run), "the session")
        assert sessions.trace == []
    assert waiting.wait(PATIENCE_S) == 0, said(run)
    assert sessions.trace == ["a0 tries_the_lock", "lock held, by this process too: True"]
    assert not worker.is_running()
    (record,) = run.sessions()
    assert record.waited_s
    assert record.starting_s is not None
    assert 0 <= record.starting_s <= float(record.wall_s or 0)
    assert record.compiling_s == 0.25
    assert record.device_uuid == "GPU-1"


def said(run: Run) -> bytes:
    return (run.folder / "said").read_bytes()


@pytest.mark.parametrize("end", ENDS)
def test_the_next_session_measures_when_the_one_before_is_killed(
    sessions: Sessions, end: signal.Signals
) -> None:
    _, first = sessions.start("a", *["takes a second"] * 60)
    sessions.wait_for_point("a1")
    run, second = sessions.start("b", "works", "works")
    worker_of(second)
    first.send_signal(end)
    assert second.wait(PATIENCE_S) == 0, said(run)
    assert [line for line in sessions.trace if line.startswith("b")] == ["b0 works", "b1 works"]
    assert [row.status for row in run.journal()] == ["ok", "ok"]


@pytest.mark.parametrize("end", ENDS)
def test_a_waiting_session_that_is_ended_leaves_no_process_and_measures_nothing(
    sessions: Sessions, end: signal.Signals
) -> None:
    with locks.lock_held("GPU-1", pytest.fail):
        _, waiting = sessions.start("a", "works")
        worker = worker_of(waiting)
        waiting.send_signal(end)
        waiting.wait(PATIENCE_S)
        wait_until(
            lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE, "its end"
        )
    assert sessions.trace == []
    assert not locks.is_locked("GPU-1"), "nothing of it holds the card"


def test_a_worker_that_is_killed_while_it_waits_is_replaced(sessions: Sessions) -> None:
    with locks.lock_held("GPU-1", pytest.fail):
        run, waiting = sessions.start("a", "tries_the_lock")
        worker_of(waiting).kill()
        wait_until(lambda: b"waiting: another measurement uses GPU-1" in said(run), "the session")
    assert waiting.wait(PATIENCE_S) == 0, said(run)
    assert sessions.trace[-1] == "lock held, by this process too: True"


def test_on_a_cpu_nothing_is_imported_beside_a_measurement(run: Run) -> None:
    with locks.lock_held("cpu", pytest.fail), (run.folder / "said").open("wb") as stream:
        command = [sys.executable, *run.program(run.job([point("a")]))]
        waiting = subprocess.Popen(command, cwd=ROOT, stderr=stream)
        wait_until(lambda: b"waiting: another measurement uses cpu" in said(run), "the session")
        assert psutil.Process(waiting.pid).children() == []
    assert waiting.wait(PATIENCE_S) == 0
