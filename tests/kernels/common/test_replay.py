"""What is replayed is what was called: launches without a GPU, values on one."""

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton

from kernels.cast import both_ways, columns, rows
from kernels.common import architecture, replay
from kernels.common.counters import zeroed_counters
from kernels.common.operators import traced_as
from kernels.gemm import axiswise
from tests.kernels.on_gpus import TensorOnGpu1, two_gpus
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


@pytest.fixture
def recordings(monkeypatch: pytest.MonkeyPatch) -> dict[Any, Any]:
    """What is recorded, on a CPU too; streams are number 0."""
    driver = SimpleNamespace(active=SimpleNamespace(get_current_stream=lambda _: 0))
    monkeypatch.setattr(triton.runtime, "driver", driver)
    monkeypatch.setattr(replay, "_is_called_as_it_is", lambda _: False)
    made: dict[Any, Any] = {}
    monkeypatch.setattr(replay, "_recordings", made)
    return made


def test_what_cannot_be_repeated_is_called_as_it_is(recordings: dict[Any, Any]) -> None:
    """A function that computes with torch, one that returns its input, one that returns a view of
    memory that it did not allocate, and those that count in memory of their stream."""
    counters = torch.zeros(64, dtype=torch.int32)
    doubled = replay.replayed(lambda x: x * 2)
    unchanged = replay.replayed(lambda x: x.view(x.shape))
    lent = replay.replayed(lambda x: counters[: x.numel()])
    for count in (3, 3, 5, 5):
        x = torch.full((count,), float(count))
        assert torch.equal(doubled(x), x + x)
        assert unchanged(x).data_ptr() == x.data_ptr()
        assert lent(x).data_ptr() == counters.data_ptr()

    @replay.replayed
    def counted(x: torch.Tensor) -> torch.Tensor:
        zeroed_counters(4, x.device)  # the first call allocates them
        return torch.empty(x.shape)

    for size in (3, 3, 5):
        counted(torch.ones(size))
    assert not any(recordings.values())


@pytest.mark.parametrize("changed", ["input", "part"])
def test_zeroing_other_memory_than_new_whole_one_is_not_recorded(
    changed: str, recordings: dict[Any, Any]
) -> None:
    @replay.replayed
    def clearing(x: torch.Tensor) -> torch.Tensor:
        new = torch.empty(x.shape)
        (x if changed == "input" else new[:1]).zero_()
        return new

    for _ in range(2):
        x = torch.ones(3)
        made = clearing(x)
        assert not (x if changed == "input" else made[:1]).any()
    assert list(recordings.values()) == [None]


def test_memory_that_was_zeroed_is_zeroed_again(recordings: dict[Any, Any]) -> None:
    @replay.replayed
    def zeros_like(x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.zeros(x.shape), x.new_empty(x.shape).zero_()]

    for _ in range(3):
        made = zeros_like(torch.ones(1000))
        assert not any(x.any() for x in made)
        for x in made:
            x.fill_(7)  # what the next call may get
    assert all(recordings.values())


def test_a_replay_runs_on_the_gpu_of_its_input_and_another_limit_is_recorded_anew(
    recordings: dict[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay asks for the stream of the device of its input; here the question is noted."""
    current, asked, calls = two_gpus(monkeypatch), [], []

    def stream(_: int | None) -> int:
        asked.append(current[0])
        return 0

    monkeypatch.setattr(triton.runtime.driver.active, "get_current_stream", stream)

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
