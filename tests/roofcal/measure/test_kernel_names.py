"""The kernels of a captured graph, by a driver that stands in, and on a GPU by the real one."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from types import ModuleType
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


class Parameters:
    def __init__(self, func: int, kern: int) -> None:
        self.func, self.kern = func, kern


class Driver(ModuleType):
    """The part of cuda.bindings.driver that is asked; `nodes`: (kind, function, kernel) each."""

    CUresult = Result
    CUgraphNodeType = Kind

    def __init__(self, *nodes: tuple[Kind, int, int]) -> None:
        super().__init__("cuda.bindings.driver")
        self.nodes = nodes
        self.state = Result.CUDA_SUCCESS

    def CUgraph(self, handle: int) -> int:  # noqa: N802 (CUDA's name)
        return handle

    def cuGraphGetNodes(self, handle: int, count: int = 0) -> tuple[Any, ...]:  # noqa: N802
        assert handle == 77
        # The driver answers with as many places as were asked for, and the number there are.
        places = [*range(len(self.nodes)), *[None] * 9][:count]
        return self.state, places, len(self.nodes)

    def cuGraphNodeGetType(self, node: int) -> tuple[Any, ...]:  # noqa: N802
        return self.state, self.nodes[node][0]

    def cuGraphKernelNodeGetParams(self, node: int) -> tuple[Any, ...]:  # noqa: N802
        return self.state, Parameters(*self.nodes[node][1:])

    def cuFuncGetName(self, function: int) -> tuple[Any, ...]:  # noqa: N802
        return self.state, f"function_{function}".encode()

    def cuKernelGetName(self, kernel: int) -> tuple[Any, ...]:  # noqa: N802
        return self.state, f"kernel_{kernel}"


class Graph:
    def __init__(self, *, keep_graph: bool) -> None:
        assert keep_graph, "the graph would be gone before it is read"

    def raw_cuda_graph(self) -> int:
        return 77


@contextmanager
def capture(_: Graph, capture_error_mode: str) -> Iterator[None]:
    assert capture_error_mode == "global", "on one device any stray call is a mistake"
    yield


def install(patch: pytest.MonkeyPatch, driver: Driver) -> None:
    package = ModuleType("cuda.bindings")
    package.driver = driver  # type: ignore[attr-defined]
    patch.setitem(sys.modules, "cuda", ModuleType("cuda"))
    patch.setitem(sys.modules, "cuda.bindings", package)
    patch.setattr(torch.cuda, "CUDAGraph", Graph)
    patch.setattr(torch.cuda, "graph", capture)


def test_kernels_are_named_in_launch_order_and_copies_by_their_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel, copy, fill = Kind
    driver, calls = Driver((fill, 0, 0), (kernel, 5, 0), (copy, 0, 0), (kernel, 0, 6)), list[int]()
    install(monkeypatch, driver)
    names = graph_kernel_names(lambda: calls.append(1))
    assert names == ("memset", "function_5", "memcpy", "kernel_6")
    assert calls == [1], "a call is captured once"
    driver.state = Result.CUDA_ERROR_INVALID_VALUE
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
