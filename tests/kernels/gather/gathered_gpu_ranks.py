"""Ranks as processes, a GPU each: NCCL, symmetric memory, copy engines."""

import random
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed

from tests.kernels.gather.gathered_ranks import Case, Inputs, Kind, leave_together

# rows of a shard, k, n, type, chunks: whole tiles; ragged in all; one tile; many chunks
KINDS: tuple[Kind, ...] = (
    (512, 1024, 1000, torch.bfloat16, 2),
    (300, 528, 777, torch.float8_e4m3fn, 2),
    (64, 256, 40, torch.float16, 1),
    (2048, 1024, 768, torch.float8_e4m3fn, 4),
)
REPLAYS, SOAK = 20, 500
CYCLES = 3_000_000  # at most, that a rank sleeps: about 2 ms


def case_of(kind: Kind, *, fused: bool | None = True) -> Case:
    return Case(kind, "cuda", tile=None, fused=fused)


def eager(seed: int) -> None:
    """Kinds in turns, several turns each; then what the model chooses, and the sequence."""
    cases = [case_of(kind) for kind in KINDS]
    cases += [case_of(kind, fused=fused) for kind in KINDS[:2] for fused in (None, False)]
    for turn in range(5):
        for i, case in enumerate(cases):
            case.turn(seed + 10 * turn + i)


def captured(case: Case, fed: list[Inputs], graph: torch.cuda.CUDAGraph) -> list[torch.Tensor]:
    """Capture a turn of each of these; what the turns return."""

    def run() -> list[torch.Tensor]:
        return [case.call(rows, scales) for rows, scales in fed]

    run()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        return run()


def graphs(seed: int) -> None:
    """Captured turns, an odd number of them too, replayed with new data and between eager turns."""
    delays = random.Random(seed + distributed.get_rank())
    for kind in KINDS:
        for turns in (1, 2, 3):
            case = case_of(kind)
            fed = [case.inputs(seed + turn) for turn in range(turns)]
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
                    case.check(case.call(*fed[0]), *fed[0])


def captured_first(seed: int) -> None:
    """Graphs of objects whose eager calls go in sequence: no turn has launched their kernels."""
    for kind in KINDS:
        case = case_of(kind)
        case.way._eager = False
        fed = [case.inputs(seed + turn) for turn in range(2)]
        made = captured(case, fed, graph := torch.cuda.CUDAGraph())
        for _ in range(3):
            graph.replay()
            for c, (rows, scales) in zip(made, fed, strict=True):
                case.check(c, rows, scales)


def soak(seed: int) -> None:
    """Sizes in turns, with delays of each rank's own before a turn and beside it."""
    same, own = random.Random(seed), random.Random(seed + distributed.get_rank())
    cases = [case_of(kind) for kind in KINDS]
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
        c = case.call(rows, scales)
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
