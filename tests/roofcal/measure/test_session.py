"""A session of measuring: what it takes over, what it measures, what it leaves behind."""

import errno
import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import psutil
import pytest

from roofcal.core.jsonl import append_record, read_records
from roofcal.core.machine import locks
from roofcal.core.records import Measurement, PlanPoint, Record, Session
from roofcal.measure import journal, session
from roofcal.measure.session import measure
from roofcal.study.discover import discover
from roofcal.study.staleness import ROOT
from tests.roofcal.measure.runs import Run, environment, point

FOUR = [point(f"r{i}", repeat=i) for i in range(4)]


def test_every_point_of_the_plan_is_a_row_in_its_order_whatever_kills_its_worker(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOFCAL_GIT_COMMIT", "c0ffee")
    monkeypatch.setattr(session, "checkout_is_dirty", lambda: True)
    before = psutil.Process().children(recursive=True)
    bad = [point(f"bad{i}", deed, repeat=1) for i, deed in enumerate(("segfaults", "is_killed"))]
    last = point("last", "tries_the_lock", repeat=2)
    plan = [point("a"), point("b", "exits"), *bad, last]
    found = measure(run.job(plan))
    assert [m.point_id for m in found] == [p.point_id for p in plan]
    assert [m.status for m in found] == ["ok", *["failed"] * 3, "ok"]
    assert read_records(run.folder / "out.jsonl", Measurement) == found
    (record,) = run.sessions()
    assert (record.git_commit, record.git_dirty) == ("c0ffee", True)
    assert record.timed_s == 2 * (0.5 + 0.25) * 2  # two points, two calls per sample
    assert record.wall_s
    assert str(record.finished_utc) >= record.started_utc
    assert (record.device_uuid, record.timing["seed"]) == (None, 3)
    # A session that dies must not free the device before its worker is gone.
    assert "lock held, by this process too: True" in run.trace
    assert psutil.Process().children(recursive=True) == before
    assert not locks.is_locked("cpu")
    with locks.lock_held("cpu", pytest.fail):  # nothing to measure needs neither device nor lock
        assert measure(run.job(plan)) == found


def test_what_was_measured_is_taken_over_while_all_it_depends_on_is_the_same(run: Run) -> None:
    a, b, changed = point("a"), point("b"), lambda _: "edited"
    first = measure(run.job([a, point("b", "exits"), point("gone")]))
    steps: list[tuple[list[PlanPoint], dict[str, Any], list[str]]] = [
        ([a, b], {}, []),
        ([a, point("new"), b], {}, ["new works"]),
        ([a, b], {"timing": {"point_timeout_s": 99.0}}, []),  # patience decides no number
        ([a], {"timing": {"seed": 4}}, ["a works"]),
        ([a], {"environment": environment(python="3.99")}, ["a works"]),
        ([a], {"code_hash_of": changed}, ["a works"]),
    ]
    for plan, change, again in steps:
        run.forget()
        rows = measure(run.job(plan, **change))
        assert run.trace == again
        assert [row.point_id for row in rows] == [p.point_id for p in plan]
        assert again or rows == first[:2]
        assert read_records(run.folder / "out.jsonl", Measurement) == rows
        # All sessions stand in the output whose points are there, and no other.
        assert {s.session_id for s in run.sessions()} == {row.session_id for row in rows}
    assert point("gone").point_id in {m.point_id for m in run.journal()}


def test_the_named_statuses_are_measured_again(run: Run) -> None:
    deeds = {"fine": "works", "crashed": "exits", "large": "runs_out_of_memory"}
    measure(run.job([point(name, deed) for name, deed in deeds.items()]))
    run.forget()
    plan = [point(name) for name in deeds]
    steps: dict[tuple[str, ...], list[str]] = {
        (): ["ok", "failed", "out_of_memory"],
        ("failed",): ["ok", "ok", "out_of_memory"],
        ("out_of_memory", "failed"): ["ok"] * 3,
    }
    for retry, statuses in steps.items():
        assert [row.status for row in measure(run.job(plan, retry=retry))] == statuses
    assert run.trace == ["crashed works", "large works"]


def test_a_killed_session_goes_on_where_it_was_and_a_cut_off_line_is_set_aside(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """kill -9 in the middle of the third group: two are kept, the other two are measured."""
    job = run.job([*FOUR[:2], point("r2", "kills_the_session", repeat=2), FOUR[3]])
    killed = subprocess.run([sys.executable, *run.program(job)], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not job.out.exists()
    before, whole = run.journal(), job.journal.read_bytes()
    job.journal.write_bytes(whole + b'{"record":"Meas')
    run.forget()
    found = measure(run.job(FOUR))
    assert [m.status for m in found] == ["ok"] * 4
    assert found[:2] == before
    assert run.trace == ["r2 works", "r3 works"]
    told, damaged = capsys.readouterr().err, run.folder / "journal.damaged.jsonl"
    assert f"journal.jsonl:{len(whole.splitlines()) + 1}: not a record" in told
    assert str(damaged) in told
    assert damaged.read_bytes() == whole + b'{"record":"Meas'
    assert job.journal.read_bytes().startswith(whole)


def test_two_sessions_on_one_journal_measure_every_point_once(run: Run) -> None:
    """The second waits for the first, and finds everything measured."""
    command = [sys.executable, *run.program(run.job(FOUR))]
    sessions = [subprocess.Popen(command, cwd=ROOT) for _ in range(2)]
    assert [session.wait() for session in sessions] == [0, 0]
    assert sorted(run.trace) == [f"r{i} works" for i in range(4)]
    assert len(run.journal()) == 4


def test_what_was_measured_while_a_session_waited_for_the_device_is_taken_over(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the file system of the journal has no locks."""
    job = run.job(FOUR[:2])
    real = locks.wait_for_locks
    done: list[str] = []

    def wait(*arguments: Any) -> Any:
        if not done:
            done.append("the other session runs first")
            with monkeypatch.context() as patch:
                patch.setattr(session, "lock_journal", lambda *_: nullcontext())
                measure(job)
        return real(*arguments)

    monkeypatch.setattr(session, "wait_for_locks", wait)
    assert len(measure(job)) == 2
    assert run.trace == ["r0 works", "r1 works"]


def full_disk_after(count: int) -> Any:
    """append_record that writes `count` records, then half a line, as a full disk does."""
    done: list[Record] = []

    def append(where: Path, record: Record) -> None:
        if len(done) == count:
            with where.open("a") as stream:
                stream.write('{"record":"Mea')
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append_record(where, record)
        done.append(record)

    return append


def test_a_full_disk_ends_the_session_and_keeps_the_journal(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = run.job(FOUR)
    before = psutil.Process().children()
    with monkeypatch.context() as patch:
        patch.setattr(journal, "append_record", full_disk_after(4))
        with pytest.raises(OSError, match=r"No space left on device: '.*journal\.jsonl'"):
            measure(job)
    assert len(run.journal()) == 2, "a session, twice, and two measurements, each line whole"
    assert not job.out.exists()
    assert psutil.Process().children() == before
    run.forget()
    assert len(measure(job)) == 4
    assert run.trace == ["r2 works", "r3 works"]


@pytest.mark.parametrize(
    ("plan", "timing", "says"),
    [
        ([point("a", device="nvidia-b200")], {}, r"plan\.jsonl.*\(test-cpu\).*gemm on nvidia-b200"),
        ([point("a"), point("a", op="cast")], {}, "op cast on test-cpu, op gemm on test-cpu"),
        ([point("a", op="gem")], {}, r"plan\.jsonl: unknown op 'gem'; allowed: .*gemm, cast"),
        ([], {}, r"plan\.jsonl: holds no PlanPoint"),
        ([point("a")], {"slize_s": 1.0}, "slize_s"),
    ],
)
def test_a_job_that_cannot_be_is_refused_before_anything_is_measured(
    run: Run, plan: list[PlanPoint], timing: dict[str, float], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        measure(run.job(plan, timing=timing))
    assert not (run.folder / "journal.jsonl").exists()


def test_the_command_line_ends_with_exit_code_2_and_one_message(run: Run) -> None:
    here = discover(ROOT / "config" / "devices")[0]
    job = run.job([point("a", device="nvidia-b200")], environment=here)
    command = [sys.executable, *run.command(job)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {job.plan}: a plan is of one op, on the device of")
    assert "Traceback" not in done.stderr


def test_no_process_and_no_lock_is_left_by_an_interrupt(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C reaches the session alone: the worker has a process group of its own."""
    append = journal.Journal.append

    def interrupt(self: journal.Journal, record: Record) -> None:
        append(self, record)
        if isinstance(record, Measurement):
            raise KeyboardInterrupt

    before = psutil.Process().children(recursive=True)
    job = run.job([point("a"), point("c", repeat=1)])
    monkeypatch.setattr(journal.Journal, "append", interrupt)
    with pytest.raises(KeyboardInterrupt):
        measure(job)
    assert read_records(job.journal, Session)[-1].finished_utc is not None
    assert psutil.Process().children(recursive=True) == before
    assert not locks.is_locked("cpu")
