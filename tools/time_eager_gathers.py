"""Time eager all-gathers with products on two GPUs, where the host may be slower than they are.

`python -m tools.time_eager_gathers OUT.csv` on a machine with two GPUs, in 30 s: NCCL's all-gather
and a library's product beside kernels.gather.all_gather_matmul, which takes the same two for such
calls, before and after its object was captured in a CUDA graph. A time is the median of 25 turns of
eight calls in a row between two events, of the slower GPU, in microseconds of one call; host_us is
what the host took for it.
"""

import csv
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch
from torch import distributed
from torch.distributed.distributed_c10d import _coalescing_manager
from torch.multiprocessing.spawn import spawn

from kernels.gather.all_gather_matmul import AllGatherMatmul

COLUMNS: Final = ("m", "n", "k", "type", "by", "us", "host_us")
# Rows of both GPUs, columns of one, and the sum.
_SHAPES: Final = (
    *((1024, 2048, 5120), (2048, 2048, 5120), (1024, 7168, 8192), (2048, 7168, 8192)),
    *((4096, 1792, 4096), (4096, 3584, 8192)),
)
_TYPES: Final = {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}
_GPUS: Final = 2
_TURNS: Final = 25
_CALLS: Final = 8
_TOLERANCE: Final = 0.02  # of a product beside the library's, relative

Call = Callable[[], torch.Tensor]


def contenders(m: int, n: int, k: int, dtype: torch.dtype) -> dict[str, Call]:
    """Name -> a call on new random operands of this GPU; collective."""
    is_fp8 = dtype.itemsize == 1
    rows = torch.randn(m // _GPUS, k, device="cuda").to(dtype)
    weights = torch.randn(n, k, device="cuda").to(dtype)
    whole = torch.empty(m, k, dtype=dtype, device="cuda")
    row_scales = torch.rand(m // _GPUS, 1, device="cuda") + 0.5
    column_scales = torch.rand(1, n, device="cuda") + 0.5
    scales = torch.empty(m, 1, device="cuda")
    whole_bytes, own_bytes = whole.view(torch.uint8), rows.view(torch.uint8)  # NCCL knows no fp8

    def library() -> torch.Tensor:
        if not is_fp8:
            distributed.all_gather_into_tensor(whole, rows)
            return torch.mm(whole, weights.t())
        with _coalescing_manager(device=whole.device):
            distributed.all_gather_into_tensor(whole_bytes, own_bytes)
            distributed.all_gather_into_tensor(scales, row_scales)
        return torch._scaled_mm(
            whole,
            weights.t(),
            scale_a=scales,
            scale_b=column_scales,
            out_dtype=torch.bfloat16,
            use_fast_accum=True,
        )

    def ours(*, captured: bool) -> Call:
        assert distributed.group.WORLD is not None
        scales_of_columns = column_scales if is_fp8 else None
        op = AllGatherMatmul(distributed.group.WORLD, m // _GPUS, k, n, dtype, scaled=is_fp8)
        for _ in range(2):  # a call per buffer
            op.own_shard().copy_(rows)
            if (own := op.own_scales()) is not None:
                own.copy_(row_scales)
            op(weights, scales_of_columns)
        if captured:
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                op(weights, scales_of_columns)
                op(weights, scales_of_columns)
            graph.replay()
        return lambda: op(weights, scales_of_columns)

    return {
        "library": library,
        "ours": ours(captured=False),
        "ours after a graph": ours(captured=True),
    }


def turn_us(call: Call) -> tuple[float, float]:
    """(microseconds between events, microseconds of the host) of one of several calls in a row."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    distributed.barrier()
    torch.cuda.synchronize()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    began = time.perf_counter()
    first.record()
    for _ in range(_CALLS):
        call()
    last.record()
    host_s = time.perf_counter() - began
    last.synchronize()
    return first.elapsed_time(last) * 1e3 / _CALLS, host_s * 1e6 / _CALLS


def times(m: int, n: int, k: int, dtype: torch.dtype) -> dict[str, list[float]]:
    """Contender -> its times of the slower GPU; raises ValueError where products differ."""
    calls = contenders(m, n, k, dtype)
    wanted = calls["library"]().float()
    for name, call in calls.items():
        if not (call().float() - wanted).norm() <= _TOLERANCE * wanted.norm():
            raise ValueError(f"{m} x {n} x {k}: {name} has another product than the library")
    turns: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(_TURNS):
        for name, call in calls.items():
            turns[name].append(turn_us(call))
    medians = [[statistics.median(of) for of in zip(*each, strict=True)] for each in turns.values()]
    slowest = torch.tensor(medians, device="cuda")
    distributed.all_reduce(slowest, op=distributed.ReduceOp.MAX)
    return dict(zip(calls, slowest.tolist(), strict=True))


def run_rank(rank: int, out: str) -> None:
    """Time all shapes as one of the ranks; the first writes the table."""
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT="29533", RANK=str(rank), WORLD_SIZE=str(_GPUS)
    )
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
    lines = [
        (m, n, k, name, by, *(f"{us:.1f}" for us in of))
        for m, n, k in _SHAPES
        for name, dtype in _TYPES.items()
        for by, of in times(m, n, k, dtype).items()
    ]
    if rank == 0:
        with Path(out).open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *lines])
    distributed.destroy_process_group()


if __name__ == "__main__":
    if len(sys.argv) != 2 or torch.cuda.device_count() < _GPUS:
        sys.exit(
            "python -m tools.time_eager_gathers OUT.csv: wanted one path and a machine with "
            f"{_GPUS} GPUs, got {len(sys.argv) - 1} and {torch.cuda.device_count()}"
        )
    spawn(run_rank, args=(sys.argv[1],), nprocs=_GPUS)  # type: ignore[no-untyped-call]
