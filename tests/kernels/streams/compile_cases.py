"""The streams and the empty kernel, compiled ahead of time."""

from collections.abc import Iterator

import torch

from kernels.streams import empty, memory
from tests.kernels.compile_case import Case, launched, on_gpu


def stream_cases() -> Iterator[tuple[str, Case]]:
    x = on_gpu(torch.float32, 1 << 20)
    yield "read_sum", launched(lambda: memory.read_sum(x))
    yield "fill", launched(lambda: memory.fill(x, 2.5))
    yield "copy", launched(lambda: memory.copy(x, x))
    yield "empty", launched(lambda: empty.empty(3), wide=False)
