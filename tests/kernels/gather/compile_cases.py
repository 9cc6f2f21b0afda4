"""Products that follow arrival, compiled ahead of time: every tile, and the kernel of a turn."""

from collections.abc import Iterator, Sequence
from functools import partial

import torch

from kernels.common.architecture import (
    ARCHITECTURES,
    WITHOUT_E4M3,
    WITHOUT_TENSOR_MEMORY_UNIT,
    Architecture,
)
from kernels.gather import flags, plans, product
from kernels.gemm.rule import GemmConfig
from tests.kernels.compile_case import Case, launched, on_gpu
from tests.kernels.gemm.compile_cases import LARGE, product_case

SMALLER = tuple(arch for arch in ARCHITECTURES if arch not in LARGE)
PORTABLE = tuple(WITHOUT_TENSOR_MEMORY_UNIT)  # they wait by atomics
ASYNC = tuple(arch for arch in SMALLER if arch not in PORTABLE)
SHARD, N, K = 256, 512, 1024


def gather_cases() -> Iterator[tuple[str, Case]]:
    yield from _products(plans.WIDE, torch.bfloat16, LARGE)
    yield from _products(plans.WIDE[:1], torch.float16, LARGE)
    yield from _products(plans.NARROW, torch.float8_e4m3fn, LARGE)
    for gpus in (PORTABLE, ASYNC):
        with_e4m3 = tuple(arch for arch in gpus if arch not in WITHOUT_E4M3)
        yield from _products(plans.SMALL, torch.bfloat16, gpus)
        yield from _products(plans.SMALL, torch.float8_e4m3fn, with_e4m3)
    state, here, addresses = words(2), words(2, 4, 32), on_gpu(torch.int64, 2)
    begin = partial(flags.begin, state, here, here, addresses, buffer=0, rank=0, chunks=4)
    yield "begin_turn", launched(begin, wide=False)


def words(*size: int) -> torch.Tensor:
    return on_gpu(torch.int32, *size)


def _products(
    table: Sequence[GemmConfig], dtype: torch.dtype, gpus: tuple[Architecture, ...]
) -> Iterator[tuple[str, Case]]:
    kind = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float8_e4m3fn: "fp8e4nv"}[dtype]
    for config in table:
        a, w, c = on_gpu(dtype, 2 * SHARD, K), on_gpu(dtype, N, K), on_gpu(torch.bfloat16, 512, N)
        scales = (on_gpu(torch.float32, 2 * SHARD), on_gpu(torch.float32, N))
        launch = partial(
            product.launch,
            *(a, w, c, scales if dtype.itemsize == 1 else None, words(2, 1, 32), words(2)),
            *(plans.chunks_of(SHARD, config.m, 1), config),
            rank=0,
        )
        case = product_case(launch, gpus)
        yield f"gathered_{kind}_{config.m}x{config.n}x{config.k}_{gpus[0]}", case
