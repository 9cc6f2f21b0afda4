"""The real worker on this machine's CPU: faults of every kind in one sweep, then its parts."""

import gc
import io
import itertools
import json
import os
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from triton import knobs

from roofcal.core.jsonl import decode, encode
from roofcal.core.machine.nvml import visible_gpus
from roofcal.core.records import Distribution, Measurement, PlanPoint, Protocol
from roofcal.measure import worker, workers
from roofcal.measure.compile import compile_points
from roofcal.measure.session import measure
from roofcal.measure.worker import Worker
from roofcal.ops.bench import Inputs, load_bench
from roofcal.ops.linear.bench import bf16_layer, trained_exactly
from roofcal.study.discover import discover
from roofcal.study.staleness import ROOT
from tests.roofcal.measure.runs import (
    TIMING,
    Sweep,
    device_is_free,
    hot,
    point,
    rig,
    sweep_once,
    workers_here,
)
from tests.waiting import wait_until

FAULTS = {
    "refuses": ("unsupported", "n must be a multiple of 16"),
    "is_not_implemented": ("unsupported", "NotImplementedError: no fp8 here"),
    "is_wrong": ("incorrect", "relative error 0.5 exceeds 0.01"),
    "gives_NaN": ("incorrect", "relative error nan exceeds 0.01"),
    "raises": ("failed", "RuntimeError: CUBLAS_STATUS_INTERNAL_ERROR"),
    "has_no_memory_for_its_inputs": ("out_of_memory", "allocate"),
    "hangs": ("timeout", "no sign of life for 20 s"),
    "raises_while_timed": ("failed", "RuntimeError: CUBLAS_STATUS_INTERNAL_ERROR"),
    "has_no_memory_while_timed": ("out_of_memory", "allocate"),
    "segfaults_while_timed": ("failed", "signal SIGSEGV"),
}
FINE = ["fine_1", "fine_2", "fine_3"]


@pytest.fixture(autouse=True, scope="module")
def _little_garbage_to_look_for() -> None:
    """A worker collects after every group; of all that a test process holds, that takes 0.3 s."""
    gc.freeze()


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """One group with every fault between two good points, and a group behind it."""
    plan = [hot(recipe) for recipe in [FINE[0], *FAULTS, FINE[1]]]
    plan.append(hot(FINE[2], repeat=1))
    return sweep_once(tmp_path_factory, plan)


@pytest.mark.parametrize("recipe", FAULTS)
def test_a_fault_is_a_row_with_status_and_reason(sweep: Sweep, recipe: str) -> None:
    status, reason = FAULTS[recipe]
    row = sweep.rows[recipe]
    assert row.status == status
    assert reason in str(row.reason)
    assert row.latency_samples_s == ()


@pytest.mark.parametrize("recipe", FINE)
def test_the_neighbours_of_faults_are_measured(sweep: Sweep, recipe: str) -> None:
    row = sweep.rows[recipe]
    assert (row.status, row.reason, row.relative_error) == ("ok", None, 0.0)
    assert 0 < min(row.latency_samples_s) < 1
    assert 0 < row.warmup_samples < len(row.latency_samples_s)
    assert row.slice_starts[0] == 0
    assert list(row.slice_starts) == sorted(set(row.slice_starts))
    assert row.warmup_samples in row.slice_starts, "a turn is either warm-up or not"
    assert (row.rotating_copies, row.rotating_bytes) == (1, 2 * 8 * 4)
    assert row.calls_per_sample >= 1
    assert row.elapsed_s > 0


def test_the_output_holds_the_plan_and_one_session(sweep: Sweep) -> None:
    assert set(sweep.rows) == {p.recipe for p in sweep.plan}
    assert workers_here() == []
    # JSON knows no NaN; the reason says it.
    assert sweep.rows["gives_NaN"].relative_error is None
    assert sweep.rows["is_wrong"].relative_error == 0.5
    assert "NaN" not in (sweep.run.folder / "out.jsonl").read_text()
    (session,) = sweep.run.sessions()
    expected = sum(sum(m.latency_samples_s) * m.calls_per_sample for m in sweep.rows.values())
    assert session.timed_s == pytest.approx(expected)
    assert float(session.wall_s or 0) > expected


