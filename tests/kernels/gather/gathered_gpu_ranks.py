"""Ranks as processes, a GPU each: NCCL, symmetric memory, copy engines."""

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from kernels.gather.all_gather_matmul import AllGatherMatmul, Tuning
from tests.kernels.gather.gathered_ranks import Kind, leave_together
from tests.kernels.gemm.gemm_reference import assert_close, product

# rows of a shard, k, n, type, chunks: whole tiles; ragged in all; one tile; many chunks
KINDS: tuple[Kind, ...] = (
    (512, 1024, 1000, torch.bfloat16, 2),
    (300, 528, 777, torch.float8_e4m3fn, 2),
    (64, 256, 40, torch.float16, 1),
    (2048, 1024, 768, torch.float8_e4m3fn, 4),
)
REPLAYS, SOAK = 20, 500
CYCLES = 3_000_000  # at most, that a rank sleeps: about 2 ms


class Case:
    """The collective of a kind, with inputs that every rank can draw."""

    def __init__(self, kind: Kind, *, fused: bool | None = True) -> None:
        self.shard, self.k, self.n, self.dtype, chunks = kind
        self.scaled = self.dtype.itemsize == 1
        group = distributed.group.WORLD
        assert group is not None
        self.rank, self.world = group.rank(), group.size()
        self.op = AllGatherMatmul(
            *(group, self.shard, self.k, self.n, self.dtype),
            scaled=self.scaled,
            fused=fused,
            tuning=Tuning(chunks=chunks),
        )
        self.w = torch.randn(self.n, self.k, device="cuda").to(self.dtype)
        self.w_scales = torch.rand(1, self.n, device="cuda") + 0.1

    def inputs(self, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Everybody's rows and their scales."""
        drawn = torch.Generator("cuda").manual_seed(seed)
        rows = torch.randn(self.world * self.shard, self.k, device="cuda", generator=drawn)
        scales = torch.rand(self.world * self.shard, 1, device="cuda", generator=drawn) + 0.1
        return rows.to(self.dtype), scales

    def own(self) -> slice:
        return slice(self.rank * self.shard, (self.rank + 1) * self.shard)

    def call(self, rows: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        """Write the own shard of these, and call."""
        self.op.own_shard().copy_(rows)
        place = self.op.own_scales()
        if place is None:
            return self.op(self.w)
        place.copy_(scales)
        return self.op(self.w, self.w_scales)

    def check(self, c: torch.Tensor, rows: torch.Tensor, scales: torch.Tensor) -> None:
        one = torch.ones((), device="cuda")
        by = (scales, self.w_scales) if self.scaled else (one, one)
        assert_close(c, product(rows, self.w, *by), fast_k=self.k if self.scaled else 128)


def eager(seed: int) -> None:
    """Kinds in turns, several turns each; then what the model chooses, and the sequence."""
    cases = [Case(kind) for kind in KINDS]
    cases += [Case(kind, fused=fused) for kind in KINDS[:2] for fused in (None, False)]
    for turn in range(5):
        for i, case in enumerate(cases):
            rows, scales = case.inputs(seed + 10 * turn + i)
            c = case.call(rows[case.own()], scales[case.own()])
            case.check(c, rows, scales)


def captured(
    case: Case, fed: list[tuple[torch.Tensor, torch.Tensor]], graph: torch.cuda.CUDAGraph
) -> list[torch.Tensor]:
    """Capture a turn of each of these; what the turns return."""

    def run() -> list[torch.Tensor]:
        return [case.call(rows[case.own()], scales[case.own()]) for rows, scales in fed]

    run()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        return run()


def graphs(seed: int) -> None:
    """Captured turns, an odd number of them too, replayed with new data and between eager turns."""
    delays = random.Random(seed + distributed.get_rank())
    for kind in KINDS:
        for turns in (1, 2, 3):
            case = Case(kind)
            fed = [case.inputs(seed + turn) for turn in range(turns)]
            own = case.own()

            made = captured(case, fed, graph := torch.cuda.CUDAGraph())
            for replay in range(REPLAYS):
                for turn, (rows, scales) in enumerate(fed):
                    for held, new in zip(
                        (rows, scales), case.inputs(seed + 100 * replay + turn), strict=True
                    ):
                        held.copy_(new)
                torch.cuda._sleep(delays.randrange(CYCLES))
                graph.replay()
                for c, (rows, scales) in zip(made, fed, strict=True):
                    case.check(c, rows, scales)
                if replay % 7 == 6:
                    case.check(case.call(fed[0][0][own], fed[0][1][own]), *fed[0])


def captured_first(seed: int) -> None:
    """Graphs of objects whose eager calls go in sequence: no turn has launched their kernels."""
    for kind in KINDS:
        case = Case(kind)
        way: Any = case.op._way
        way._eager = False
        fed = [case.inputs(seed + turn) for turn in range(2)]
        made = captured(case, fed, graph := torch.cuda.CUDAGraph())
        for _ in range(3):
            graph.replay()
            for c, (rows, scales) in zip(made, fed, strict=True):
                case.check(c, rows, scales)


def soak(seed: int) -> None:
    """Sizes in turns, with delays of each rank's own before a turn and beside it."""
    same, own = random.Random(seed), random.Random(seed + distributed.get_rank())
    cases = [Case(kind) for kind in KINDS]
    pools = [[case.inputs(seed + 10 * i + j) for j in range(3)] for i, case in enumerate(cases)]
    first: dict[tuple[int, int], torch.Tensor] = {}
    beside = torch.cuda.Stream()
    wrong = torch.zeros((), device="cuda")
    for _ in range(SOAK):
        which, j = same.randrange(len(cases)), same.randrange(3)
        case, (rows, scales) = cases[which], pools[which][j]
        if own.random() < 0.3:
            torch.cuda._sleep(own.randrange(CYCLES))
        if own.random() < 0.3:
            with torch.cuda.stream(beside):
                torch.cuda._sleep(own.randrange(CYCLES))
        c = case.call(rows[case.own()], scales[case.own()])
        if (which, j) not in first:
            case.check(c, rows, scales)
            first[which, j] = c.clone()
        wrong += (c != first[which, j]).any()
    assert int(wrong) == 0


def main(rank: int, world: int, folder: str, what: str, seed: int) -> None:
    """Be one rank."""
    torch.cuda.set_device(rank)
    distributed.init_process_group(
        "nccl",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=60),
        device_id=torch.device("cuda", rank),
    )
    # Far from the seeds of inputs: weights that equal rows make sums of squares.
    torch.manual_seed(1_000_000 + seed + rank)
    tests = (eager, captured_first, graphs, soak)
    {test.__name__: test for test in tests}[what](seed)
    torch.cuda.synchronize()
    leave_together(Path(folder), rank, world)
