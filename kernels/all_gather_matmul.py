"""All-gather and matmul in one: the product begins while the rows of other ranks still travel.

    C[world * shard, N] bf16 = (gathered A [world * shard, K] @ W[N, K].T) * scale_a * scale_b

Every rank holds a shard of A's rows, and its own W. The producer of A writes into `own_shard()`, a
slot of a buffer that all ranks can address; a call pushes the slot to the peers by copy engines
(kernels.shard_pushes) while a persistent kernel multiplies what has arrived
(kernels.gathered_matmul). Why no barrier is needed says kernels.arrival_flags.

Pushes are issued before the product: whatever blocks the host in between (a module that is loaded,
memory that is taken back from a cache), no peer waits for what has not been issued.

Small shards gain nothing and go by NCCL's all-gather and a library's product instead:
kernels.all_gather_model says which.
"""

from dataclasses import dataclass
from typing import Final

import torch
from torch import distributed

from kernels import all_gather_configs, arrival_flags, gathered_matmul, gemm_configs
from kernels.all_gather_configs import FLAG_SPACING, LEAST_TILE_ROWS, Chunks
from kernels.all_gather_model import Gathered, is_fused_faster
from kernels.fp8_operands import new_output
from kernels.fp8_scales import compute_units
from kernels.gather_operands import check_sizes, check_weights
from kernels.gemm_configs import GemmConfig
from kernels.shard_pushes import Pushes, Slots
from kernels.symmetric_memory import SymmetricMemory, allocate