def test_a_hanging_worker_ends_with_a_session_that_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing must keep a device and its lock after kill -9 of the session."""
    run = rig(monkeypatch, tmp_path, ops__gemm__bench="faulty_bench.py")
    job = run.job([hot("kills_the_session_and_hangs")])
    killed = subprocess.run([sys.executable, *run.program(job)], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    wait_until(device_is_free, "the orphan to give the device back")


def test_a_worker_whose_session_is_gone_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = json.dumps({"supervisor_pid": os.getpid() + 1, "op": "gemm"})
    monkeypatch.setattr(sys, "argv", ["worker", setup, "2"])
    monkeypatch.setattr(workers, "ctypes", MagicMock())  # this process does not end with its parent
    with pytest.raises(SystemExit, match="supervisor of this worker is gone"):
        worker.main()


class Crowd:
    """An op that fits beside no other contender: one "cup" of memory for all."""

    def __init__(self) -> None:
        self.held = self.checks = 0

    def make_inputs(self, recipe: str, *_: Any) -> Any:
        if recipe == "too_large" or self.held:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return Cup(self)

    def build(self, *_: Any) -> Any:
        return lambda inputs: inputs["x"] + 1

    def relative_error(self, *_: Any) -> float:
        self.checks += 1
        return 0.0

    def tolerance(self, *_: Any) -> float:
        return 0.0


class Cup(dict[str, torch.Tensor]):
    """Inputs that hold the memory."""

    def __init__(self, crowd: Crowd) -> None:
        super().__init__(x=torch.ones(4))
        self.crowd = crowd
        crowd.held += 1

    def __del__(self) -> None:
        self.crowd.held -= 1


class Here(Worker):
    """The worker in this process, and what it said."""

    def __init__(self) -> None:
        self.said = io.StringIO()
        timing = {key: value for key, value in TIMING.items() if key != "seed"}
        ids = {"environment_id": "e", "session_id": "s", "uuid": None, "cache_bytes": 1 << 12}
        setup = ids | {"torch_device": "cpu", "timing": timing, "seed": 0, "epoch": 0.0}
        super().__init__(setup, self.said)

    def take(self, *groups: list[PlanPoint]) -> None:
        """Do as the process does with a line for each group."""
        lines = [json.dumps([encode(point) for point in group]) + "\n" for group in groups]
        self.run(io.StringIO("".join(lines)))

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.said.getvalue().splitlines()]

    @property
    def rows(self) -> list[Measurement]:
        rows = [decode(event["measurement"]) for event in self.events if "measurement" in event]
        return [row for row in rows if isinstance(row, Measurement)]


SMALL = {"m": 4, "n": 4, "k": 4}


def test_contenders_that_do_not_fit_together_are_measured_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """out_of_memory means: alone on the device, not: beside its neighbours."""
    crowd, here = Crowd(), Here()
    monkeypatch.setattr("roofcal.measure.contender.load_bench", lambda _: crowd)
    points = [hot("a"), hot("b"), hot("too_large"), hot("c")]
    here.run_group(points)
    statuses = {row.point_id: row.status for row in here.rows}
    assert [statuses[p.point_id] for p in points] == ["ok", "ok", "out_of_memory", "ok"]
    assert crowd.held == 0, "a contender outlives its group"
    checks = crowd.checks
    for _ in range(2):  # an output is checked in the first visit of a point
        here.run_group([hot("a")])
    assert [(row.status, row.relative_error) for row in here.rows[-2:]] == [("ok", 0.0)] * 2
    assert crowd.checks == checks
    assert crowd.held == 0, "memory of a visit outlives it"


def test_the_worker_names_each_point_before_it_touches_it_and_ends_each_group() -> None:
    here, points = Here(), [hot("fp32", shape=SMALL), hot("bf16", shape=SMALL)]
    here.take(points)
    ids = [p.point_id for p in points]
    assert here.events[0] == {"ready": True}
    assert [event["at"] for event in here.events[1:3]] == ids
    assert {event["at"] for event in here.events if "at" in event} == set(ids)
    assert here.events[-1] == {"done": True, "compiled_s": 0.0}
    assert {row.status for row in here.rows} == {"ok"}


def test_a_group_tells_how_long_it_compiled_and_what(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of kernels that compilers have put in the cache Triton tells as well."""
    monkeypatch.setattr(knobs.compilation, "listener", None)
    here, took, src = Here(), SimpleNamespace(total=250_000), SimpleNamespace(name="_cast_kernel")
    here._count_compiling()
    listener: Any = knobs.compilation.listener
    found_by_group = iter([(False, False, True), ()])

    def compile_and_find(_: object) -> None:
        for is_found in next(found_by_group):
            listener(src=src, metadata={}, metadata_group={}, times=took, cache_hit=is_found)

    monkeypatch.setattr(here, "run_group", compile_and_find)
    here.take([], [])
    assert [event["compiled_s"] for event in here.events if "done" in event] == [0.5, 0.0]
    assert capsys.readouterr().err.splitlines() == ["not compiled ahead: _cast_kernel, 0.2 s"] * 2


