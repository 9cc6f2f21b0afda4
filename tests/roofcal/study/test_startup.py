"""A study that starts says what comes, removes locks of a killed one, and prints a line per job."""

import errno
import fcntl
import logging
import multiprocessing
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from roofcal.core.jsonl import write_records
from roofcal.core.paths import RunsError
from roofcal.core.records import VISITED_ONCE
from roofcal.ops import visit_times
from roofcal.study import startup
from roofcal.study.config import load_study
from roofcal.study.plan import plan_op
from roofcal.study.runs import StudyRun, current_runs, study_runs
from roofcal.study.startup import (
    JobLines,
    announcement,
    hold_study_lock,
    print_job_lines,
    study_notes,
)
from tests.paths import ROOT
from tests.roofcal.made_up_records import environment_of

CPU = environment_of("cpu-test")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StudyRun:
    study = load_study(ROOT / "config")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("roofcal.study.discover.discover", lambda _folder: [CPU])
    (run,) = current_runs(study)
    return run


def test_points_ops_and_minutes_are_said(run: StudyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visit_times, "CPU_VISIT_S", 1.0)
    monkeypatch.setattr(startup, "SESSION_S", {"cpu": 0.0})
    once = replace(run, timing={**run.timing, "visits": 1, "more_visits": 0})
    (sentence,) = announcement([once])
    assert sentence.startswith("cpu-test: ")
    points = int(sentence.split()[1])
    assert f"{points} points of 9 ops to measure, about {round(points / 60)} min" in sentence
    twice = replace(run, timing={**run.timing, "visits": 60, "more_visits": 0.5})
    plans = (plan_op(op_slice, CPU) for op_slice in run.slices.values())
    once_only = sum(p.protocol.method in VISITED_ONCE for plan in plans for p in plan)
    minutes = 1.5 * (points - once_only + once_only / 60)
    assert f"about {round(minutes)} min" in next(announcement([twice]))


def test_points_that_need_more_devices_are_counted_apart_and_take_no_time(run: StudyRun) -> None:
    shared = {
        "op": "probe_link",
        "seed": 0,
        "contenders": {"all_gather": ["gloo"]},
        "sweeps": {"sizes": {"grid": {"size_bytes": [4096]}, "world_sizes": [2, 4, 16]}},
        "models": {},
        "sentinel": [],
    }
    one = replace(run, slices={"probe_link": shared}, most_devices=4)
    (sentence,) = announcement([one])
    more = "1 that need more devices than are here"
    assert sentence == f"cpu-test: 2 points of 1 ops to measure, about 1 min, {more}"
    assert list(announcement([replace(one, most_devices=1)])) == []
    broken = replace(run, slices={"gemm": {**run.slices["gemm"], "sweeps": {}}})
    (sentence,) = announcement([broken])
    assert sentence.startswith("gemm cannot be planned: gemm: nothing to measure on cpu")


def test_probes_that_are_measured_beside_the_ops_named_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("roofcal.study.discover.discover", lambda _folder: [CPU])
    study = load_study(ROOT / "config", {"ops": ["gemm", "probe_copy"]})
    runs = current_runs(study)
    assert [set(run.ops) for run in runs] == [{"gemm", "probe_math", "probe_copy", "probe_launch"}]
    said = study_notes(study, runs, ["a run is left out"], is_dry_run=True)
    assert said[:1] == ["a run is left out"]
    assert said[1].endswith("because it calibrates them: probe_launch, probe_math")
    whole = load_study(ROOT / "config")
    assert "calibrates" not in study_notes(whole, current_runs(whole), [], is_dry_run=True)[0]


@pytest.mark.parametrize(
    ("device", "size", "others"),
    [
        ("nvidia-test", "standard", "on a GPU; `--config study=full` has."),
        ("cpu-test", "quick", "on a CPU; `--config study=standard` or `--config study=full` has."),
    ],
)
def test_an_op_that_is_named_and_has_no_point_in_this_size_is_said_with_the_sizes_that_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, size: str, others: str
) -> None:
    monkeypatch.chdir(tmp_path)
    here = environment_of(device)
    monkeypatch.setattr("roofcal.study.discover.discover", lambda _folder: [here])
    said = f"transformer_block is not measured: study={size} has no point of it {others}"
    study = load_study(ROOT / "config", {"study": size, "ops": ["gemm", "transformer_block"]})
    (run,) = current_runs(study)
    assert said in study_notes(study, [run], [], is_dry_run=True)
    alone = load_study(ROOT / "config", {"study": size, "ops": ["transformer_block"]})
    with pytest.raises(RunsError, match=rf"ops: nothing to measure\. {re.escape(said)}"):
        study_runs(alone)


