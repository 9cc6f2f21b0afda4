"""The kernels of a captured graph, by a driver that stands in, and on a GPU by the real one."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from roofcal.measure.timing import graph_kernel_names


class Result(Enum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1


class Kind(Enum):
    CU_GRAPH_NODE_TYPE_KERNEL = 0
    CU_GRAPH_NODE_TYPE_MEMCPY = 1
    CU_GRAPH_NODE_TYPE_MEMSET = 2


def driver_of(*nodes: tuple[Kind, int, int], state: Result = Result.CUDA_SUCCESS) -> Any:
    """The part of cuda.bindings.driver that is asked; nodes: (kind, function, kernel) each."""
    # The driver answers with as many places as were asked for, and the number there are.
    places = [*range(len(nodes)), *[None] * 9]
    parameters = [SimpleNamespace(func=function, kern=kernel) for _, function, kernel in nodes]
    return SimpleNamespace(
        CUresult=Result,
        CUgraphNodeType=Kind,
        CUgraph={77: 77}.__getitem__,
        cuGraphGetNodes=lambda _, count=0: (state, places[:count], len(nodes)),
        cuGraphNodeGetType=lambda node: (state, nodes[node][0]),
        cuGraphKernelNodeGetParams=lambda node: (state, parameters[node]),
        cuFuncGetName=lambda function: (state, f"function_{function}".encode()),
        cuKernelGetName=lambda kernel: (state, f"kernel_{kernel}"),
    )


class Graph:
    def __init__(self, *, keep_graph: bool) -> None:
        assert keep_graph, "the graph would be gone before it is read"

    def raw_cuda_graph(self) -> int:
        return 77


@contextmanager
def capture(_: Graph, capture_error_mode: str) -> Iterator[None]:
    assert capture_error_mode == "global", "on one device any stray call is a mistake"
    yield


def test_kernels_are_named_in_launch_order_and_copies_by_their_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def install(driver: Any) -> None:
        monkeypatch.setitem(sys.modules, "cuda.bindings", SimpleNamespace(driver=driver))

    kernel, copy, fill = Kind
    nodes, calls = [(fill, 0, 0), (kernel, 5, 0), (copy, 0, 0), (kernel, 0, 6)], list[int]()
    monkeypatch.setitem(sys.modules, "cuda", ModuleType("cuda"))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    install(driver_of(*nodes))
    names = graph_kernel_names(lambda: calls.append(1))
    assert names == ("memset", "function_5", "memcpy", "kernel_6")
    assert calls == [1], "a call is captured once"
    install(driver_of(*nodes, state=Result.CUDA_ERROR_INVALID_VALUE))
    with pytest.raises(RuntimeError, match="CUDA_ERROR_INVALID_VALUE"):
        graph_kernel_names(lambda: None)
    monkeypatch.setitem(sys.modules, "cuda", None)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    assert graph_kernel_names(lambda: pytest.fail("captured for nothing")) == ()


@pytest.mark.gpu
def test_a_real_graph_names_each_kernel_of_its_calls() -> None:
    pytest.importorskip("cuda.bindings")
    x, y = torch.zeros(4, device="cuda"), torch.zeros(4, device="cuda")

    def call() -> torch.Tensor:
        return torch.sin(y, out=x.add_(1))

    call()
    x.zero_()
    names = graph_kernel_names(call)
    assert len(names) == 2
    assert names[0] != names[1]
    assert "sin" in names[1]
    assert float(x.sum()) == 0.0, "a captured call is not run"
