"""What a journal keeps, what it takes over, and how it survives kills and full disks."""

import errno
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roofcal.core.jsonl import read_records
from roofcal.core.records import Measurement, Record
from roofcal.core.visits.rows import reusable_visits
from roofcal.measure.journal import Journal, lock_journal
from tests.roofcal.made_up_records import row as made_up_row
from tests.roofcal.made_up_records import session

TIMING = {"slice_s": 0.5, "point_timeout_s": 60, "seed": 0}
SESSION = session(session_id="s1", environment_id="e1", timing=TIMING)


def row(point: str, session: str = "s1", **rest: Any) -> Measurement:
    return made_up_row(point_id=point, session_id=session, environment_id="e1", **rest)


def unheard(text: str) -> None:
    raise AssertionError(f"nothing to tell, but told: {text}")


def written(path: Path, *records: Record) -> Journal:
    started = Journal(path, unheard)
    for record in records:
        started.append(record)
    return started


def test_the_end_of_a_session_and_the_latest_measurement_of_a_point_win(tmp_path: Path) -> None:
    ended, later = replace(SESSION, finished_utc="later", wall_s=5.0), row("a", elapsed_s=2.0)
    failed, unknown = row("a", status="failed"), row("b", session="unknown")
    kept = written(tmp_path / "j.jsonl", SESSION, failed, later, unknown, ended)
    assert kept.sessions == {"s1": ended}
    assert reusable_visits(kept.records, SESSION) == {("a", 0): later}


@pytest.mark.parametrize(
    ("damage", "line", "kept"),
    [
        (lambda content: b"\xff" + content, ":1", ["a", "b"]),
        (lambda content: content[:-20], ":4", ["a"]),
        (lambda content: content.replace(b"\n", b"\n\0\0\0\n", 1), ":2", ["a", "b"]),
        (lambda content: content[:-1], "", ["a", "b"]),
    ],
)
def test_a_damaged_file_is_named_set_aside_and_its_good_lines_kept(
    tmp_path: Path, damage: Callable[[bytes], bytes], line: str, kept: list[str]
) -> None:
    path, told = tmp_path / "j.jsonl", list[str]()
    written(path, SESSION, row("a"), row("b"))
    bad = damage(path.read_bytes())
    path.write_bytes(bad)
    mended = Journal(path, told.append)
    assert f"{path}{line}" in told[0]
    assert (tmp_path / "j.damaged.jsonl").read_bytes() == bad
    assert sorted(reusable_visits(mended.records, SESSION)) == [(name, 0) for name in kept]
    mended.append(row("c"))
    assert [m.point_id for m in read_records(path, Measurement)] == [*kept, "c"]


def test_a_second_damaged_file_does_not_replace_the_first(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    for text in ("first\n", "second\n", "third\n"):
        path.write_text(text)
        Journal(path, lambda _: None)
    kept = {file.name: file.read_text() for file in tmp_path.glob("j.damaged*")}
    assert sorted(kept.values()) == ["first\n", "second\n", "third\n"]


def test_one_session_at_a_time_uses_a_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, told = tmp_path / "new/j.jsonl", list[str]()

    def give_up(_: float) -> None:
        raise TimeoutError

    monkeypatch.setattr(time, "sleep", give_up)
    with lock_journal(path, unheard):
        with pytest.raises(TimeoutError), lock_journal(path, told.append):
            pass
        with lock_journal(tmp_path / "other.jsonl", unheard):
            pass
    assert told == [f"waiting: another session measures into {path}"]
    assert list(path.parent.iterdir()) == [], "nothing is left of a lock"


def test_a_session_that_waited_takes_the_lock_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever held the file that it waited for removes it; another is made in its place."""
    path = tmp_path / "j.jsonl"
    first = lock_journal(path, unheard)
    first.__enter__()

    def end_first(_: float) -> None:
        first.__exit__(None, None, None)

    def give_up(_: float) -> None:
        raise TimeoutError

    monkeypatch.setattr(time, "sleep", end_first)
    with lock_journal(path, lambda _: None):
        monkeypatch.setattr(time, "sleep", give_up)
        with pytest.raises(TimeoutError), lock_journal(path, lambda _: None):
            pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_said_and_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    told = list[str]()
    monkeypatch.setattr("roofcal.measure.journal.fcntl.flock", refuse)
    with lock_journal(tmp_path / "j.jsonl", told.append):
        pass
    assert len(told) == 1
    assert f"{tmp_path}/j.jsonl: its file system has no locks" in told[0]


VISITS = {"visits": 2, "most_visits": 4, "more_visits": 0.25, "visit_tolerance": 0.01}


@pytest.mark.parametrize(
    ("change", "is_kept"),
    [
        ({"timing": TIMING | VISITS | {"warm_card_s": 8}}, True),
        ({"session_id": "s2", "host": "there", "git_commit": "abc", "device_uuid": "GPU"}, True),
        ({"timing": TIMING | {"slice_s": 1.0}}, False),
        ({"code_hash": "other"}, False),
        ({"environment_id": "e2"}, False),
    ],
)
def test_what_decides_no_number_measures_nothing_again(
    tmp_path: Path, change: dict[str, Any], is_kept: bool
) -> None:
    kept = written(tmp_path / "j.jsonl", SESSION, row("a"))
    assert bool(reusable_visits(kept.records, replace(SESSION, **change))) is is_kept
