"""Splits that meet give the same bits every time, and leave the counters clean."""

import pytest
import torch

from kernels.int4 import finish as int4_finish
from kernels.int4 import workspace as int4_workspace
from kernels.int4.configs import Int4StagedConfig
from kernels.int4.gemm import int4_gemm
from tests.kernels.int4.int4_cases import activations, error, weights


def test_no_float_is_added_by_an_atomic() -> None:
    import ast
    import inspect

    tree = ast.parse(inspect.getsource(int4_finish.finish.fn))
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
    space = int4_workspace.allocate(1 << 20, 1 << 10, device)
    first = int4_gemm(x, w, config=config, workspace=space)
    out = torch.empty_like(first)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        int4_gemm(x, w, config=config, workspace=space, out=out)
    for _ in range(20):
        graph.replay()
        assert torch.equal(out, first)
    assert error(out, x, w) < 4e-3
    assert int(space.counters.abs().sum()) == 0
