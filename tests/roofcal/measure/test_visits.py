"""Visits: passes over a plan, what becomes of their lines, and which points get more of them."""

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roofcal.core.jsonl import read_records, write_records
from roofcal.core.records import VISITED_ONCE, Measurement, Method, PlanPoint, Protocol
from roofcal.core.timing_protocol import Timing
from roofcal.core.visits.rows import SENTINEL, groups_of
from roofcal.measure import session
from roofcal.measure.session import measure
from roofcal.measure.visits import Visits, disagreement
from roofcal.study.staleness import ROOT
from tests.roofcal.made_up_records import row as line
from tests.roofcal.measure.runs import Run, point, rig

TWO = {"visits": 2, "most_visits": 2}
MORE = {"visits": 2, "most_visits": 4, "more_visits": 10.0}
JUMPS = point("jumps", "is_slower_each_time")
GUARD = point("guard", sweeps=("works", SENTINEL), repeat=9)


def order(run: Run) -> list[str]:
    return [line.split()[0] for line in run.trace]


def visits_of(rows: list[Measurement]) -> list[int]:
    return [len(row.visits) for row in rows]


def lasted(run: Run, seconds: float, *, first: int = 0) -> None:
    """Have lines of the journal, from that visit on, say that they took so long."""
    path = run.folder / "journal.jsonl"
    records = [
        replace(record, elapsed_s=seconds)
        if isinstance(record, Measurement) and record.visit >= first
        else record
        for record in read_records(path)
    ]
    write_records(path, records)


def test_a_second_pass_visits_every_point_in_another_order(run: Run) -> None:
    plan = [point(f"r{i}", repeat=i) for i in range(8)]
    rows = measure(run.job(plan, timing=TWO))
    names = order(run)
    assert names[:8] == [p.recipe for p in plan]
    assert sorted(names[8:]) == sorted(names[:8]) != names[8:]
    assert visits_of(rows) == [2] * 8


def test_a_study_of_more_visits_adds_them_to_those_of_a_quick_one(run: Run) -> None:
    (quick,) = measure(run.job([point("a")], timing={"visits": 1, "most_visits": 1}))
    (row,) = measure(run.job([point("a")], timing=TWO))
    lines = run.journal()
    assert [line.visit for line in lines] == [0, 1]
    assert row.latency_samples_s == lines[0].latency_samples_s + lines[1].latency_samples_s
    assert [visit.first_sample for visit in row.visits] == [0, 2]
    assert [visit.session_id == quick.session_id for visit in row.visits] == [True, False]
    assert read_records(run.folder / "out.jsonl", Measurement) == [row]
    assert measure(run.job([point("a")], timing=TWO)) == [row]
    assert len(run.trace) == 2, "a third session makes no further visit"


def test_after_a_visit_that_failed_none_is_made_and_methods_without_a_second_have_none(
    run: Run,
) -> None:
    once = [point("once", protocol=Protocol(method=m), repeat=1) for m in VISITED_ONCE]
    plan = [point("bad", "exits"), point("good"), point("late", "exits_the_second_time"), *once]
    bad, good, late, *rest = measure(run.job(plan, timing=TWO))
    assert order(run).count("bad") == 1
    assert [len(row.visits) for row in (bad, good)] == [0, 2]
    assert (bad.status, late.status, late.latency_samples_s) == ("failed", "ok", (0.5, 0.25))
    assert late.reason == "visit 2 of 2: failed: the worker died (exit code 7)"
    assert [row.status for row in rest] == ["ok"] * len(VISITED_ONCE)
    assert order(run).count("once") == len(VISITED_ONCE)


