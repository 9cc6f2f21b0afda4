"""Parts of K that meet give the same bits every time, also in graphs that run at the same time."""

import ast
import inspect
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from kernels.common import counters as counters_of
from kernels.int4 import gemm as int4
from kernels.int4 import hopper, specialised
from kernels.int4.gemm import int4_gemm
from kernels.int4.rule import (
    Int4Config,
    Int4PlainConfig,
    Int4SpecialisedConfig,
    Int4StagedConfig,
)
from tests.kernels.int4.busy_device import busy_device
from tests.kernels.int4.int4_cases import activations, error, weights

STAGED = Int4StagedConfig(
    rows=64, split=4, num_warps=4, stages=2, unroll=1, token_tile=64, matrix="sync"
)
SPECIALISED = Int4SpecialisedConfig(parts=4, part_rows=64, split=8, slots=6, token_tile=64)


def test_no_float_is_added_by_an_atomic() -> None:
    for module in (hopper, specialised):
        calls = [
            n for n in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(n, ast.Call)
        ]
        atomics = [call for text in calls if (call := ast.unparse(text)).startswith("gl.atomic")]
        assert atomics
        for call in atomics:
            assert call.partition("(")[2].startswith(("word", "counters")), call


@pytest.fixture
def poisoned_memory() -> Iterator[None]:
    """New memory holds NaN: sums that were not written, or of the product before, would show."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


def test_parts_of_k_leave_their_counters_clean(
    device: torch.device, poisoned_memory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lent = torch.zeros(64, dtype=torch.int32, device=device)
    monkeypatch.setattr(int4, "zeroed_counters", lambda count, _: lent[:count])
    split = Int4PlainConfig(row_tiles=2, token_tile=16, split=3, num_warps=4)
    w = weights(70, 384, 128, device, zeros=True)
    x = activations(20, 384, device)
    first = int4_gemm(x, w, config=split)
    assert error(first, x, w) < 8e-3
    assert not lent.any()
    assert torch.equal(int4_gemm(x, w, config=split), first)


def all_counters_are_zero() -> bool:
    """Of streams, and those that were lent to graphs, of which what is left is a view."""
    left = counters_of._left_for_graphs.values()
    pools = [pool if pool._base is None else pool._base for pool in left]
    return not any(bool(lent.any()) for lent in (*counters_of._by_stream.values(), *pools))


@pytest.mark.gpu
@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("split", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("config", [STAGED, SPECIALISED], ids=["staged", "specialised"])
def test_products_behind_one_another_take_no_sums_of_the_one_before(
    config: Int4Config, split: int, chained: bool, poisoned_memory: None
) -> None:
    device = torch.device("cuda")
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("written for sm_90")
    config = replace(config, split=split)
    w = weights(1088, 15360, 128, device)
    inputs = [activations(64, 15360, device) * size for size in (1, -2, 4)]
    expected = [int4_gemm(x, w, config=config) for x in inputs]
    assert all(error(out, x, w) < 4e-3 for out, x in zip(expected, inputs, strict=True))
    outs = [int4_gemm(x, w, config=config, chained=chained) for x in inputs * 20]
    assert all(torch.equal(out, expected[turn % 3]) for turn, out in enumerate(outs))
    assert all_counters_are_zero()


@pytest.mark.gpu
@pytest.mark.parametrize("config", [STAGED, SPECIALISED], ids=["staged", "specialised"])
def test_graphs_that_run_at_the_same_time_share_nothing(
    config: Int4Config, poisoned_memory: None
) -> None:
    device = torch.device("cuda")
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("written for sm_90")
    w = weights(1088, 8192, 128, device)
    inputs = [activations(64, 8192, device) * size for size in (1, -2, 4, 8)]
    expected = [int4_gemm(x, w, config=config) for x in inputs]
    outs = [torch.empty_like(out) for out in expected]
    graphs = [torch.cuda.CUDAGraph() for _ in inputs]
    for graph, x, out in zip(graphs, inputs, outs, strict=True):
        with torch.cuda.graph(graph):
            for _ in range(20):
                out.copy_(int4_gemm(x, w, config=config))
    streams = [torch.cuda.Stream() for _ in graphs]
    for _ in range(25):
        for graph, stream in zip(graphs, streams, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(out, right) for out, right in zip(outs, expected, strict=True))
    assert all_counters_are_zero()


@pytest.mark.gpu
@pytest.mark.parametrize("free_units", [1, 7, 8, 14, 24])
def test_parts_of_k_end_on_any_number_of_free_multiprocessors(free_units: int) -> None:
    """Another kernel holds the others all the while, and streams of both priorities compete."""
    device = torch.device("cuda")
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("written for sm_90")
    w = weights(4096, 8192, 128, device)
    x = activations(64, 8192, device)
    expected = int4_gemm(x, w, config=SPECIALISED)
    assert error(expected, x, w) < 4e-3
    streams = [torch.cuda.Stream(priority=priority) for priority in (0, -1)]
    outs = []
    with busy_device(free_units):
        for _ in range(400):
            for stream in streams:
                with torch.cuda.stream(stream):
                    outs.append(int4_gemm(x, w, config=SPECIALISED))
        deadline = time.monotonic() + 20
        while not all(stream.query() for stream in streams):
            assert time.monotonic() < deadline, "the products hang"
            time.sleep(0.01)
    assert all(torch.equal(out, expected) for out in outs)
    assert all_counters_are_zero()
