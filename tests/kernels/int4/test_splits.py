"""Workspaces are kept, grow and are clean; splits that meet give the same bits every time."""

import ast
import inspect

import pytest
import torch

from kernels.int4 import splits
from kernels.int4.configs import Int4StagedConfig
from kernels.int4.gemm import int4_gemm
from kernels.int4.splits import Workspace, allocate, cached
from tests.kernels.int4.int4_cases import activations, error, weights


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "_CACHED", {})


def test_counters_start_at_zero_and_sizes_are_rounded_up(device: torch.device) -> None:
    workspace = allocate(3 << 20, (1 << 14) + 1, device)
    assert workspace.partials.numel() == 1 << 22
    assert workspace.counters.numel() == 1 << 15
    assert int(workspace.counters.abs().sum()) == 0
    assert workspace.fits(1 << 22, 1 << 15)
    assert not workspace.fits((1 << 22) + 1, 1)


def test_a_stream_keeps_its_workspace(empty_cache: None, device: torch.device) -> None:
    first = cached(10, 10, device)
    assert cached(1 << 20, 5, device) is first


def test_an_outgrown_workspace_is_kept_for_graphs_that_use_it(
    empty_cache: None, device: torch.device
) -> None:
    first = cached(10, 10, device)
    second = cached(1 << 21, 10, device)
    assert second is not first
    assert any(first is kept for kept in splits._CACHED[device, 0])


class Streams:
    """A device of which tests say which stream is current, and whether it is being captured."""

    current, is_captured, waits = 1, False, 0


@pytest.fixture
def streams(empty_cache: None, monkeypatch: pytest.MonkeyPatch) -> Streams:
    made = Streams()

    def on_cpu(partials: int, counters: int, _: torch.device) -> Workspace:
        return allocate(partials, counters, torch.device("cpu"))

    def wait(_: torch.device) -> None:
        made.waits += 1

    monkeypatch.setattr(splits, "allocate", on_cpu)
    monkeypatch.setattr(splits, "_current_stream", lambda _: made.current)
    monkeypatch.setattr(torch.cuda, "synchronize", wait)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: made.is_captured)
    return made


CUDA = torch.device("cuda:0")


def test_no_workspace_is_allocated_during_a_capture(streams: Streams) -> None:
    streams.is_captured = True
    with pytest.raises(RuntimeError, match=r"100 sums and 7 counters during a CUDA graph capture"):
        cached(100, 7, CUDA)


def test_streams_and_graphs_have_workspaces_of_their_own(streams: Streams) -> None:
    first = cached(10, 10, CUDA)
    streams.current = 2
    second = cached(10, 10, CUDA)
    streams.is_captured = True
    of_graphs = cached(10, 10, CUDA)
    assert len({id(first), id(second), id(of_graphs)}) == 3
    streams.current = 3  # another stream to capture on
    assert cached(10, 10, CUDA) is of_graphs
    streams.current, streams.is_captured = 1, False
    assert cached(10, 10, CUDA) is first
    assert streams.waits == 1  # once the one of graphs was made


def test_a_larger_product_makes_room_for_graphs_too(streams: Streams) -> None:
    cached(10, 10, CUDA)
    cached(1 << 21, 10, CUDA)
    streams.is_captured = True
    assert cached(1 << 21, 10, CUDA).partials.numel() == 1 << 21


def test_a_workspace_fits_what_has_no_more_elements(device: torch.device) -> None:
    workspace = Workspace(
        partials=torch.zeros(8, device=device),
        counters=torch.zeros(2, dtype=torch.int32, device=device),
    )
    assert workspace.fits(8, 2)
    assert not workspace.fits(8, 3)


def test_no_float_is_added_by_an_atomic() -> None:
    tree = ast.parse(inspect.getsource(splits.finish.fn))
    calls = [ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.Call)]
    atomics = [call for call in calls if call.startswith("gl.atomic")]
    assert len(atomics) == 1
    assert atomics[0].startswith("gl.atomic_add(counters + block, 1, ")


@pytest.mark.gpu
@pytest.mark.parametrize("split", [2, 4, 8])
@pytest.mark.parametrize("tokens", [16, 64])
def test_replays_of_a_graph_give_the_same_bits(tokens: int, split: int) -> None:
    device = torch.device("cuda")
    config = Int4StagedConfig(
        rows=64, split=split, num_warps=4, stages=2, unroll=1, token_tile=tokens, matrix="sync"
    )
    w = weights(640, 2048, 128, device)
    x = activations(tokens, 2048, device)
    workspace = allocate(1 << 20, 1 << 10, device)
    first = int4_gemm(x, w, config=config, workspace=workspace)
    out = torch.empty_like(first)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        int4_gemm(x, w, config=config, workspace=workspace, out=out)
    for _ in range(20):
        graph.replay()
        assert torch.equal(out, first)
    assert error(out, x, w) < 4e-3
    assert int(workspace.counters.abs().sum()) == 0
