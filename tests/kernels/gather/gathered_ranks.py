"""Ranks as processes on the CPU: gloo, memory in shared files, kernels in Triton's interpreter.

A rank really waits here: its product spins until a peer's copies have come.
"""

import os
import random
import time
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from kernels.gather import all_gather_matmul, symmetric_memory
from kernels.gather import flags as arrival_flags
from kernels.gather import product as gathered_matmul
from kernels.gather.all_gather_matmul import AllGatherMatmul, Tuning
from kernels.gather.symmetric_memory import SymmetricMemory
from kernels.gemm.rule import GemmConfig
from tests.kernels import faithful
from tests.kernels.gemm.gemm_reference import assert_close, product

TILE = GemmConfig(m=16, n=32, k=32, num_warps=4, num_stages=2, rate=1.0, group=2)
Inputs = tuple[torch.Tensor, torch.Tensor]
_allocate = symmetric_memory.allocate  # which main replaces
Kind = tuple[int, int, int, torch.dtype, int]  # rows of a shard, k, n, type, chunks
KINDS: tuple[Kind, ...] = (
    (32, 64, 40, torch.bfloat16, 2),
    (38, 32, 70, torch.float8_e4m3fn, 3),
    (40, 48, 33, torch.float16, 1),
)


class SharedFiles:
    """Stands for torch's symmetric memory: each rank's bytes are a file that all ranks map."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._made = folder, 0

    def allocate(self, size_bytes: int, group: distributed.ProcessGroup) -> SymmetricMemory:
        self._made += 1
        views = tuple(
            torch.from_file(
                str(self._folder / f"{self._made}-{rank}"),
                shared=True,
                size=size_bytes,
                dtype=torch.uint8,
            )
            for rank in range(group.size())
        )
        distributed.barrier(group)
        return SymmetricMemory(views=views, owner=None)


class Case:
    """The collective of a kind, with inputs that every rank can draw."""

    def __init__(
        self, kind: Kind, device: str = "cpu", *, tile: GemmConfig | None = TILE, **how: Any
    ) -> None:
        self.shard, self.k, self.n, self.dtype, chunks = kind
        self.scaled = self.dtype.itemsize == 1
        group = distributed.group.WORLD
        assert group is not None
        self.rank, self.world, self.device = group.rank(), group.size(), device
        self.op = AllGatherMatmul(
            *(group, self.shard, self.k, self.n, self.dtype),
            scaled=self.scaled,
            tuning=Tuning(tile=tile, chunks=chunks),
            **how,
        )
        self.way: Any = self.op._way
        self.w = torch.randn(self.n, self.k, device=device).to(self.dtype)
        self.w_scales = torch.rand(1, self.n, device=device) + 0.1

    def inputs(self, seed: int) -> Inputs:
        """Everybody's rows and their scales."""
        drawn, rows = torch.Generator(self.device).manual_seed(seed), self.world * self.shard
        a = torch.randn(rows, self.k, device=self.device, generator=drawn)
        scales = torch.rand(rows, 1, device=self.device, generator=drawn) + 0.1
        return a.to(self.dtype), scales

    def own(self) -> slice:
        return slice(self.rank * self.shard, (self.rank + 1) * self.shard)

    def call(self, rows: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        """Write the own shard of these, and call."""
        self.op.own_shard().copy_(rows[self.own()])
        place = self.op.own_scales()
        if place is None:
            return self.op(self.w)
        place.copy_(scales[self.own()])
        return self.op(self.w, self.w_scales)

    def check(self, c: torch.Tensor, rows: torch.Tensor, scales: torch.Tensor) -> None:
        one = torch.ones((), device=self.device)
        by = (scales, self.w_scales) if self.scaled else (one, one)
        assert_close(c, product(rows, self.w, *by), fast_k=self.k if self.scaled else 128)

    def turn(self, seed: int) -> None:
        """Call with new rows, and compare."""
        fed = self.inputs(seed)
        self.check(self.call(*fed), *fed)


def soak(seed: int, turns: int = 6) -> None:
    """Objects in turns, each rank with delays of its own; at times one buffer twice running."""
    same, own = random.Random(seed), random.Random(seed + distributed.get_rank())
    cases = [Case(kind, fused=True) for kind in KINDS]
    cases.append(Case(KINDS[0], fused=True, buffers=3))
    for i in range(turns):
        case = same.choice(cases)
        if same.random() < 0.3:  # what replaying a graph of one turn does
            case.way._next = (case.way._next - 1) % case.way._buffers
        time.sleep(own.choice((0.0, 0.0, 0.02)))
        case.turn(100 * seed + i)


def long_soak(seed: int) -> None:
    """The same for longer."""
    soak(seed, turns=48)


def mixed(seed: int) -> None:
    """Graphs, as far as the class can tell, and eager turns in sequence, in any order."""
    same, own = random.Random(seed), random.Random(seed + distributed.get_rank())
    in_graph = False
    all_gather_matmul.is_captured = lambda x: in_graph  # noqa: ARG005 (its name)
    cases = [Case(kind, fused=True) for kind in KINDS[:2]]
    for case in cases:
        case.way._eager = False
    for i in range(10):
        case, in_graph = same.choice(cases), same.random() < 0.5
        if in_graph and same.random() < 0.5:
            case.way._next = (case.way._next - 1) % case.way._buffers
        time.sleep(own.choice((0.0, 0.0, 0.02)))
        buffer = case.way._next
        case.turn(100 * seed + i)
        # a turn in sequence tells peers nothing: the next captured one waits for them
        unknown = int(arrival_flags.new_state(case.way._state.device)[1])
        assert int(case.way._state[1]) == (buffer if in_graph else unknown)


def loaded(seed: int) -> None:
    """Kernels are launched, so that they are loaded, before any turn; and no peer is told of it."""
    launched: list[Any] = []
    launch = gathered_matmul.launch

    def noted(*given: Any, **named: Any) -> None:
        launched.append(given)
        launch(*given, **named)

    gathered_matmul.launch = noted  # type: ignore[assignment, unused-ignore]
    for number, kind in enumerate(KINDS, start=1):
        case = Case(kind, fused=True)
        assert len(launched) == number
        way = case.way
        assert way._state.tolist() == arrival_flags.new_state(way._state.device).tolist()
        assert not way._ranks[way._rank].flags.any()
        assert not way._ranks[way._rank].finished.any()
    distributed.barrier()
    case.turn(seed)


def sequence(seed: int) -> None:
    """The way without symmetric memory."""
    for kind in KINDS:
        case = Case(kind, fused=False)
        assert not case.op.fused
        for i in range(2):
            case.turn(seed + i)


def loaded_then_in_sequence_then_refused(seed: int) -> None:
    """What these three functions say, in ranks that are started once."""
    loaded(seed)
    sequence(seed)
    refused()


def refused() -> None:
    """Without a GPU there is no symmetric memory, and every rank says so."""
    group = distributed.group.WORLD
    assert group is not None
    try:
        _allocate(1024, group)
    except symmetric_memory.NoPeerAccess as error:
        assert "rank 0 has no GPU that torch can use" in str(error)
    else:
        raise AssertionError("symmetric memory without a GPU")


def leave_together(folder: Path, rank: int, world: int) -> None:
    """Gloo fails in a rank that still talks to one that has ended, even in a barrier."""
    (folder / f"done-{rank}").touch()
    until = time.monotonic() + 60
    while not all((folder / f"done-{other}").exists() for other in range(world)):
        assert time.monotonic() < until, "another rank has not come to its end"
        time.sleep(0.01)


def main(rank: int, world: int, folder: str, what: str, seed: int) -> None:
    """Be one rank."""
    assert os.environ["TRITON_INTERPRET"] == "1"
    faithful.install()
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=world)
    symmetric_memory.allocate = SharedFiles(Path(folder)).allocate
    torch.manual_seed(1_000_000 + seed + rank)
    globals()[what](seed)
    leave_together(Path(folder), rank, world)
