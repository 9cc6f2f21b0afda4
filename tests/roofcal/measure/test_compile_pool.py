"""Sessions learn at once what is compiled, share one pool, and outlive it; its death costs nothing.

Server and client are real; processes that compile nothing stand in for those of the pool.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from roofcal.core.records import PlanPoint
from roofcal.measure import compile_client, compile_pool
from roofcal.measure.compile_client import CompileClient, running_server
from roofcal.measure.compile_pool import PoolSetup, pool_size
from tests.campaign.one_op_study import processes_of
from tests.paths import ROOT
from tests.roofcal.measure.runs import rig

PATIENCE_S = 60


def point(number: int, recipe: str = "bf16", world_size: int = 1) -> PlanPoint:
    shape = {"m": number, "n": 1, "k": 1}
    return PlanPoint(
        op="gemm", provider="p", recipe=recipe, shape=shape, device="d", world_size=world_size
    )


class Study:
    """Sessions of one study, and what they were told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.sessions: list[CompileClient] = []

    def session(self, points: list[PlanPoint], size: int, timeout_s: float = 600) -> CompileClient:
        setup = PoolSetup(visible="GPU-1", size=size, timeout_s=timeout_s)
        log = self.folder / "log" / "compile.log"
        client = CompileClient(points, setup, self.said.append, lambda op: f"code of {op}", log)
        self.sessions.append(client)
        return client

    def let_slow_points_go(self) -> None:
        (self.folder / "go").touch()

    def end(self) -> None:
        """End all sessions, and wait for the end of every process of theirs."""
        for session in self.sessions:
            session.stop()
        wait_until(lambda: not self.processes())

    def processes(self, module: str = "") -> list[psutil.Process]:
        """Processes of the study that run a module, or all of them."""
        return [p for p in processes_of(os.environ["ROOFCAL_LOCKS"]) if module in words(p)]


def words(process: psutil.Process) -> str:
    """The command line of a process; nothing once it has ended."""
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"waited {PATIENCE_S} s"
        time.sleep(0.02)


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Study]:
    rig(monkeypatch, tmp_path, measure__compile_worker="compile_stub.py")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("GO", str(tmp_path / "go"))
    study = Study(tmp_path)
    yield study
    study.end()


def test_the_first_group_whose_points_are_compiled_is_told(study: Study) -> None:
    slow, quick = [point(1), point(2, "slow")], [point(3), point(4)]
    one = study.session([*slow, *quick], size=2)
    assert one.wait_for_any([slow, quick]) == 1
    assert not one.is_compiled(slow)
    study.let_slow_points_go()
    assert one.wait_for_any([slow]) == 0
    assert one.is_compiled([*slow, *quick])


def test_what_the_device_waits_for_is_compiled_before_what_later_ops_need(study: Study) -> None:
    slow, later, wanted = point(0, "slow"), [point(n) for n in range(1, 9)], point(9)
    one = study.session([slow, *later, wanted], size=1)
    waits = threading.Thread(target=one.wait_for_any, args=([[wanted]],))
    waits.start()
    wait_until(lambda: one._answered == 2)  # to the points, and to what comes first
    study.let_slow_points_go()
    waits.join()
    wait_until(lambda: one.is_compiled([slow, *later]))
    when = [
        (study.folder / "cache" / "roofcal-compiled" / one._key(of)).stat().st_mtime_ns
        for of in (wanted, *later)  # `slow` is compiled before or after, as its process starts
    ]
    assert when == sorted(when)


def test_points_whose_kernels_come_with_a_library_are_not_waited_for(study: Study) -> None:
    vendor = replace(point(1, "slow"), provider="cublaslt")
    one = study.session([vendor, point(2, "slow")], size=1)
    assert one.wait_for_any([[point(2, "slow")], [vendor]]) == 1


def test_the_time_that_a_session_waits_for_compilers_is_kept(study: Study) -> None:
    one = study.session([point(1, "slow")], size=1)
    threading.Timer(0.5, study.let_slow_points_go).start()
    one.wait_for_any([[point(1, "slow")]])
    waited_s = one.waited_s
    assert waited_s >= 0.4
    one.wait_for_any([[point(1, "slow")]])
    assert one.waited_s < waited_s + 0.4


def test_points_of_several_devices_and_unknown_points_are_not_waited_for(study: Study) -> None:
    shared = [point(1, "slow", world_size=2)]
    one = study.session(shared, size=1)
    assert one.is_compiled(shared)
    assert one.is_compiled([point(9)])


def test_a_process_that_is_killed_leaves_its_point_to_the_timing_process(study: Study) -> None:
    points = [point(1, "killed"), *(point(i) for i in range(2, 8))]
    one = study.session(points, size=2)
    for number in range(len(points)):
        assert one.wait_for_any([[points[number]]]) == 0
    assert study.said == []


