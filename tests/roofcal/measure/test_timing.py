"""Samples are seconds per call, over rotating copies, by the method the protocol names."""

import gc
import weakref
from contextlib import nullcontext
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from roofcal.core.machine.nvml import Sensor
from roofcal.core.records import Method, PlanPoint, Protocol
from roofcal.core.timing_protocol import Timing
from roofcal.measure import timing
from roofcal.measure.contender import Contender, prepare
from roofcal.measure.interleave import time_group
from roofcal.measure.timing import (
    FlushTimer,
    GraphTimer,
    LoopTimer,
    ProfilerTimer,
    Timer,
    WallTimer,
    make_timer,
)
from roofcal.ops.spec import Unsupported
from tests.roofcal.measure.contenders import Clock, contender
from tests.roofcal.measure.runs import TIMING, point
from tests.roofcal.measure.stand_in_cuda import StandInCuda

CALL_S = 10e-6
METHODS: tuple[Method, ...] = ("graph", "events_flush", "profiler", "wall")


def idle() -> None:
    """Nothing to do while the device is busy."""


def graph_timer(
    cuda: StandInCuda, *, copies: int = 4, call_s: float = CALL_S, sample_s: float = 1e-3
) -> tuple[GraphTimer, Contender]:
    found = contender(copies=copies, call=cuda.call(call_s))
    return GraphTimer(found, sample_s), found


@pytest.mark.parametrize(
    ("copies", "call_s", "calls"),
    [
        (4, 10e-6, 100),  # 1 ms
        (3, 10e-6, 99),  # whole rotations: 33 of 3
        (1, 10e-6, 100),
        (64, 10e-6, 128),  # two rotations are nearer to 1 ms than one
        (512, 10e-6, 512),  # at least one rotation
        (4, 5e-3, 4),
        (1, 5e-3, 1),
        (1, 1e-7, 2000),  # no graph of more than 2000 nodes
    ],
)
def test_a_sample_is_as_many_whole_rotations_as_last_about_its_time(
    cuda: StandInCuda, copies: int, call_s: float, calls: int
) -> None:
    _, found = graph_timer(cuda, copies=copies, call_s=call_s)
    assert found.calls_per_sample == calls
    assert len(cuda.graphs[-1].work) == calls


@pytest.mark.parametrize(("call_s", "graphs"), [(5e-3, 1), (1e-3, 2)])
def test_a_long_call_is_timed_once_before_its_graph(
    cuda: StandInCuda, call_s: float, graphs: int
) -> None:
    """A short graph of a product of 32768 took 0.7 s to say that one call fills a sample."""
    timer, found = graph_timer(cuda, copies=1, call_s=call_s)
    assert len(cuda.graphs) == graphs
    assert found.calls_per_sample == 1
    assert len(timer.take(10 * call_s, idle)) == 10


@pytest.mark.parametrize(("seconds", "count"), [(0.02, 20), (0.0001, 2), (100.0, 600)])
def test_a_turn_lasts_about_its_slice_and_samples_are_seconds_per_call_without_the_spin(
    cuda: StandInCuda, seconds: float, count: int
) -> None:
    timer, _ = graph_timer(cuda)
    assert timer.take(seconds, idle) == pytest.approx([CALL_S] * count)
    cuda.graphs[-1].work[:] = [("slower", 2 * CALL_S)] * 100  # the card slowed down
    assert timer.take(seconds, idle) == pytest.approx([2 * CALL_S] * count)
    fewer = min(600, max(2, round(seconds / 2e-3)))
    assert timer.take(seconds, idle) == pytest.approx([2 * CALL_S] * fewer)


def test_a_graph_goes_round_all_copies_behind_a_spin_while_the_card_is_read(
    cuda: StandInCuda,
) -> None:
    timer, found = graph_timer(cuda, copies=4)
    assert found.kernel_names == ("the_kernel",)
    names = [name for name, _ in cuda.graphs[-1].work]
    assert all(sorted(names[i : i + 4]) == [f"copy {k}" for k in range(4)] for i in (0, 4, 96))
    cuda.log.clear()
    timer.take(0.003, lambda: cuda.log.append("read the card"))
    assert cuda.log == ["spin", "replay", "replay", "replay", "read the card", "wait"]


