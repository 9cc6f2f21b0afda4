"""Recordings on a machine without a GPU: launches are noted, and nothing is compiled.

    python -m tests.kernels.common.replay_without_gpu

A process of its own, because it tells Triton of a driver, and kernels of a GPU, that are not there.
Prints a line per cast or product, and "equal" if its replay launches what the call launched: the
same kernels, grids, sizes and descriptors, with pointers to this call's inputs and outputs.
"""

import sys
from collections.abc import Callable, Sequence
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


def calls() -> dict[str, tuple[Callable[..., Any], Callable[[], tuple[torch.Tensor, ...]]]]:
    """name -> (function, what draws inputs)."""

    def bf16(m: int, n: int) -> Callable[[], tuple[torch.Tensor, ...]]:
        return lambda: (torch.zeros(m, n, dtype=torch.bfloat16),)

    def fp8(m: int, k: int, *scale: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(m, k).to(torch.float8_e4m3fn), torch.ones(*scale)

    def axiswise_operands() -> tuple[torch.Tensor, ...]:
        (a, scale_a), (b, scale_b) = fp8(256, 512, 256, 1), fp8(384, 512, 384, 1)
        return a, b, scale_a, scale_b

    def blockwise_operands() -> tuple[torch.Tensor, ...]:
        (a, _), (b, scale_b) = fp8(256, 512, 1), fp8(384, 512, 3, 4)
        return a, b, fp8_scales.new_block_scales(256, 4, a.device).fill_(1), scale_b

    def int4_product(x: torch.Tensor, *tensors: torch.Tensor) -> torch.Tensor:
        packed, scales, zeros = tensors
        w = Int4Weights(packed=packed, scales=scales, zeros=zeros, rows=3072, k=4096, group=128)
        return int4.int4_gemm(x, w, chained=True)

    def int4_operands(tokens: int) -> Callable[[], tuple[torch.Tensor, ...]]:
        def drawn() -> tuple[torch.Tensor, ...]:
            # views of one memory, as of a checkpoint that is read at once
            memory = torch.zeros(3072 * (4096 // 2 + 4 * 4096 // 128), dtype=torch.uint8)
            packed, scales, zeros = memory.split((3072 * 2048, 3072 * 64, 3072 * 64))
            by_group = (192, 32, 16)
            x = torch.zeros(tokens, 4096, dtype=torch.bfloat16)
            return (
                *(x, packed.view(192, 32, 1024)),
                *(part.view(torch.bfloat16).view(by_group) for part in (scales, zeros)),
            )

        return drawn

    later = replay.replayed(linear_ops.columns_later_by_kernels)
    both = replay.replayed(linear_ops.cast_by_kernels)
    with_amax = replay.replayed(linear_ops.cast_with_amax_by_kernels)

    def columns_later(x: torch.Tensor, scale: torch.Tensor) -> list[torch.Tensor]:
        return later(x, scale, torch.ones(1), "tensorwise", "tensorwise")

    def one_and_the_other(x: torch.Tensor) -> list[torch.Tensor]:
        return both(x, "axiswise", "tensorwise")

    return {
        "int4 product of one token": (int4_product, int4_operands(1)),
        "int4 product of 16 tokens": (int4_product, int4_operands(16)),
        "int4 product of 128 tokens": (int4_product, int4_operands(128)),
        "tensorwise columns cast later": (
            columns_later,
            lambda: (*bf16(512, 256)(), torch.ones(())),
        ),
        "tensorwise columns of rows cast axiswise": (one_and_the_other, bf16(512, 256)),
        "rowwise_dim0": (rows.rowwise_dim0, bf16(64, 1024)),
        "rowwise_both": (columns.rowwise_both, bf16(256, 1024)),
        "rowwise_both of many": (columns.rowwise_both, bf16(8192, 4096)),
        "tensorwise_both": (both_ways.tensorwise_both, bf16(256, 1024)),
        "tensorwise casts with an amax": (
            lambda x, amax: with_amax(x, amax, True),
            lambda: (*bf16(256, 1024)(), torch.ones(())),
        ),
        "blockwise_1x128_both": (both_ways.blockwise_1x128_both, bf16(250, 1024)),
        "mxfp8_both": (blocks.mxfp8_both, bf16(256, 1024)),
        "axiswise product": (axiswise.gemm, axiswise_operands),
        "blockwise product": (blockwise.gemm, blockwise_operands),
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
