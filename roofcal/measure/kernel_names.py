"""Names of the kernels behind a call, read from a captured CUDA graph (no profiler involved).

A profiler would name them too, but leaves its hooks behind for everything timed afterwards.
"""

from collections.abc import Callable
from typing import Any, Literal

import torch

CaptureMode = Literal["global", "thread_local"]  # whose CUDA calls would spoil a capture


def graph_kernel_names(
    call: Callable[[], Any], capture_mode: CaptureMode = "global"
) -> tuple[str, ...]:
    """Mangled kernel names of one call in launch order; () where cuda-bindings is not installed."""
    try:
        from cuda.bindings import driver  # noqa: PLC0415 (CUDA builds of torch bring it)
    except ImportError:
        return ()
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph, capture_error_mode=capture_mode):
        output = call()
    del output
    handle = driver.CUgraph(graph.raw_cuda_graph())
    _, nodes, count = _checked(driver, driver.cuGraphGetNodes(handle))
    _, nodes, count = _checked(driver, driver.cuGraphGetNodes(handle, count))
    return tuple(name for node in nodes[:count] if (name := _name(driver, node)))


def _name(driver: Any, node: Any) -> str:
    kind = _checked(driver, driver.cuGraphNodeGetType(node))[1]
    if kind != driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL:
        return str(kind.name).rsplit("TYPE_", 1)[-1].lower()
    parameters = _checked(driver, driver.cuGraphKernelNodeGetParams(node))[1]
    if int(parameters.func):
        name = _checked(driver, driver.cuFuncGetName(parameters.func))[1]
    else:
        name = _checked(driver, driver.cuKernelGetName(parameters.kern))[1]
    return name.decode() if isinstance(name, bytes) else str(name)


def _checked(driver: Any, answer: tuple[Any, ...]) -> tuple[Any, ...]:
    if answer[0] != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"CUDA driver: {answer[0]}")
    return answer