def test_a_dead_pool_says_so_once_and_is_waited_for_no_more(study: Study) -> None:
    points = [point(1, "killed"), point(2, "killed"), point(3, "slow")]
    one = study.session(points, size=2)
    wait_until(lambda: bool(study.said))
    assert one.wait_for_any([[points[2]]]) == 0
    (said,) = study.said
    assert "points are compiled where they are timed" in said
    assert "-9" in said


def test_the_session_after_a_dead_pool_has_a_new_one(study: Study) -> None:
    one = study.session([point(1, "killed"), point(2, "slow")], size=1)
    wait_until(lambda: bool(study.said))
    two = study.session([point(3), point(4, "slow")], size=1)
    assert two.wait_for_any([[point(3)]]) == 0
    assert not two.is_compiled([point(4, "slow")])
    assert one.is_compiled([point(2, "slow")]), "nobody waits for a pool that died"
    assert len(study.said) == 1


def test_a_session_that_waits_keeps_the_server_and_is_told_nothing(study: Study) -> None:
    assert running_server("GPU-1") is None
    one = study.session([point(1)], size=1)
    kept = running_server("GPU-1")
    assert kept is not None
    with kept:
        assert one.wait_for_any([[point(1)]]) == 0
        (server,) = study.processes("roofcal.measure.compile_server")
        one.stop()
        assert study.session([point(2)], size=1).wait_for_any([[point(2)]]) == 0
        assert study.processes("roofcal.measure.compile_server") == [server]
        assert kept.recv(1 << 10) == b"{}\n"


