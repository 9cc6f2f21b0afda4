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

from roofcal.core.jsonl import RecordsError, append_record, read_records
from roofcal.core.machine import checkout as checkout_module
from roofcal.core.machine import locks
from roofcal.core.records import Measurement, PlanPoint, Record, Session
from roofcal.measure import journal, session
from roofcal.measure.session import measure
from roofcal.measure.supervisor import MeasureError
from roofcal.study.discover import discover
from roofcal.study.staleness import ROOT
from tests.roofcal.measure.runs import Run, environment, point, scripted


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return scripted(monkeypatch, tmp_path)


def recipes(points: list[PlanPoint], found: list[Measurement]) -> dict[str, str]:
    names = {p.point_id: p.recipe for p in points}
    return {names[m.point_id]: m.status for m in found}


def test_every_point_of_the_plan_is_a_row_in_its_order(run: Run) -> None:
    plan = [point("a", "works"), point("b", "exits"), point("c", "works", repeat=1)]
    found = measure(run.job(plan))
    assert [m.point_id for m in found] == [p.point_id for p in plan]
    assert [m.status for m in found] == ["ok", "failed", "ok"]
    assert read_records(run.folder / "out.jsonl", Measurement) == found


def test_the_sweep_goes_on_behind_a_group_that_kills_every_worker(run: Run) -> None:
    bad = [point(f"bad{i}", "segfaults", repeat=1) for i in range(3)]
    plan = [point("first"), *bad, point("last", repeat=2)]
    found = recipes(plan, measure(run.job(plan)))
    assert found["first"] == found["last"] == "ok"
    assert [found[f"bad{i}"] for i in range(3)] == ["failed"] * 3


def test_a_second_session_measures_nothing_again(run: Run) -> None:
    plan = [point("a"), point("b", "exits")]
    first = measure(run.job(plan))
    run.forget()
    assert measure(run.job([point("a"), point("b")])) == first
    assert run.trace == []


def test_a_new_point_is_measured_alone(run: Run) -> None:
    measure(run.job([point("a"), point("b")]))
    run.forget()
    measure(run.job([point("a"), point("new"), point("b")]))
    assert run.trace == ["new works"]


def test_a_point_that_left_the_plan_is_in_the_journal_and_not_in_the_output(run: Run) -> None:
    measure(run.job([point("a"), point("gone")]))
    found = measure(run.job([point("a")]))
    assert [m.point_id for m in found] == [point("a").point_id]
    assert len(read_records(run.folder / "out.jsonl", Measurement)) == 1
    assert point("gone").point_id in {m.point_id for m in run.journal()}


def test_changed_code_measures_anew(run: Run) -> None:
    plan = [point("a")]
    old = measure(run.job(plan))
    new = measure(run.job(plan, code_hash_of=lambda _: "edited"))
    assert new[0].session_id != old[0].session_id
    assert run.sessions()[0].code_hash == "edited"


@pytest.mark.parametrize(("change", "again"), [({"slice_s": 0.5}, 1), ({"seed": 4}, 1)])
def test_another_timing_protocol_measures_anew(
    run: Run, change: dict[str, Any], again: int
) -> None:
    measure(run.job([point("a")]))
    run.forget()
    measure(run.job([point("a")], timing=change))
    assert len(run.trace) == again


def test_more_patience_with_hanging_points_measures_nothing_again(run: Run) -> None:
    measure(run.job([point("a")]))
    run.forget()
    measure(run.job([point("a")], timing={"point_timeout_s": 99.0}))
    assert run.trace == []


def test_another_environment_measures_anew(run: Run) -> None:
    measure(run.job([point("a")]))
    run.forget()
    measure(run.job([point("a")], environment=environment(python="3.99")))
    assert run.trace == ["a works"]


@pytest.mark.parametrize(
    ("retry", "again"),
    [
        ((), []),
        (("failed",), ["crashed works"]),
        (("out_of_memory",), ["large works"]),
        (("out_of_memory", "failed"), ["crashed works", "large works"]),
    ],
)
def test_the_named_statuses_are_measured_again(
    run: Run, retry: tuple[str, ...], again: list[str]
) -> None:
    measure(
        run.job([point("fine"), point("crashed", "exits"), point("large", "runs_out_of_memory")])
    )
    run.forget()
    plan = [point("fine"), point("crashed"), point("large")]
    found = recipes(plan, measure(run.job(plan, retry=retry)))
    assert run.trace == again
    assert {found[line.split()[0]] for line in again} <= {"ok"}