def test_a_session_killed_between_visits_goes_on_with_those_that_lack(run: Run) -> None:
    plan = [point(f"r{i}", repeat=i) for i in range(3)]
    kills = point("r2", "kills_the_session_the_second_time", repeat=2)
    job = run.job([*plan[:2], kills], timing=TWO)
    killed = subprocess.run([sys.executable, *run.program(job)], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len({(line.point_id, line.visit) for line in run.journal()}) >= 3
    rows = measure(run.job(plan, timing=TWO))
    assert visits_of(rows) == [2, 2, 2]
    lines = [(line.point_id, line.visit) for line in run.journal()]
    assert len(lines) == len(set(lines)) == 6, "no visit is made twice"
    used = {visit.session_id for row in rows for visit in row.visits}
    assert used == {record.session_id for record in run.sessions()}


@pytest.mark.parametrize(
    ("timing", "names"),
    [(TWO, ["a", "b"]), ({}, ["r0", "r1", "r2", "r3"])],  # two passes; the middle of a single one
)
def test_sentinels_are_measured_at_start_middle_and_end(
    run: Run, timing: dict[str, Any], names: list[str]
) -> None:
    points = [point(name, repeat=i) for i, name in enumerate(names)]
    rows = measure(run.job([GUARD, *points], timing=timing))
    assert [i for i, name in enumerate(order(run)) if name == "guard"] == [0, 3, 6]
    assert len(rows[0].visits) == 3
    # A session that goes on measures them again.
    rows = measure(run.job([GUARD, *points, point("new", repeat=8)], timing=timing))
    assert len({visit.session_id for visit in rows[0].visits}) == 2


def test_points_whose_visits_disagree_get_more_until_the_most_with_their_contenders(
    run: Run,
) -> None:
    plan = [point("steady"), JUMPS, point("bad", "exits"), point("other", repeat=1)]
    rows = measure(run.job(plan, timing=MORE))
    assert visits_of(rows) == [4, 4, 0, 2]
    assert order(run)[-4:] == ["steady", "jumps"] * 2
    assert "its visits are in different states, in us: 3e+06, 4e+06, 5e+06, 6e+06" in str(
        rows[1].reason
    )


def test_further_visits_of_a_killed_session_are_made_by_the_next_between_its_sentinels(
    run: Run,
) -> None:
    plan = [GUARD, JUMPS, point("b", repeat=1)]
    rows = measure(run.job(plan, timing=TWO))  # as if it was killed after its passes
    assert visits_of(rows)[1:] == [2, 2], "without time for it no further visit is made"
    lasted(run, 5.0)
    run.forget()
    assert visits_of(measure(run.job(plan, timing=MORE)))[1:] == [4, 2]
    assert order(run) == ["guard", "jumps", "jumps", "guard"]
    lasted(run, 100.0, first=2)
    run.forget()
    measure(run.job(plan, timing=MORE | {"most_visits": 5}))
    assert run.trace == [], "their time was spent"


@pytest.mark.parametrize("shares", [(0.1, 0.5), (0.5, 0.1)])
def test_a_session_says_how_busy_others_kept_the_machine_and_how_often_a_quota_stopped_it(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    shares: tuple[float, float],
) -> None:
    """At its start, or from some time during it: the larger share is recorded and told once."""
    readings = iter(shares)
    monkeypatch.setattr(session, "busy_share", lambda: next(readings))
    monkeypatch.setattr(session, "throttled_share", lambda _: 0.4)
    measure(run.job([point("a")]))
    record = run.sessions()[-1]
    assert (record.busy_share, record.throttled_share) == (0.5, 0.4)
    said = capsys.readouterr().err
    assert said.count("others keep 50% of the cores busy") == 1
    assert "The CPU quota of the container stopped its threads in 40 % of periods." in said


STEADY = [1.0 + 0.0001 * i for i in range(20)]


def test_the_disagreement_of_visits_is_the_standard_error_of_their_mean() -> None:
    """Unless their own samples explain it."""
    apart = [line(*STEADY), line(*(1.04 * s for s in STEADY))]
    assert disagreement(apart) == pytest.approx(0.02, rel=0.03)
    wide = [0.9, 1.1] * 10
    for alike in (apart[:1], [apart[0]] * 2, [line(*wide), line(*(1.02 * s for s in wide))]):
        assert disagreement(alike) == 0.0


def test_the_points_that_disagree_most_come_first() -> None:
    points = [point(name, repeat=i) for i, name in enumerate("abc")]
    factors = dict(zip((p.point_id for p in points), (1.04, 1.2, 1.0), strict=True))
    lines = {
        (key, number): line(*(factor**number * s for s in STEADY), visit=number)
        for key, factor in factors.items()
        for number in range(2)
    }
    visits = Visits(points, Timing(), 1, lines)
    assert [[p.recipe for p in group] for group in visits.disagreeing_groups()] == [["b"], ["a"]]


def test_inputs_of_every_visit_lie_in_pages_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real worker: its bench counts the page faults of making its inputs.

    Inputs of 16 MB fault 7 times or more in new pages of 2 MB or less, and never in kept pages.
    """
    run = rig(monkeypatch, tmp_path, ops__gemm__bench="faulty_bench.py")
    monkeypatch.setenv("PAGE_FAULTS", str(tmp_path / "page_faults"))
    plan = [point("fine_1", shape={"m": 1 << 22, "n": 8, "k": 8})]
    assert visits_of(measure(run.job(plan, timing={"visits": 5, "most_visits": 5}))) == [5]
    faults = [int(count) for count in (tmp_path / "page_faults").read_text().split()]
    assert len(faults) == 5
    assert min(faults) >= 7


def test_alone_and_burst_are_timed_by_the_real_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = rig(monkeypatch, tmp_path, ops__gemm__bench="faulty_bench.py")
    methods: tuple[Method, ...] = ("graph", "alone", "burst")
    plan: list[PlanPoint] = [
        point(recipe, protocol=Protocol(method=method))
        for method in methods
        for recipe in ("fine_1", "fine_2")
    ]
    assert len(groups_of(plan)) == 5, "two in turns, each of the others by itself"
    timing = TWO | {"alone_turn_s": 0.004, "burst_rest_s": 0.01, "burst_s": 0.002}
    rows = measure(run.job(plan, timing=timing))
    visits = [(row.status, max(1, len(row.visits))) for row in rows]
    assert visits == [("ok", 2)] * 2 + [("ok", 1)] * 4, "alone and in bursts once is enough"
    assert [(row.warmup_samples, len(row.slice_starts)) for row in rows[4:]] == [(0, 1)] * 2
