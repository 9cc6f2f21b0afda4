"""Recordings on a machine without a GPU: launches are noted, and nothing is compiled.

    python -m tests.kernels.common.replay_without_gpu

A process of its own, because it tells Triton of a driver, and kernels of a GPU, that are not there.
Prints a line per cast or product, and "equal" if its replay launches what the call launched: the
same kernels, grids, sizes and descriptors, with pointers to this call's inputs and outputs.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import triton
from triton.backends.compiler import GPUTarget

from kernels.cast import blocks, both_ways, columns, rows
from kernels.common import fp8_scales, replay
from kernels.gemm import axiswise, blockwise
from kernels.int4 import gemm as int4
from kernels.int4.packing import Int4Weights
from kernels.linear import ops as linear_ops

launched: list[tuple[str, tuple[int, ...], tuple[Any, ...]]] = []


class Compiled:
    """Stands for a compiled kernel, and notes what it is asked to launch."""

    function = packed_metadata = None

    def __init__(self, source: Any, **_: Any) -> None:
        self.name: str = source.fn.__name__

    def launch_metadata(self, *_: Any) -> None:
        """None: nobody asks for it."""

    def run(self, *arguments: Any) -> None:
        launched.append((self.name, arguments[:3], arguments[9:]))


DRIVER = SimpleNamespace(
    get_current_target=lambda: GPUTarget("cuda", 90, 32),
    get_current_device=lambda: 0,
    get_current_stream=lambda _: 0,
)


def pretend(capability: tuple[int, int] = (9, 0)) -> None:
    """Let kernels take CPU tensors for tensors on an H200, or a GPU of another capability."""
    triton.runtime.driver.set_active(DRIVER)
    is_recording = lambda _: replay._recording_thread is not None  # noqa: E731 (one expression)
    mock.patch.object(replay, "_is_called_as_it_is", is_recording).start()
    answers = {
        "compute_capability": lambda _: capability,
        "has_ptx": lambda _: True,
        "shared_memory_bytes": lambda _: 232448,
        "compute_units": lambda *_: 132,
        "check_scale_values": lambda *_, **__: None,
        "check_activations": lambda *_: None,  # they are not on a GPU
    }
    for module in [module for name, module in sys.modules.items() if name.startswith("kernels.")]:
        for name in answers.keys() & vars(module).keys():
            mock.patch.object(module, name, answers[name]).start()


def pointers_as_roles(argument: Any, roles: dict[int, str]) -> Any:
    """An argument of a launch with the addresses of inputs and outputs as roles.

    A call passes tensors, of which others are scratch; a replay passes addresses.
    """
    if hasattr(argument, "base"):
        place = pointers_as_roles(argument.base.data_ptr(), roles)
        return place, tuple(argument.shape), tuple(argument.strides), argument.padding
    if isinstance(argument, torch.Tensor):
        return roles.get(argument.data_ptr(), "scratch")
    return roles.get(argument, argument) if isinstance(argument, int) else argument


def are_equal(called: Any, replayed: Any) -> bool:
    """Whether the arguments of a call and of its replay are the same but for where scratch lies."""
    if isinstance(called, list | tuple) and isinstance(replayed, list | tuple):
        pairs = zip(called, replayed, strict=False)
        return len(called) == len(replayed) and all(are_equal(a, b) for a, b in pairs)
    return bool(called == replayed) or (called == "scratch" and isinstance(replayed, int))


def launches_of(
    function: Callable[..., torch.Tensor | Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor]
) -> list[Any]:
    """What a call launches and returns."""
    launched.clear()
    result = function(*inputs)
    outputs = [result] if isinstance(result, torch.Tensor) else result
    named = (("input", inputs), ("output", outputs))
    roles = {x.data_ptr(): f"{name} {i}" for name, xs in named for i, x in enumerate(xs)}
    kinds = [(x.shape, x.stride(), x.dtype) for x in outputs]
    return [
        *kinds,
        *(
            (name, grid, [pointers_as_roles(argument, roles) for argument in arguments])
            for name, grid, arguments in launched
        ),
    ]


Inputs = tuple[torch.Tensor, ...]


def bf16(m: int, n: int, *others: torch.Tensor) -> Callable[[], Inputs]:
    return lambda: (torch.zeros(m, n, dtype=torch.bfloat16), *others)


def operands(of_blocks: bool) -> Inputs:
    a, b = (torch.zeros(rows, 512).to(torch.float8_e4m3fn) for rows in (256, 384))
    if of_blocks:
        return a, b, fp8_scales.new_block_scales(256, 4, a.device).fill_(1), torch.ones(3, 4)
    return a, b, torch.ones(256, 1), torch.ones(384, 1)


def int4_operands(tokens: int) -> Inputs:
    """Views of one memory, as of a checkpoint that is read at once."""
    memory = torch.zeros(3072 * (4096 // 2 + 4 * 4096 // 128), dtype=torch.uint8)
    packed, *others = memory.split((3072 * 2048, 3072 * 64, 3072 * 64))
    scales, zeros = (part.view(torch.bfloat16).view(192, 32, 16) for part in others)
    return (
        torch.zeros(tokens, 4096, dtype=torch.bfloat16),
        packed.view(192, 32, 1024),
        scales,
        zeros,
    )


def int4_product(x: torch.Tensor, *tensors: torch.Tensor) -> torch.Tensor:
    packed, scales, zeros = tensors
    w = Int4Weights(packed=packed, scales=scales, zeros=zeros, rows=3072, k=4096, group=128)
    return int4.int4_gemm(x, w, chained=True)


def calls() -> dict[str, tuple[Callable[..., Any], Callable[[], Inputs]]]:
    """name -> (function, what draws inputs)."""
    later = replay.replayed(linear_ops.columns_later_by_kernels)
    both = replay.replayed(linear_ops.cast_by_kernels)
    with_amax = replay.replayed(linear_ops.cast_with_amax_by_kernels)
    one = torch.ones(())
    return {
        **{
            f"int4 product of {tokens} tokens": (int4_product, partial(int4_operands, tokens))
            for tokens in (1, 16, 128)
        },
        "tensorwise columns cast later": (
            lambda x, scale: later(x, scale, torch.ones(1), "tensorwise", "tensorwise"),
            bf16(512, 256, one),
        ),
        "tensorwise columns of rows cast axiswise": (
            lambda x: both(x, "axiswise", "tensorwise"),
            bf16(512, 256),
        ),
        "rowwise_dim0": (rows.rowwise_dim0, bf16(64, 1024)),
        "rowwise_both": (columns.rowwise_both, bf16(256, 1024)),
        "rowwise_both of many": (columns.rowwise_both, bf16(8192, 4096)),
        "tensorwise_both": (both_ways.tensorwise_both, bf16(256, 1024)),
        "tensorwise casts with an amax": (
            lambda x, amax: with_amax(x, amax, True),
            bf16(256, 1024, one),
        ),
        "blockwise_1x128_both": (both_ways.blockwise_1x128_both, bf16(250, 1024)),
        "mxfp8_both": (blocks.mxfp8_both, bf16(256, 1024)),
        "axiswise product": (axiswise.gemm, partial(operands, of_blocks=False)),
        "blockwise product": (blockwise.gemm, partial(operands, of_blocks=True)),
    }


def main() -> None:
    """Compare calls with their replays."""
    pretend()
    mock.patch.object(triton.compiler, "compile", Compiled).start()
    for name, (function, draw) in calls().items():
        first, again = launches_of(function, draw()), launches_of(function, draw())
        is_recorded = list(replay._recordings.values())[-1] is not None
        print(name, "equal" if is_recorded and are_equal(first, again) else (first, again))


if __name__ == "__main__":
    main()
