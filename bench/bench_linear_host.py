"""Host time of a Float8Linear, forward + backward (bars: 250 us eager, 60 compiled), and of casts.

Run on a machine with a GPU: make bench PYTEST_ARGS='-k linear_host'. The layer is so small that the
GPU is always done before the host.
"""

import statistics
import time
from collections.abc import Callable

import pytest
import torch

from kernels.cast import both_ways, columns
from kernels.gemm import axiswise
from kernels.linear.layer import Float8Linear

ROWS, FEATURES, CALLS, REPEATS = 128, 256, 300, 5
BARS_US = {"eager": 250.0, "compiled": 60.0}

pytestmark = [
    pytest.mark.bench,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="host time of launches needs a GPU"),
]


def host_us(call: Callable[[], object]) -> float:
    """Microseconds of the host per call: the median of several runs of many calls."""
    times = []
    for repeat in range(REPEATS + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        elapsed = time.perf_counter() - start
        if repeat:  # the first run compiles and records
            times.append(1e6 * elapsed / CALLS)
    return statistics.median(times)


def layer(recipe: str) -> torch.nn.Module:
    made: torch.nn.Module
    if recipe == "bf16":
        made = torch.nn.Linear(FEATURES, FEATURES, bias=False)
    else:
        made = Float8Linear(FEATURES, FEATURES, bias=False, recipe=recipe)
    return made.to("cuda", torch.bfloat16)


@pytest.mark.parametrize("mode", BARS_US)
@pytest.mark.parametrize("recipe", ["bf16", "axiswise", "tensorwise", "blockwise"])
def test_a_linear(recipe: str, mode: str) -> None:
    module = layer(recipe)
    call = torch.compile(module) if mode == "compiled" else module
    x = torch.randn(ROWS, FEATURES, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    grad = torch.randn_like(x)

    def forward_and_backward() -> None:
        call(x).backward(grad)
        x.grad = next(module.parameters()).grad = None

    us = host_us(forward_and_backward)
    print(f"\n{recipe} {mode}: {us:.0f} us of the host, forward + backward")
    if recipe != "bf16":
        assert us <= BARS_US[mode]


def test_casts_and_products() -> None:
    """Replayed and decided anew (kernels.common.replay)."""
    x = torch.randn(ROWS, FEATURES, device="cuda").bfloat16()
    q, scale, *_ = columns.rowwise_both(x)
    calls = {
        "rowwise_both": (columns.rowwise_both, (x,)),
        "tensorwise_both": (both_ways.tensorwise_both, (x,)),
        "blockwise_1x128_both": (both_ways.blockwise_1x128_both, (x,)),
        "gemm": (axiswise.gemm, (q, q, scale, scale)),
    }
    for name, (function, arguments) in calls.items():
        replayed = host_us(lambda f=function, a=arguments: f(*a))  # type: ignore[misc]
        anew = host_us(lambda f=function.__wrapped__, a=arguments: f(*a))  # type: ignore[attr-defined, misc]
        print(f"\n{name}: {replayed:.0f} us of the host, decided anew {anew:.0f}")
        assert replayed < anew