def test_peak_memory_is_what_a_call_holds_beyond_what_was_held_before(cuda: StandInCuda) -> None:
    run, calls = cuda.call(CALL_S), 0

    def call(inputs: Any) -> str:
        nonlocal calls
        calls += 1
        workspace = 32 if calls == 1 else 0  # which the library keeps
        cuda.allocate(100 + workspace)
        cuda.allocate(50)
        cuda.allocate(-150)
        return run(inputs)

    cuda.allocate(1000)  # inputs
    found = contender(copies=4, call=call)
    assert found.peak_bytes is None
    GraphTimer(found, 1e-3)
    assert found.peak_bytes == 150


def test_a_timer_is_gone_with_its_turns(cuda: StandInCuda) -> None:
    """A cycle would keep its graph until Python collects it: during the capture of another one."""
    timer, found = graph_timer(cuda)
    timing_here = Timing.model_validate({k: v for k, v in TIMING.items() if k != "seed"})
    held = weakref.ref(timer)
    gc.disable()
    try:
        time_group([(found, timer)], timing_here, Sensor(None), 0, lambda _: None)
        del timer
        assert held() is None
    finally:
        gc.enable()


def test_behind_a_flush_every_call_is_a_sample_of_its_own(cuda: StandInCuda) -> None:
    found = contender(copies=3, call=cuda.call(CALL_S))
    scratch = torch.ones(8)
    timer = FlushTimer(found, scratch)
    assert timer.take(0.0, idle) == pytest.approx([CALL_S] * 16)
    assert float(scratch.sum()) == 0.0, "the cache was overwritten"
    assert cuda.log[:4] == ["copy 0", "copy 1", "copy 2", "copy 0"]
    assert found.calls_per_sample == 1


class Kernel:
    """A kernel as the profiler lists it."""

    def __init__(self, name: str, start: float, seconds: float, kind: str = "CUDA") -> None:
        self.name = name
        self.device_type = type("Kind", (), {"name": kind})
        self.time_range = type("Range", (), {"start": start, "elapsed_us": lambda: seconds * 1e6})


