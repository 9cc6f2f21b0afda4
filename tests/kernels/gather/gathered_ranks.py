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


def inputs(kind: Kind, seed: int, world: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Everybody's rows and their scales, the same in every rank."""
    shard, k, _, dtype, _ = kind
    drawn = torch.Generator().manual_seed(seed)
    rows = torch.randn(world * shard, k, generator=drawn).to(dtype)
    return rows, torch.rand(world * shard, 1, generator=drawn) + 0.1


def turn(op: AllGatherMatmul, kind: Kind, seed: int) -> None:
    """Write the own shard, call, compare."""
    world, rank = distributed.get_world_size(), distributed.get_rank()
    rows, scales = inputs(kind, seed, world)
    shard, k, n, dtype, _ = kind
    w, w_scales = torch.randn(n, k).to(dtype), torch.rand(1, n) + 0.1
    own = slice(rank * shard, (rank + 1) * shard)
    op.own_shard().copy_(rows[own])
    place = op.own_scales()
    if place is not None:
        place.copy_(scales[own])
    c = op(w, None if place is None else w_scales)
    one = torch.ones(())
    by = (one, one) if place is None else (scales, w_scales)
    assert_close(c, product(rows, w, *by))


def made(kind: Kind, **how: Any) -> AllGatherMatmul:
    """The collective of a kind, with tiles that are small enough for the interpreter."""
    shard, k, n, dtype, chunks = kind
    group = distributed.group.WORLD
    assert group is not None
    return AllGatherMatmul(
        *(group, shard, k, n, dtype),
        scaled=dtype.itemsize == 1,
        tuning=Tuning(tile=TILE, chunks=chunks),
        **how,
    )


def soak(seed: int, turns: int = 6) -> None:
    """Objects in turns, each rank with delays of its own; at times one buffer twice running."""
    same, own = random.Random(seed), random.Random(seed + distributed.get_rank())
    ops = [made(kind, fused=True) for kind in KINDS]
    ops.append(made(KINDS[0], fused=True, buffers=3))
    kinds = (*KINDS, KINDS[0])
    for i in range(turns):
        which = same.randrange(len(ops))
        if same.random() < 0.3:  # what replaying a graph of one turn does
            way: Any = ops[which]._way
            way._next = (way._next - 1) % way._buffers
        time.sleep(own.choice((0.0, 0.0, 0.02)))
        turn(ops[which], kinds[which], 100 * seed + i)


def long_soak(seed: int) -> None:
    """The same for longer."""
    soak(seed, turns=48)


def mixed(seed: int) -> None:
    """Graphs, as far as the class can tell, and eager turns in sequence, in any order."""
    same, own = random.Random(seed), random.Random(seed + distributed.get_rank())
    in_graph = False
    all_gather_matmul.is_captured = lambda x: in_graph  # noqa: ARG005 (its name)
    ops = [made(kind, fused=True) for kind in KINDS[:2]]
    for op in ops:
        way: Any = op._way
        way._eager = False
    for i in range(10):
        which, in_graph = same.randrange(len(ops)), same.random() < 0.5
        way = ops[which]._way
        if in_graph and same.random() < 0.5:
            way._next = (way._next - 1) % way._buffers
        time.sleep(own.choice((0.0, 0.0, 0.02)))
        turn(ops[which], KINDS[which], 100 * seed + i)


def loaded(seed: int) -> None:
    """Kernels are launched, so that they are loaded, before any turn; and no peer is told of it."""
    launched: list[Any] = []
    launch = gathered_matmul.launch

    def noted(*given: Any, **named: Any) -> None:
        launched.append(given)
        launch(*given, **named)

    gathered_matmul.launch = noted  # type: ignore[assignment, unused-ignore]
    for number, kind in enumerate(KINDS, start=1):
        op = made(kind, fused=True)
        assert len(launched) == number
        way: Any = op._way
        assert way._state.tolist() == arrival_flags.new_state(way._state.device).tolist()
        assert not way._ranks[way._rank].flags.any()
        assert not way._ranks[way._rank].finished.any()
    distributed.barrier()
    turn(op, KINDS[-1], seed)


def sequence(seed: int) -> None:
    """The way without symmetric memory."""
    for kind in KINDS:
        op = made(kind, fused=False)
        assert not op.fused
        for i in range(2):
            turn(op, kind, seed + i)


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