def test_what_is_measured_is_not_announced_again(run: StudyRun) -> None:
    for op in run.ops[1:]:
        write_records(run.measurements_file(op), [])
    (sentence,) = announcement([run])
    assert "cpu-test: 1 points of 1 ops to measure, about 1 min, " in sentence
    write_records(run.measurements_file(run.ops[0]), [])
    assert list(announcement([run, replace(run, backend=None)])) == []


NOTE = Path(".snakemake/roofcal_study.lock")
LOCK = Path(".snakemake/locks/0.output.lock")


class StartedStudy:
    """A process that starts as a study does, and lives until it is killed."""

    def __init__(self) -> None:
        fork = multiprocessing.get_context("fork")
        here, there = fork.Pipe()
        self.process = fork.Process(target=self._live, args=(there,), daemon=True)
        self.process.start()
        self.message: str | None = here.recv()

    @staticmethod
    def _live(pipe: Connection) -> None:
        pipe.send(hold_study_lock())
        time.sleep(600)

    def kill(self) -> None:
        """`kill -9`."""
        self.process.kill()
        self.process.join()


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], StartedStudy]]:
    """Starts a study in a folder of this test, where the test is too."""
    monkeypatch.chdir(tmp_path)
    LOCK.parent.mkdir(parents=True)
    with ExitStack() as stack:

        def start_study() -> StartedStudy:
            study = StartedStudy()
            stack.callback(study.kill)
            return study

        yield start_study


def assert_that_comers_keep_the_locks(start: Callable[[], StartedStudy]) -> None:
    """Two studies that start, say nothing, and are killed leave the locks where they are."""
    for _ in range(2):
        study = start()
        assert study.message is None
        study.kill()
        assert LOCK.exists()


def test_locks_that_nobody_noted_are_left_to_snakemake(start: Callable[[], StartedStudy]) -> None:
    LOCK.touch()
    assert_that_comers_keep_the_locks(start)
    assert NOTE.read_text() == ""


def test_a_living_study_keeps_its_locks_until_the_last_one_is_killed(
    start: Callable[[], StartedStudy],
) -> None:
    first, living = start(), start()
    LOCK.touch()
    first.kill()
    assert_that_comers_keep_the_locks(start)
    living.kill()
    assert "was killed" in str(start().message)
    assert not LOCK.exists()


def test_locks_of_another_machine_stay_and_the_one_command_is_told(
    start: Callable[[], StartedStudy], monkeypatch: pytest.MonkeyPatch
) -> None:
    start().kill()
    LOCK.touch()
    monkeypatch.setattr(socket, "gethostname", lambda: "login2")
    message = str(hold_study_lock())
    assert repr(NOTE.read_text()) in message
    assert "snakemake --unlock" in message
    assert LOCK.exists()


def test_without_locks_of_files_nothing_is_removed_and_the_one_command_is_told(
    start: Callable[[], StartedStudy], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    start().kill()
    monkeypatch.setattr(fcntl, "flock", refuse)
    assert hold_study_lock() is None
    LOCK.touch()
    assert "snakemake --unlock" in str(hold_study_lock())
    assert LOCK.exists()


def test_a_link_in_place_of_the_lock_is_not_written_through(
    start: Callable[[], StartedStudy],
) -> None:
    NOTE.symlink_to(Path("precious").resolve())
    with pytest.raises(OSError, match=NOTE.name):
        hold_study_lock()
    assert not Path("precious").exists()


class Complete(logging.Formatter):
    """Stands in for Snakemake's formatter: a message, or all files where a job has none."""

    def format(self, record: logging.LogRecord) -> str:
        return str(getattr(record, "rule_msg", None) or "rule measure: all its files")


def job(**values: object) -> logging.LogRecord:
    reason = "Missing output files: a.jsonl; Input files updated by another job: b.jsonl"
    known = {"event": "job_info", "rule_msg": "measure gemm", "reason": reason}
    return logging.makeLogRecord(known | values)


def test_the_terminal_is_shortened_and_the_log_file_is_not(tmp_path: Path) -> None:
    logger = logging.Logger("snakemake")
    terminal, file = logging.StreamHandler(), logging.FileHandler(tmp_path / "log")
    for handler in (terminal, file):
        handler.setFormatter(Complete())
        logger.addHandler(handler)

    print_job_lines(logger, details=False)

    assert terminal.format(job()) == "measure gemm (missing output files)"
    assert terminal.format(job(reason="")) == "measure gemm"
    error = job(event="job_error", rule_msg="Error in rule measure")
    assert terminal.format(error) == "Error in rule measure", "no job: left to Snakemake"
    record = job()
    assert file.format(record) == "rule measure: all its files"
    assert record.__dict__["rule_msg"] == "measure gemm"  # other handlers format it, too
    assert JobLines(Complete(), details=True).format(record) == "rule measure: all its files"
    file.close()
