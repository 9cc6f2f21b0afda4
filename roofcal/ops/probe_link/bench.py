"""Collectives by NCCL or gloo, and by symmetric memory without multicast.

symm_mem     all_gather: copies from every peer by copy engine, between two barriers on the device;
             reduce_scatter: torch.ops.symm_mem.reduce_scatter_out; all_reduce: one_shot_all_reduce
             up to 256 KiB, two_shot_all_reduce_out above; copy_engine_peer: one copy, no barrier.
             Buffers are filled before timing: no copy of the input into them is timed. torch's sums
             may leave a part of theirs in the buffer: it grows until bf16 rounds away what is added
nccl, gloo   torch.distributed. Repeated sums in place would grow beyond all bounds: NCCL's
             all_reduce takes the mean; gloo's sums a copy, and that copy is timed

A call returns {kind of value: tensor}, so that a sum is never checked as a mean.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import distributed

from roofcal.ops.bench import (
    Call,
    Inputs,
    all_gather,
    draw,
    gathered,
    norm_error,
    require_peer_access,
)
from roofcal.ops.spec import Unsupported

_ONE_SHOT_BYTES: Final = 256 << 10
_SUM_TOLERANCE: Final = 1e-2  # bf16 sums of up to eight values, rounded at every step of a ring
# torch 2.13 has renamed it, and warns of the old name.
_reduce_scatter = getattr(distributed, "reduce_scatter_single", distributed.reduce_scatter_tensor)


def make_inputs(
    recipe: str, shape: Mapping[str, int], generator: torch.Generator, distribution: str
) -> dict[str, torch.Tensor]:
    """x: this rank's bf16 values; a share of size_bytes for all_gather, else all of them.

    all_reduce, which may overwrite x, is checked by `drawn`, its first values.
    """
    count = shape["size_bytes"] // 2
    if recipe == "all_gather":
        count //= distributed.get_world_size()
    x = draw(generator, distribution, count)
    return {"x": x, "drawn": x.clone()} if recipe == "all_reduce" else {"x": x}


def build(provider: str, recipe: str, shape: Mapping[str, int]) -> Call:
    """The collective; raises Unsupported where the provider has none."""
    if provider == "symm_mem":
        require_peer_access(provider)
        return _Symmetric(recipe, shape)
    if provider not in ("nccl", "gloo"):
        raise Unsupported(f"unknown provider '{provider}' for op probe_link")
    if recipe == "copy_engine_peer":
        raise Unsupported(f"{provider} has no copy by copy engine: its sends run on compute units")
    if recipe == "all_reduce":
        return _mean_in_place if provider == "nccl" else _sum_of_copy
    return _gather if recipe == "all_gather" else _scatter


def _gather(inputs: Inputs) -> dict[str, torch.Tensor]:
    x = inputs["x"]
    out = x.new_empty(distributed.get_world_size() * len(x))
    all_gather(out, x)
    return {"gathered": out}


def _scatter(inputs: Inputs) -> dict[str, torch.Tensor]:
    x = inputs["x"]
    out = x.new_empty(len(x) // distributed.get_world_size())
    _reduce_scatter(out, x)
    return {"part of sum": out}


def _mean_in_place(inputs: Inputs) -> dict[str, torch.Tensor]:
    """The input is the mean from the second call on, and stays it."""
    distributed.all_reduce(inputs["x"], distributed.ReduceOp.AVG)
    return {"mean": inputs["x"]}


def _sum_of_copy(inputs: Inputs) -> dict[str, torch.Tensor]:
    out = inputs["x"].clone()
    distributed.all_reduce(out)
    return {"sum": out}


class _Symmetric:
    """A collective over a buffer that all ranks can address, filled by the first call."""

    def __init__(self, recipe: str, shape: Mapping[str, int]) -> None:
        from torch.distributed import _symmetric_memory as symmetric  # noqa: PLC0415 (GPUs alone)

        group = distributed.group.WORLD
        assert group is not None
        self._world, self._rank = distributed.get_world_size(), distributed.get_rank()
        self._name, self._size = group.group_name, shape["size_bytes"]
        count = self._size // 2 // (self._world if recipe == "all_gather" else 1)
        own = torch.device("cuda", torch.cuda.current_device())
        self._x = symmetric.empty(count, dtype=torch.bfloat16, device=own)
        self._memory = symmetric.rendezvous(self._x, group)
        self._filled = recipe == "copy_engine_peer"  # the previous rank fills it
        self._run = self._collective(recipe)

    def _collective(self, recipe: str) -> Callable[[Inputs], dict[str, torch.Tensor]]:
        if recipe == "copy_engine_peer":
            self._next = self._view((self._rank + 1) % self._world)
            return self._copy_to_next
        if recipe == "all_gather":
            turns = [(self._rank + step) % self._world for step in range(self._world)]
            self._views = [(rank, self._view(rank)) for rank in turns]
            return self._copy_from_all
        if recipe == "reduce_scatter":
            self._op = _torch_op("reduce_scatter_out")
            return self._scatter
        small = self._size <= _ONE_SHOT_BYTES
        self._op = _torch_op("one_shot_all_reduce_out" if small else "two_shot_all_reduce_out")
        return self._reduce

    def _view(self, rank: int) -> torch.Tensor:
        return self._memory.get_buffer(rank, self._x.shape, self._x.dtype)

    def __call__(self, inputs: Inputs) -> dict[str, torch.Tensor]:
        if not self._filled:
            self._x.copy_(inputs["x"])
            self._filled = True
            torch.cuda.synchronize()
            distributed.barrier()
        return self._run(inputs)

    def _copy_to_next(self, inputs: Inputs) -> dict[str, torch.Tensor]:
        self._next.copy_(inputs["x"])
        return {"previous rank's": self._x}

    def _copy_from_all(self, _: Inputs) -> dict[str, torch.Tensor]:
        out = self._x.new_empty(self._world, len(self._x))
        self._memory.barrier()
        for rank, view in self._views:
            out[rank].copy_(view)
        self._memory.barrier()
        return {"gathered": out.view(-1)}

    def _scatter(self, _: Inputs) -> dict[str, torch.Tensor]:
        out = self._x.new_empty(len(self._x) // self._world)
        self._op(self._x, self._name, False, out)
        return {"part of sum": out}

    def _reduce(self, _: Inputs) -> dict[str, torch.Tensor]:
        out = torch.empty_like(self._x)
        self._op(self._x, "sum", self._name, out)
        return {"sum": out}


def _torch_op(name: str) -> Callable[..., Any]:
    if not hasattr(torch.ops.symm_mem, name):
        raise Unsupported(f"torch {torch.__version__} has no torch.ops.symm_mem.{name}")
    op: Callable[..., Any] = getattr(torch.ops.symm_mem, name)
    return op


def relative_error(recipe: str, inputs: Inputs, output: Any) -> float:
    """Error against the inputs of all ranks, summed in float32; the key says what was computed."""
    ((kind, values),) = output.items()
    world, rank = distributed.get_world_size(), distributed.get_rank()
    all_rows = gathered(inputs.get("drawn", inputs["x"])).view(world, -1)
    expected = {
        "gathered": lambda: all_rows.view(-1),
        "previous rank's": lambda: all_rows[(rank - 1) % world],
        "sum": lambda: _sum_of_rows(all_rows),
        "mean": lambda: _sum_of_rows(all_rows) / world,
        "part of sum": lambda: _sum_of_rows(all_rows).chunk(world)[rank],
    }[kind]()
    return norm_error(values, expected)


def _sum_of_rows(rows: torch.Tensor) -> torch.Tensor:
    """One after the other: eight vectors of 1 GiB in float32 at once are too many."""
    total = torch.zeros_like(rows[0], dtype=torch.float32)
    for row in rows:
        total += row
    return total


def tolerance(recipe: str) -> float:
    """Copies are exact, sums round."""
    return _SUM_TOLERANCE if recipe in ("reduce_scatter", "all_reduce") else 0.0
