"""What is replayed is what was called: launches without a GPU, values on one."""

import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
import triton

from kernels.cast import both_ways, columns, rows
from kernels.common import architecture, replay
from kernels.common.counters import zeroed_counters
from kernels.common.operators import traced_as
from kernels.gemm import axiswise
from tests.kernels.on_gpus import TensorOnGpu1
from tests.paths import ROOT


def test_a_replay_launches_what_the_call_launched() -> None:
    """As if for Hopper; see replay_without_gpu."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("TRITON_INTERPRET", None)
    command = [sys.executable, "-m", "tests.kernels.common.replay_without_gpu"]
    run = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    lines = run.stdout.splitlines()
    assert len(lines) == 14
    assert all(line.endswith(" equal") for line in lines), run.stdout


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(64, 256), (37, 144), (8192, 4096)])
@pytest.mark.parametrize(
    "cast",
    [
        rows.rowwise_dim0,
        columns.rowwise_both,
        both_ways.tensorwise_both,
        both_ways.blockwise_1x128_both,
    ],
)
def test_replayed_casts_are_those_of_this_calls_input(
    cast: Callable[..., tuple[torch.Tensor, ...]], shape: tuple[int, int]
) -> None:
    for x in (torch.randn(shape, device="cuda").bfloat16() for _ in range(3)):
        made, expected = cast(x), inspect.unwrap(cast)(x)
        assert [(a.shape, a.stride()) for a in made] == [(b.shape, b.stride()) for b in expected]
        for a, b in zip(made, expected, strict=True):
            assert torch.equal(a.float(), b.float())


@pytest.mark.gpu
@pytest.mark.parametrize("rows_of_a", [16, 300])
def test_replayed_products_are_captured_in_graphs(rows_of_a: int) -> None:
    """Products of few rows count in memory of their stream, and are called as they are."""
    b, scale_b = rows.rowwise_dim0(torch.randn(256, 512, device="cuda").bfloat16())
    held = torch.empty(rows_of_a, 512, device="cuda", dtype=torch.bfloat16)

    def product() -> torch.Tensor:
        a, scale_a = rows.rowwise_dim0(held)
        return axiswise.gemm(a, b, scale_a, scale_b)

    for _ in range(2):
        held.normal_()
        product()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = product()
    for _ in range(3):
        held.normal_()
        graph.replay()
        assert torch.equal(c, product())


def test_what_cannot_be_repeated_is_called_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that computes with torch, one that returns its input, and one within another."""
    monkeypatch.setattr(replay, "_is_called_as_it_is", lambda _: False)

    @replay.replayed
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @replay.replayed
    def unchanged(x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape)

    for number in (1.0, 2.0, 3.0):
        x = torch.full((3,), number)
        assert torch.equal(doubled(x), x + x)
        assert unchanged(x).data_ptr() == x.data_ptr()


def test_memory_that_was_there_before_is_no_memory_of_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counters of a stream: a slice of them is a view of memory that nothing here allocates."""
    monkeypatch.setattr(replay, "_is_called_as_it_is", lambda _: False)
    counters = torch.zeros(64, dtype=torch.int32)

    @replay.replayed
    def lent(x: torch.Tensor) -> torch.Tensor:
        return counters[: x.numel()]

    for count in (3, 3, 5, 5):
        assert lent(torch.ones(count)).data_ptr() == counters.data_ptr()


def test_a_call_that_counts_in_memory_of_its_stream_is_not_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither the first one, which allocates the counters, nor those of later shapes."""
    monkeypatch.setattr(replay, "_is_called_as_it_is", lambda _: False)
    monkeypatch.setattr(replay, "_recordings", {})

    @replay.replayed
    def product(x: torch.Tensor) -> torch.Tensor:
        zeroed_counters(4, x.device)
        return torch.empty(x.shape)

    for size in (3, 3, 5):
        product(torch.ones(size))

    assert list(replay._recordings.values()) == [None, None]


@pytest.mark.parametrize("changed", ["input", "part"])
def test_zeroing_other_memory_than_new_whole_one_is_not_recorded(
    monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    monkeypatch.setattr(replay, "_is_called_as_it_is", lambda _: False)
    monkeypatch.setattr(replay, "_recordings", {})

    @replay.replayed
    def clearing(x: torch.Tensor) -> torch.Tensor:
        new = torch.empty(x.shape)
        (x if changed == "input" else new[:1]).zero_()
        return new

    for _ in range(2):
        x = torch.ones(3)
        made = clearing(x)
        assert not (x if changed == "input" else made[:1]).any()

    assert list(replay._recordings.values()) == [None]


def test_memory_that_was_zeroed_is_zeroed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "_is_called_as_it_is", lambda _: False)
    driver = SimpleNamespace(active=SimpleNamespace(get_current_stream=lambda _: 0))
    monkeypatch.setattr(triton.runtime, "driver", driver)

    @replay.replayed
    def zeros_like(x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.zeros(x.shape), x.new_empty(x.shape).zero_()]

    for _ in range(3):
        made = zeros_like(torch.ones(1000))
        assert not any(x.any() for x in made)
        for x in made:
            x.fill_(7)  # what the next call may get


def test_a_replay_runs_on_the_gpu_of_its_input_and_another_limit_is_recorded_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A replay asks for the stream of the device of its input; here the question is noted."""
    current, asked = [0], []

    @contextmanager
    def device(number: int) -> Iterator[None]:
        before, current[0] = current[0], number
        yield
        current[0] = before

    def stream(_: int | None) -> int:
        asked.append(current[0])
        return 0

    driver = SimpleNamespace(active=SimpleNamespace(get_current_stream=stream))
    monkeypatch.setattr(triton.runtime, "driver", driver)
    monkeypatch.setattr(replay, "_is_called_as_it_is", lambda _: False)
    monkeypatch.setattr(replay, "_recordings", {})
    monkeypatch.setattr(torch.cuda, "current_device", lambda: current[0])
    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    calls = []

    def new(x: torch.Tensor) -> torch.Tensor:
        calls.append(current[0])
        return torch.empty(x.shape)

    launched = traced_as(new)(replay.replayed(new))
    for _ in range(3):
        launched(torch.ones(3).as_subclass(TensorOnGpu1))
    assert (calls, asked, current) == ([1], [1, 1], [0])
    monkeypatch.setattr(architecture, "_limit", 24)
    launched(torch.ones(3).as_subclass(TensorOnGpu1))
    assert calls == [1, 1]