def test_a_killed_session_goes_on_where_it_was(run: Run) -> None:
    """kill -9 in the middle of the third group: two are kept, the other two are measured."""
    plan = [point(f"r{i}", repeat=i) for i in range(4)]
    job = run.job([*plan[:2], point("r2", "kills_the_session", repeat=2), plan[3]])
    killed = subprocess.run([sys.executable, *run.program(job)], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not job.out.exists()
    before = run.journal()
    with job.journal.open("a") as stream:
        stream.write('{"record":"Measurement","schema_ver')
    run.forget()
    found = measure(run.job(plan))
    assert [m.status for m in found] == ["ok"] * 4
    assert found[:2] == before
    assert run.trace == ["r2 works", "r3 works"]


def test_a_cut_off_journal_line_is_named_and_set_aside(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    job = run.job([point("a")])
    measure(job)
    whole = job.journal.read_bytes()
    job.journal.write_bytes(whole + b'{"record":"Meas')
    measure(job)
    told = capsys.readouterr().err
    assert f"journal.jsonl:{len(whole.splitlines()) + 1}: not a record" in told
    damaged = run.folder / "journal.damaged.jsonl"
    assert str(damaged) in told
    assert damaged.read_bytes().endswith(b'{"record":"Meas')
    assert job.journal.read_bytes() == whole


def test_both_sessions_stand_in_the_output_of_a_run_in_two_parts(run: Run) -> None:
    measure(run.job([point("a")]))
    found = measure(run.job([point("a"), point("b")]))
    assert [s.session_id for s in run.sessions()] == [m.session_id for m in found]


def test_the_session_says_how_long_it_took_and_what_it_ran(run: Run) -> None:
    measure(run.job([point("a"), point("b"), point("c", "exits")]))
    (record,) = run.sessions()
    assert record.timed_s == 2 * (0.5 + 0.25) * 2  # two points, two calls per sample
    assert record.wall_s is not None
    assert record.wall_s > 0
    assert str(record.finished_utc) >= record.started_utc
    assert record.device_uuid is None
    assert record.timing["seed"] == 3


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    command = ["git", *who, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("dirty", [True, False])
def test_the_session_says_which_commit_it_ran_and_whether_it_was_edited(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dirty: bool
) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    git(checkout, "init")
    git(checkout, "commit", "--allow-empty", "-m", "one")
    if dirty:
        (checkout / "kernels").mkdir()
        (checkout / "kernels/edited.py").touch()
    monkeypatch.setattr(checkout_module, "CHECKOUT", checkout)
    measure(run.job([point("a")]))
    record = run.sessions()[0]
    assert (record.git_commit, record.git_dirty) == (git(checkout, "rev-parse", "HEAD"), dirty)


def test_outside_a_git_checkout_the_commit_is_unknown(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkout_module, "CHECKOUT", run.folder)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(run.folder.parent))
    monkeypatch.delenv("ROOFCAL_GIT_COMMIT", raising=False)
    measure(run.job([point("a")]))
    assert (run.sessions()[0].git_commit, run.sessions()[0].git_dirty) == (None, None)


def test_the_device_is_locked_while_it_is_measured_and_free_afterwards(run: Run) -> None:
    """By the worker too: a session that dies must not free the card before its worker is gone."""
    measure(run.job([point("a", "tries_the_lock")]))
    assert "lock held, by this process too: True" in run.trace
    lock = locks.try_lock("cpu")
    assert lock is not None
    lock.release()


def test_two_sessions_on_one_journal_measure_every_point_once(run: Run) -> None:
    """The second waits for the first, and finds everything measured."""
    plan = [point(f"r{i}", repeat=i) for i in range(4)]
    job = run.job(plan)
    command = [sys.executable, *run.program(job)]
    sessions = [subprocess.Popen(command, cwd=ROOT) for _ in range(2)]
    assert [session.wait() for session in sessions] == [0, 0]
    assert sorted(run.trace) == [f"r{i} works" for i in range(4)]
    assert len(run.journal()) == 4


def test_what_was_measured_while_a_session_waited_for_the_device_is_taken_over(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the file system of the journal has no locks."""
    plan = [point("a"), point("b", repeat=1)]
    job = run.job(plan)
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
    assert run.trace == ["a works", "b works"]


def test_the_device_is_free_after_a_session_that_failed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AT_START", "exits")
    with pytest.raises(MeasureError, match="did not start"):
        measure(run.job([point("a")]))
    lock = locks.try_lock("cpu")
    assert lock is not None
    lock.release()


def test_nothing_to_measure_needs_neither_device_nor_lock(run: Run) -> None:
    measure(run.job([point("a")]))
    lock = locks.try_lock("cpu")
    assert lock is not None
    assert len(measure(run.job([point("a")]))) == 1
    lock.release()


def test_no_process_is_left_behind(run: Run) -> None:
    before = psutil.Process().children(recursive=True)
    measure(run.job([point("a", "exits"), point("b", "is_killed"), point("c")]))
    assert psutil.Process().children(recursive=True) == before


def full_disk_after(count: int, path: Path) -> Any:
    """append_record that writes `count` records, then half a line, as a full disk does."""
    done: list[Record] = []

    def append(where: Path, record: Record) -> None:
        if len(done) == count:
            with where.open("a") as stream:
                stream.write('{"record":"Mea')
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append_record(where, record)
        done.append(record)

    assert not path.exists()
    return append


def test_a_full_disk_ends_the_session_and_keeps_the_journal(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = [point(f"r{i}", repeat=i) for i in range(4)]
    job = run.job(plan)
    before = psutil.Process().children()
    monkeypatch.setattr(journal, "append_record", full_disk_after(4, job.journal))
    with pytest.raises(OSError, match=r"No space left on device: '.*journal\.jsonl'"):
        measure(job)
    assert len(run.journal()) == 2, "a session, twice, and two measurements, each line whole"
    assert not job.out.exists()
    assert psutil.Process().children() == before
    monkeypatch.setattr(journal, "append_record", append_record)
    run.forget()
    assert len(measure(job)) == 4
    assert run.trace == ["r2 works", "r3 works"]


def test_a_plan_of_another_device_than_its_environment_is_refused(run: Run) -> None:
    with pytest.raises(MeasureError, match=r"plan\.jsonl.*\(test-cpu\).*op gemm on nvidia-b200"):
        measure(run.job([point("a", device="nvidia-b200")]))


def test_a_plan_of_two_ops_is_refused(run: Run) -> None:
    with pytest.raises(MeasureError, match="op cast on test-cpu, op gemm on test-cpu"):
        measure(run.job([point("a"), point("a", op="cast")]))


def test_an_unknown_op_is_refused_with_the_known_ones(run: Run) -> None:
    with pytest.raises(MeasureError, match=r"plan\.jsonl: unknown op 'gem'; allowed: .*gemm, cast"):
        measure(run.job([point("a", op="gem")]))


def test_an_empty_plan_is_refused(run: Run) -> None:
    with pytest.raises(MeasureError, match=r"plan\.jsonl: holds no PlanPoint"):
        measure(run.job([]))


def test_a_misspelt_timing_key_is_refused_before_anything_is_measured(run: Run) -> None:
    with pytest.raises(ValueError, match="slize_s"):
        measure(run.job([point("a")], timing={"slize_s": 1.0}))
    assert not (run.folder / "journal.jsonl").exists()


def test_a_broken_plan_is_refused_with_its_line(run: Run) -> None:
    job = run.job([point("a")])
    job.plan.write_text(job.plan.read_text() + "not JSON\n")
    with pytest.raises(RecordsError, match=r"plan\.jsonl:2"):
        measure(job)


def test_the_command_line_ends_with_exit_code_2_and_one_message(run: Run) -> None:
    here = discover(ROOT / "config" / "devices")[0]
    job = run.job([point("a", device="nvidia-b200")], environment=here)
    command = [sys.executable, *run.command(job)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {job.plan}: a plan is of one op, on the device of")
    assert "Traceback" not in done.stderr


def test_an_interrupt_ends_the_worker_and_the_session_record(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C reaches the session alone: the worker has a process group of its own."""
    real = journal.Journal.append

    def append(self: journal.Journal, record: Record) -> None:
        real(self, record)
        if isinstance(record, Measurement):
            raise KeyboardInterrupt

    before = psutil.Process().children()
    monkeypatch.setattr(journal.Journal, "append", append)
    with pytest.raises(KeyboardInterrupt):
        measure(run.job([point("a"), point("b", repeat=1)]))
    assert psutil.Process().children() == before
    last = read_records(run.folder / "journal.jsonl", Session)[-1]
    assert last.finished_utc is not None