def test_workers_and_compilers_keep_all_kernels_in_one_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Inductor moves the cache with its first kernel, where nobody has named one."""
    monkeypatch.setenv("TRITON_HOME", str(tmp_path))
    monkeypatch.setattr(worker, "dies_with", lambda _: True)
    monkeypatch.setattr(worker, "import_module", lambda _: None)
    events = os.open(os.devnull, os.O_WRONLY)
    start = json.dumps({"op": "cast", "supervisor_pid": 0})
    monkeypatch.setattr(sys, "argv", ["worker", start, str(events)])

    def worker_without_groups() -> None:
        with Path(os.devnull).open() as nothing:
            monkeypatch.setattr(sys, "stdin", nothing)
            worker.main()

    for begin in (worker_without_groups, lambda: list(compile_points([], 1))):
        monkeypatch.setenv("TRITON_CACHE_DIR", "for pytest to take it away at the end")
        monkeypatch.delenv("TRITON_CACHE_DIR")
        own = knobs.cache.dir
        begin()
        assert own.startswith(str(tmp_path))
        assert os.environ["TRITON_CACHE_DIR"] == own


def test_garbage_is_collected_between_groups_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CUDA graph that is collected while another one is captured ends the process."""
    collected: list[str] = []

    class Graph:
        """Refers to itself, so that only a collection frees it."""

        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            collected.append("graph")

    def time_group(*_: Any) -> None:
        Graph()
        assert len([[i] for i in range(100_000)]) == 100_000  # Python would look for garbage
        collected.append("timed")

    monkeypatch.setattr(worker, "time_group", time_group)
    Here().take(*[[hot("fp32", shape=SMALL)]] * 2)
    assert collected == ["timed", "graph"] * 2
    assert gc.isenabled()


def test_a_failure_while_timed_is_told_before_the_worker_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory\ndetails")

    monkeypatch.setattr(worker, "time_group", fail)
    here = Here()
    with pytest.raises(torch.OutOfMemoryError):
        here.take([point("fp32")])
    last = here.events[-1]
    assert last.pop("now_s") > 0
    assert last == {"fatal": "OutOfMemoryError: CUDA out of memory", "status": "out_of_memory"}


def test_a_lost_context_is_reported_and_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(*_: Any) -> None:
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(worker, "prepare", prepare)
    monkeypatch.setattr(os, "_exit", sys.exit)
    here = Here()
    with pytest.raises(SystemExit, match="3"):
        here.run_group([point("fp32")])
    (row,) = here.rows
    assert (row.status, "illegal memory access" in str(row.reason)) == ("failed", True)