_PAGE: Final = 1024  # bytes; every part of the allocation begins at a multiple


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What is chosen by the sizes where it is None.

    tile     of the product
    chunks   that a shard is cut into, at most
    streams  that push
    """

    tile: GemmConfig | None = None
    chunks: int | None = None
    streams: int | None = None


class AllGatherMatmul:
    """A collective: all ranks of the group make it with the same sizes, and call it equally often.

    A call may be captured in a CUDA graph, any number of times, and mixed with eager calls. Calls
    of one object must follow each other: on one stream, or on streams that wait for each other.
    Raises ValueError for sizes or types that it does not take, before any rank waits for another,
    and NoPeerAccess (kernels.symmetric_memory) where ranks cannot address each other's memory.
    """

    def __init__(
        self,
        group: distributed.ProcessGroup,
        shard_rows: int,
        k: int,
        n: int,
        dtype: torch.dtype,
        *,
        scaled: bool = False,
        buffers: int = 2,
        fused: bool | None = None,
        tuning: Tuning | None = None,
    ) -> None:
        """shard_rows: of each rank; scaled: rows and columns have scales, as fp8 needs.

        fused: whether the product follows arrival; None: where kernels.all_gather_model expects it
        to be faster. buffers: that take turns, two at least.
        """
        check_sizes(shard_rows, k, n, dtype, scaled=scaled, buffers=buffers)
        self.what = Gathered(world=group.size(), shard_rows=shard_rows, k=k, n=n, dtype=dtype)
        if fused and shard_rows < LEAST_TILE_ROWS:
            raise ValueError(
                f"shard_rows: wanted at least {LEAST_TILE_ROWS} with fused=True, got {shard_rows}"
            )
        if fused is None:
            fused = shard_rows >= LEAST_TILE_ROWS and is_fused_faster(self.what)
        self.fused = fused
        ways = _Fused if fused else _Sequence
        self._way: _Fused | _Sequence = ways(
            group, self.what, buffers=buffers, tuning=tuning or Tuning()
        )
        self._scaled = scaled

    def own_shard(self) -> torch.Tensor:
        """[shard_rows, k], into which this rank's rows of the next call are written.

        It belongs to that call alone: after it, ask again.
        """
        return self._way.own_rows()

    def own_scales(self) -> torch.Tensor | None:
        """[shard_rows, 1] fp32, the scales of these rows; None without scales."""
        return self._way.own_scales()[:, None] if self._scaled else None

    def __call__(
        self, weights: torch.Tensor, weight_scales: torch.Tensor | None = None
    ) -> torch.Tensor:
        """C [world * shard_rows, n] bf16 of weights [n, k] and their scales [1, n]; collective.

        Raises ValueError, before anything runs, for weights or scales that do not fit.
        """
        device = self._way.own_rows().device
        check_weights(self.what, weights, weight_scales, scaled=self._scaled, device=device)
        return self._way.multiplied(weights, weight_scales)


class _Sequence:
    """NCCL's all-gather, in place, and then a library's product."""

    def __init__(
        self, group: distributed.ProcessGroup, what: Gathered, *, buffers: int, tuning: Tuning
    ) -> None:
        del buffers, tuning  # one buffer: the stream orders its uses
        device = torch.device("cpu")
        if torch.cuda.is_available():
            device = torch.device("cuda", torch.cuda.current_device())
        rows = what.world * what.shard_rows
        self._group = group
        self._rows = torch.zeros(rows, what.k, dtype=what.dtype, device=device)
        self._scales = torch.zeros(rows, dtype=torch.float32, device=device)
        first = group.rank() * what.shard_rows
        self._own = slice(first, first + what.shard_rows)

    def own_rows(self) -> torch.Tensor:
        return self._rows[self._own]

    def own_scales(self) -> torch.Tensor:
        return self._scales[self._own]

    def multiplied(self, weights: torch.Tensor, scales: torch.Tensor | None) -> torch.Tensor:
        self._gather(self._rows.view(torch.uint8))  # NCCL need not know fp8
        if scales is None:
            return torch.mm(self._rows, weights.t()).to(torch.bfloat16)
        self._gather(self._scales)
        return torch._scaled_mm(
            self._rows,
            weights.t(),
            scale_a=self._scales[:, None],
            scale_b=scales.reshape(1, -1),
            out_dtype=torch.bfloat16,
            use_fast_accum=True,
        )

    def _gather(self, x: torch.Tensor) -> None:
        distributed.all_gather_into_tensor(x, x[self._own], group=self._group)


class _Fused:
    """The product that follows arrival."""

    def __init__(
        self, group: distributed.ProcessGroup, what: Gathered, *, buffers: int, tuning: Tuning
    ) -> None:
        self._rank, self._buffers, self._next = group.rank(), buffers, 0
        self._tile = tuning.tile or _tile_of(what)
        wanted = tuning.chunks or all_gather_configs.chunks_wanted(what.shard_bytes)
        self._cut = all_gather_configs.chunks_of(what.shard_rows, self._tile.m, wanted)
        layout = _Layout(what, self._cut, buffers)
        memory = allocate(layout.size_bytes, group)
        self._memory = memory
        device = memory.views[self._rank].device
        self._state = arrival_flags.new_state(device)
        self._ranks = tuple(layout.slots(view) for view in memory.views)
        self._finished = layout.finished(memory.views[self._rank])
        self._finished_of_peers = _addresses(layout, memory, self._rank)
        streams = tuning.streams or all_gather_configs.PUSH.streams
        self._pushes = Pushes(self._ranks, self._state, self._cut, rank=self._rank, streams=streams)
        self._what = what

    def own_rows(self) -> torch.Tensor:
        return self._ranks[self._rank].rows[self._next][self._own()]

    def own_scales(self) -> torch.Tensor:
        return self._ranks[self._rank].scales[self._next][self._own()]

    def _own(self) -> slice:
        first = self._rank * self._what.shard_rows
        return slice(first, first + self._what.shard_rows)

    def multiplied(self, weights: torch.Tensor, scales: torch.Tensor | None) -> torch.Tensor:
        own, buffer = self._ranks[self._rank], self._next
        self._next = (buffer + 1) % self._buffers
        rows = own.rows[buffer]
        c = new_output(rows, weights)
        arrival_flags.begin(
            *(self._state, own.flags, self._finished, self._finished_of_peers),
            buffer=buffer,
            rank=self._rank,
            chunks=self._cut.count,
        )
        self._pushes.start(buffer)
        by = None if scales is None else (own.scales[buffer], scales)
        gathered_matmul.launch(
            *(rows, weights, c, by, own.flags, self._state, self._cut, self._tile),
            rank=self._rank,
        )
        self._pushes.join()
        return c


class _Layout:
    """Where parts of a rank's allocation lie: flags, finished, then rows and scales by buffer."""

    def __init__(self, what: Gathered, cut: Chunks, buffers: int) -> None:
        rows = what.world * what.shard_rows
        scaled = what.dtype.itemsize == 1
        self._flags = (what.world, cut.count, FLAG_SPACING)
        self._finished = (what.world, FLAG_SPACING)
        self._rows, self._dtype = (rows, what.k), what.dtype
        sizes = [4 * cut.count * FLAG_SPACING * what.world, 4 * FLAG_SPACING * what.world]
        for _ in range(buffers):
            sizes += [rows * what.k * what.dtype.itemsize, 4 * rows if scaled else 0]
        self._parts, begin = [], 0
        for size in sizes:
            self._parts.append(slice(begin, begin + size))
            begin += -(-size // _PAGE) * _PAGE
        self.size_bytes = begin

    def slots(self, view: torch.Tensor) -> Slots:
        parts = self._parts
        scales = [view[part].view(torch.float32) for part in parts[3::2] if part.stop > part.start]
        return Slots(
            rows=tuple(view[part].view(self._dtype).view(self._rows) for part in parts[2::2]),
            scales=tuple(scales),
            flags=view[parts[0]].view(torch.int32).view(self._flags),
        )

    def finished(self, view: torch.Tensor) -> torch.Tensor:
        return view[self._parts[1]].view(torch.int32).view(self._finished)


def _addresses(layout: _Layout, memory: SymmetricMemory, rank: int) -> torch.Tensor:
    """Of this rank's `finished` flag in every rank's memory."""
    flags = [layout.finished(view)[rank] for view in memory.views]
    return torch.tensor([flag.data_ptr() for flag in flags], device=flags[rank].device)


def _tile_of(what: Gathered) -> GemmConfig:
    """The tile of the least predicted time among those that fit into a shard."""
    table = all_gather_configs.NARROW if what.dtype.itemsize == 1 else all_gather_configs.WIDE
    fitting = [tile for tile in table if tile.m <= what.shard_rows]
    units = compute_units(torch.empty(0, device="cuda"))
    return gemm_configs.choose(fitting, what.world * what.shard_rows, what.n, units)
