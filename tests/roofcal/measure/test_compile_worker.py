"""What the process that compiles ahead does to torch, on a CPU."""

import io
from typing import Any

import pytest
import torch
import torch._functorch.config as functorch
import torch._inductor.config as inductor
from torch._dynamo.backends.common import aot_autograd

pytest.importorskip("triton")

from roofcal.measure import compile_worker


def test_backward_passes_are_compiled_ahead_with_their_forward_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the timing process compiles them, with the device idle, when they first run."""
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    compiled: list[str] = []

    def compiler(name: str) -> Any:
        def compile_graph(graph: Any, _: Any) -> Any:
            compiled.append(name)
            return graph.forward

        return compile_graph

    backend = aot_autograd(fw_compiler=compiler("forward"), bw_compiler=compiler("backward"))
    square = torch.compile(lambda x: x.sin().square(), backend=backend, dynamic=False)
    # Not monkeypatch: it takes a setting away that it should set back, and what this process
    # compiles next fails.
    with (
        functorch.patch(force_non_lazy_backward_lowering=False),
        inductor.patch(compile_threads=2),
    ):
        compile_worker.run({}, io.StringIO(), io.StringIO())
        square(torch.ones(3, requires_grad=True))
    assert sorted(compiled) == ["backward", "forward"]