def test_code_that_changed_has_a_server_of_its_own(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study.session([point(1)], size=1)
    with running_server("GPU-1") or pytest.fail("no server"):
        pass
    kernel = tmp_path / "kernels/edited.py"
    kernel.parent.mkdir()
    hashes = []
    for text in ("scale = 1", "scale = 2", "scale = 1"):
        kernel.write_text(text)
        compile_client._code_hash.cache_clear()
        hashes.append(compile_client._code_hash(tmp_path))
    assert hashes[0] == hashes[2] != hashes[1]
    monkeypatch.setattr(compile_client, "_code_hash", lambda _checkout: hashes[1])
    assert running_server("GPU-1") is None


def test_a_compilation_that_hangs_is_killed_and_the_next_point_compiled(study: Study) -> None:
    hanging = point(1, "slow")
    one = study.session([hanging, point(2)], size=1, timeout_s=3)
    assert one.wait_for_any([[hanging]]) == 0
    assert one.wait_for_any([[point(2)]]) == 0
    (said,) = study.said
    assert "slow {'m': 1, 'n': 1, 'k': 1} is not compiled after 3 s" in said
    study.end()
    again = study.session([hanging, point(2)], size=2)
    assert not again.is_compiled([hanging]), "what hung is not noted as compiled"
    assert again.is_compiled([point(2)]), "the process that replaced the first compiled it"


def test_a_paused_pool_neither_compiles_nor_lets_its_deadlines_pass(study: Study) -> None:
    slow = point(2, "slow")
    one = study.session([point(1), slow, point(3)], size=1, timeout_s=3)
    assert one.wait_for_any([[point(1)]]) == 0
    with one.paused():
        study.let_slow_points_go()
        time.sleep(3.5)
        (process_id,) = one.process_ids
        assert psutil.Process(process_id).status() == psutil.STATUS_STOPPED
        assert not one.is_compiled([slow])
    assert one.wait_for_any([[slow]]) == 0
    assert one.wait_for_any([[point(3)]]) == 0
    assert study.said == []


def test_a_session_that_ends_while_the_pool_is_paused_lets_it_go_on(study: Study) -> None:
    slow = point(2, "slow")
    one, two = (study.session([point(1), slow], size=1) for _ in range(2))
    assert one.wait_for_any([[point(1)]]) == 0
    with one.paused():
        one.stop()
    study.let_slow_points_go()
    assert two.wait_for_any([[slow]]) == 0


def test_a_paused_pool_ends_with_its_session(study: Study) -> None:
    one = study.session([point(1), point(2, "slow")], size=1)
    assert one.wait_for_any([[point(1)]]) == 0
    with one.paused():
        one.stop()
    study.end()


def test_ending_a_session_ends_processes_that_still_compile(study: Study) -> None:
    study.session([point(1, "slow")], size=1)
    study.end()
    assert study.said == []


@pytest.mark.parametrize(
    ("cores", "available_gib", "size"), [(1, 100, 0), (2, 100, 0), (16, 100, 14), (64, 9, 4)]
)
def test_the_pool_takes_no_more_cores_and_memory_than_there_are(
    monkeypatch: pytest.MonkeyPatch, cores: int, available_gib: int, size: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(compile_pool, "_available_bytes", lambda: available_gib << 30)
    assert pool_size() == size


def test_a_point_that_did_not_compile_is_not_noted_as_compiled(study: Study) -> None:
    bad = point(1, "uncompilable")
    one = study.session([bad, point(2)], size=1)
    assert one.wait_for_any([[bad]]) == 0
    assert one.wait_for_any([[point(2)]]) == 0
    study.end()
    assert len(list((study.folder / "cache" / "roofcal-compiled").iterdir())) == 1


def test_points_compiled_before_are_not_compiled_again(study: Study) -> None:
    one = study.session([point(1), point(2, "killed")], size=1)
    assert one.wait_for_any([[point(1), point(2, "killed")]]) == 0
    study.end()
    again = study.session([point(1), point(2, "slow")], size=2)
    assert again.is_compiled([point(1)])
    assert not again.is_compiled([point(2, "slow")])
    wait_until(lambda: len(study.processes("roofcal.measure.compile_worker")) == 1)


def test_a_pool_with_nothing_to_compile_starts_no_process(study: Study) -> None:
    study.session([point(1)], size=1).wait_for_any([[point(1)]])
    study.end()
    again = study.session([point(1)], size=4)
    assert again.is_compiled([point(1)])
    assert study.processes("roofcal.measure.compile_worker") == []


def test_the_next_session_finds_what_the_pool_compiles_for_it_meanwhile(study: Study) -> None:
    """The pool goes on with what it compiles when the session that started it ends."""
    later = point(2, "slow")
    first = study.session([point(1), later], size=1)
    assert first.wait_for_any([[point(1)]]) == 0
    (server,) = study.processes("roofcal.measure.compile_server")
    (process,) = study.processes("roofcal.measure.compile_worker")
    second = study.session([later], size=1)
    first.stop()
    assert not second.is_compiled([later])
    study.let_slow_points_go()
    assert second.wait_for_any([[later]]) == 0
    assert study.processes("roofcal.measure.compile_server") == [server]
    assert study.processes("roofcal.measure.compile_worker") in ([process], [])


def test_sessions_that_start_at_once_share_one_server(study: Study) -> None:
    threads = [
        threading.Thread(target=study.session, args=([point(n), point(9, "slow")], 1))
        for n in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(study.processes("roofcal.measure.compile_server")) == 1
    study.let_slow_points_go()
    for session in study.sessions:
        assert session.wait_for_any([[point(9, "slow")]]) == 0
    assert study.said == []


def test_what_is_added_when_all_was_compiled_is_compiled_too(study: Study) -> None:
    first = study.session([point(1)], size=1)
    assert first.wait_for_any([[point(1)]]) == 0
    second = study.session([point(2)], size=1)
    assert second.wait_for_any([[point(2)]]) == 0
    assert len(list((study.folder / "cache" / "roofcal-compiled").iterdir())) == 2


def test_a_server_that_is_killed_is_told_once_and_leaves_no_process(study: Study) -> None:
    slow = [point(1, "slow")]
    one = study.session(slow, size=1)
    wait_until(lambda: bool(study.processes("roofcal.measure.compile_worker")))
    (server,) = study.processes("roofcal.measure.compile_server")
    server.kill()
    assert one.wait_for_any([slow]) == 0
    with one.paused():
        wait_until(lambda: not study.processes())
    (said,) = study.said
    assert "ended: points are compiled where they are timed" in said


def test_nothing_is_left_of_a_session_that_is_killed(study: Study) -> None:
    """Whoever reads the log of the session sees its end: the server holds no pipe of it."""
    code = (
        "import os, signal; from pathlib import Path;"
        "from tests.roofcal.measure.test_compile_pool import Study, point;"
        f"Study(Path({str(study.folder)!r})).session([point(1, 'slow')], 1);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    wait_until(lambda: not study.processes())


def test_a_server_that_cannot_start_keeps_nobody_waiting(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", "")
    (study.folder / "broken.py").write_text("raise SystemExit('no such module')\n")
    broken = study.folder / "broken.py"
    monkeypatch.setenv("ROOFCAL_STAND_INS", f'{{"roofcal.measure.compile_server": "{broken}"}}')
    one = study.session([point(1)], size=1)
    assert one.wait_for_any([[point(1)]]) == 0
    (said,) = study.said
    assert "compile.log says why): points are compiled where they are timed" in said
    assert "no such module" in (study.folder / "log" / "compile.log").read_text()