@pytest.fixture
def profiled(cuda: StandInCuda, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the profiler says that it saw of 16 flushes and calls, and a contender it saw."""

    def samples_of(*kernels: Kernel) -> tuple[list[float], Contender]:
        seen = SimpleNamespace(events=lambda: list(reversed(kernels)))
        monkeypatch.setattr(torch.profiler, "profile", lambda **_: nullcontext(seen))
        found = contender(call=cuda.call(CALL_S))
        return ProfilerTimer(found, torch.ones(1)).take(1.0, idle), found

    return samples_of


def test_the_profiler_sums_the_kernels_between_two_flushes(profiled: Any) -> None:
    kernels = [Kernel("cudaLaunchKernel", 0.05, 1.0, kind="CPU")]
    for i in range(16):
        kernels += [Kernel("flush", i, 1.0), Kernel("a", i + 0.1, 2e-6)]
        kernels += [Kernel("b", i + 0.2, 3e-6 + i * 1e-6)]
    samples, found = profiled(*kernels)
    assert samples == pytest.approx([(5 + i) * 1e-6 for i in range(16)])
    assert found.kernel_names == ("a", "b")


@pytest.mark.parametrize("count", [33, 16])
def test_kernels_that_belong_to_no_call_are_an_error(profiled: Any, count: int) -> None:
    with pytest.raises(RuntimeError, match=f"profiler saw {count} kernels for 16 flushes"):
        profiled(*(Kernel("a", float(i), 1.0) for i in range(count)))


def ticking(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timing, "time", clock)
    return clock


def takes(clock: Clock, seconds: float) -> Any:
    def run(_: Any) -> None:
        clock.now += seconds

    return run


def test_the_wall_clock_times_single_calls_with_their_wait(
    cuda: StandInCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ticking(monkeypatch)
    timer = WallTimer(contender(call=takes(clock, 0.25)))
    assert timer.take(1.0, idle) == [0.25] * 4
    assert cuda.log == ["wait"] * 4


@pytest.mark.parametrize(
    ("call_s", "sample_s", "calls"),
    [(2**-14, 2**-10, 16), (0.5, 2**-10, 1), (2**-14, 0.0, 1), (2**-30, 1.0, 2000)],
)
def test_a_loop_on_a_cpu_fills_a_sample_with_calls(
    monkeypatch: pytest.MonkeyPatch, call_s: float, sample_s: float, calls: int
) -> None:
    clock = ticking(monkeypatch)
    found = contender(call=takes(clock, call_s))
    timer = LoopTimer(found, sample_s)
    assert found.calls_per_sample == calls
    assert timer.take(3 * calls * call_s, idle) == [call_s] * 3


def test_a_real_loop_on_this_cpu_times_every_call_and_goes_round_all_copies() -> None:
    seen: list[float] = []
    found = contender(copies=3, call=lambda inputs: seen.append(float(inputs["x"])))
    samples = LoopTimer(found, 1e-4).take(1e-3, idle)
    assert all(sample > 0 for sample in samples)
    assert len(seen) == 3 + len(samples) * found.calls_per_sample
    assert seen[:7] == [0.0, 1.0, 2.0, 0.0, 1.0, 2.0, 0.0]


@pytest.mark.parametrize("method", [*METHODS, "energy"])
def test_a_cpu_is_timed_in_a_loop_and_has_no_events_and_no_kernels(method: Method) -> None:
    found = contender(method=method)
    if method in ("graph", "wall"):
        assert isinstance(make_timer(found, torch.device("cpu"), 1e-4, 0), LoopTimer)
        assert (found.calls_per_sample == 1) is (method == "wall")
    else:
        with pytest.raises(Unsupported, match=f"'{method}' needs a GPU; a CPU has graph"):
            make_timer(found, torch.device("cpu"), 1e-4, 0)


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("graph", GraphTimer),
        ("energy", GraphTimer),
        ("events_flush", FlushTimer),
        ("profiler", ProfilerTimer),
        ("wall", WallTimer),
    ],
)
def test_a_gpu_has_a_timer_for_every_method(
    cuda: StandInCuda, monkeypatch: pytest.MonkeyPatch, method: Method, kind: type[Timer]
) -> None:
    monkeypatch.setattr(torch, "empty", lambda *_, **__: torch.zeros(1))
    found = contender(call=cuda.call(CALL_S), method=method)
    assert type(make_timer(found, torch.device("cuda"), 1e-3, 4)) is kind


def on_gpu(method: Method, recipe: str = "bf16", **changes: Any) -> tuple[float, Contender]:
    """(median seconds per call, contender) of a product of 4096, or of the op in `changes`."""
    known: dict[str, Any] = {"shape": {"m": 4096, "n": 4096, "k": 4096}, "provider": "cublaslt"}
    protocol = Protocol(method=method, cache=changes.pop("cache", "cold"))
    asked: PlanPoint = point(recipe, **(known | changes), protocol=protocol)
    gpu = torch.device("cuda:0")
    cache = int(torch.cuda.get_device_properties(gpu).L2_cache_size)
    found = prepare(asked, gpu, 0, cache)
    timer = make_timer(found, gpu, 1e-3, 4 * cache)
    timer.take(0.2, idle)
    return median([s for _ in range(5) for s in timer.take(0.02, idle)]), found


@pytest.mark.gpu
def test_all_methods_agree_on_a_product_that_is_long_beside_a_launch_and_name_its_kernel() -> None:
    """It takes 0.2 ms on an H200; method and clock move that by a few percent."""
    found = {method: on_gpu(method) for method in METHODS}
    seconds = {method: time_s for method, (time_s, _) in found.items()}
    assert max(seconds.values()) < 1.5 * min(seconds.values()), seconds
    peak = 2 * 4096**3 / min(seconds.values())
    assert 1e13 < peak < 5e15, "FLOP/s that no GPU has: a broken timer"
    pytest.importorskip("cuda.bindings")
    for _, one in found.values():
        assert one.kernel_names
        assert all(len(name) > 3 for name in one.kernel_names)


@pytest.mark.gpu
def test_a_hot_read_is_faster_than_a_cold_one() -> None:
    stream: dict[str, Any] = {"op": "probe_copy", "provider": "torch_eager"}
    stream |= {"shape": {"size_bytes": 16 << 20}}
    cold, rotating = on_gpu("graph", "copy", **stream)
    hot, _ = on_gpu("graph", "copy", **stream, cache="hot")
    assert hot < cold
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    assert len(rotating.copies) * rotating.bytes_per_copy > 2 * cache


@pytest.mark.gpu
def test_a_graph_of_short_calls_lasts_about_a_sample() -> None:
    seconds, found = on_gpu("graph", shape={"m": 256, "n": 256, "k": 256})
    assert 0.3e-3 < seconds * found.calls_per_sample < 20e-3
    assert found.calls_per_sample % len(found.copies) == 0


@pytest.mark.gpu
def test_nothing_stays_on_the_card_behind_a_timer() -> None:
    on_gpu("graph")
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    for _ in range(5):
        on_gpu("graph")
        torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == before