def test_accuracy_is_not_timed_and_exact_outputs_are_computed_once_for_equal_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench, here, computed = load_bench("linear"), Here(), list[tuple[int, ...]]()

    def exact_outputs(inputs: Inputs) -> dict[str, torch.Tensor]:
        computed.append(tuple(inputs["x"].shape))
        return trained_exactly(bf16_layer, inputs)

    monkeypatch.setattr(bench, "exact_outputs", exact_outputs)
    monkeypatch.setattr(worker, "time_group", pytest.fail)
    distributions: tuple[Distribution, ...] = ("normal", "heavy_tails")
    for m, distribution in product((16, 32), distributions):
        accuracy = Protocol(method="accuracy", distribution=distribution)
        for recipe in ("bf16", "fp8_axiswise"):
            shape = {"m": m, "n": 32, "k": 32}
            here.run_group([point(recipe, op="linear", shape=shape, protocol=accuracy)])
    assert computed == [(16, 32), (16, 32), (32, 32), (32, 32)]
    assert {(row.status, row.latency_samples_s, row.rotating_copies) for row in here.rows} == {
        ("ok", (), 1)
    }
    for plain, narrow in zip(here.rows[::2], here.rows[1::2], strict=True):
        assert plain.output_errors and narrow.output_errors
        for name in ("output", "grad_input", "grad_weight"):
            assert 0 < plain.output_errors[name] < 0.2 * narrow.output_errors[name]
        assert narrow.relative_error == max(narrow.output_errors.values())
    assert len({row.relative_error for row in here.rows}) == 8
    kept: list[object] = []  # their memory is free while points are timed
    monkeypatch.setattr(worker, "time_group", lambda *_: kept.append(dict(here._exact._outputs)))
    here.run_group([point("bf16", op="linear", shape={"m": 16, "n": 32, "k": 32})])
    assert kept == [{}]


@pytest.mark.gpu
def test_a_kernel_that_hangs_or_breaks_the_context_costs_its_own_point_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = discover(ROOT / "config" / "devices")[0]
    recipes = ["fine_1", "reads_out_of_bounds", "never_ends", "fine_2"]
    plan = [hot(recipe, device=here.device) for recipe in recipes]
    run = rig(monkeypatch, tmp_path, ops__gemm__bench="faulty_bench.py")
    rows = measure(run.job(plan, environment=here, timing={"point_timeout_s": 15.0}))
    assert [row.status for row in rows] == ["ok", "failed", "timeout", "ok"]
    assert "device-side assert" in str(rows[1].reason)
    assert rows[0].telemetry.sm_clock_hz
    assert rows[0].kernel_names
    assert run.sessions()[0].device_uuid in {gpu.uuid for gpu in visible_gpus()}


@pytest.mark.parametrize(
    ("temperatures", "seconds"),
    [([30.0, 36.0, 40.0, 42.0, 42.0, 42.0], 6), ([55.0] * 9, 3), ([], 20)],
)
def test_warming_ends_when_the_card_gets_no_warmer(
    monkeypatch: pytest.MonkeyPatch, temperatures: list[float], seconds: int
) -> None:
    """A CPU, as here, looks at the clock after every product: each takes a second."""
    one, products = Here(), list[torch.Tensor]()
    clock, readings = itertools.count(), iter(temperatures)
    monkeypatch.setattr(worker, "time", SimpleNamespace(perf_counter=lambda: float(next(clock))))
    monkeypatch.setattr(torch, "mm", lambda a, _: products.append(a))
    monkeypatch.setattr(
        one._sensor,
        "read",
        lambda: (1e9, 1e9, 1.0, value, ()) if (value := next(readings, None)) else None,
    )
    one._timing = one._timing.model_copy(update={"warm_card_s": 30.0})
    monkeypatch.setattr(worker, "_CPU_WARM_S", 20.0)

    one._warm_card()

    looks = next(clock)
    assert looks == pytest.approx(seconds, abs=1)
    assert looks - len(products) in (1, 2), "one product for each look after the first"
