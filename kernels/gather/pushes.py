"""How a rank's shard gets into the buffers of its peers: by copy engines, on a side stream.

`Layout` says what lies where in the memory of a rank that its peers write to.

torch copies contiguous tensors of one type with cudaMemcpyAsync (its ATen/native/cuda/Copy.cu);
where the target is a peer's memory, a copy engine does it and no SM is needed. That holds for the
flags too: after each chunk, four bytes, the number of the turn, are copied from this rank's state
into the peer's flag. A kernel could not publish them: it might wait for an SM until the product has
ended that waits for it. A stream write of a constant could, but not in a graph that is replayed,
where the number grows.

Order: to r - 1, r - 2, ..., so that at any time every rank sends to one peer and receives from one.
All on one stream: a second one, for chunks in turns, made no shape faster on 2 H200s and cost 60 us
of 180 on 4 (8192 x 1792 x 4096 in fp8, four chunks). Every copy costs about 3 us, however small.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch

from kernels.gather.flags import FLAG_SPACING
from kernels.gather.plans import Chunks, Gathered

Copy = tuple[torch.Tensor, torch.Tensor]  # (target, source)
_ALIGNMENT: Final = 1024  # bytes; every part begins at a multiple


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """A rank's memory, as seen from one rank.

    rows      of each buffer, [world * shard, K]
    scales    of each buffer, [world * shard] fp32; empty where rows have none
    flags     of chunks that have arrived, [world, chunks, FLAG_SPACING] int32
    finished  flags of turns that peers have finished, [world, FLAG_SPACING] int32
    """

    rows: tuple[torch.Tensor, ...]
    scales: tuple[torch.Tensor, ...]
    flags: torch.Tensor
    finished: torch.Tensor


class Layout:
    """The parts in order: flags, finished, then of each buffer rows and scales."""

    def __init__(self, what: Gathered, cut: Chunks, buffers: int) -> None:
        self._what, self._chunks = what, cut.count
        flags = 4 * FLAG_SPACING * what.world
        rows = what.world * what.shard_rows * what.k * what.dtype.itemsize
        scales = what.world * what.shard_bytes - rows
        self._parts: list[slice] = []
        begin = 0
        for size in (flags * cut.count, flags, *(rows, scales) * buffers):
            self._parts.append(slice(begin, begin + size))
            begin += -(-size // _ALIGNMENT) * _ALIGNMENT
        self.size_bytes = begin

    def slots(self, view: torch.Tensor) -> Slots:
        """The parts of a rank's bytes."""
        what = self._what
        flags, finished, *buffers = (view[part] for part in self._parts)
        rows = [part.view(what.dtype).view(-1, what.k) for part in buffers[::2]]
        scales = [part.view(torch.float32) for part in buffers[1::2] if part.numel()]
        return Slots(
            rows=tuple(rows),
            scales=tuple(scales),
            flags=flags.view(torch.int32).view(what.world, self._chunks, FLAG_SPACING),
            finished=finished.view(torch.int32).view(what.world, FLAG_SPACING),
        )


def peers_of(rank: int, world: int) -> list[int]:
    """Whom a rank pushes to, first to last: reverse ring order."""
    return [(rank - step) % world for step in range(1, world)]


def copies_of(
    ranks: tuple[Slots, ...], state: torch.Tensor, cut: Chunks, *, rank: int, buffer: int
) -> Iterator[tuple[Copy, ...]]:
    """The copies of each chunk to each peer, in order: rows, and at last the flag.

    The first chunk brings the scales of all rows: a copy per peer, not per chunk.
    """
    own, start = ranks[rank], rank * cut.shard_rows
    for peer in peers_of(rank, len(ranks)):
        for chunk in range(cut.count):
            first, end = (start + row for row in cut.rows(chunk))
            copies = [(ranks[peer].rows[buffer][first:end], own.rows[buffer][first:end])]
            if own.scales and chunk == 0:
                shard = slice(start, start + cut.shard_rows)
                copies.append((ranks[peer].scales[buffer][shard], own.scales[buffer][shard]))
            yield (*copies, (ranks[peer].flags[rank, chunk, :1], state[:1]))


class Pushes:
    """The pushes of one rank, made once and started in every turn."""

    def __init__(
        self, ranks: tuple[Slots, ...], state: torch.Tensor, cut: Chunks, *, rank: int
    ) -> None:
        """On a CPU, for Triton's interpreter, there is no stream."""
        self._stream = torch.cuda.Stream(state.device, priority=-1) if state.is_cuda else None
        self._copies = tuple(
            tuple(copies_of(ranks, state, cut, rank=rank, buffer=buffer))
            for buffer in range(len(ranks[rank].rows))
        )

    def start(self, buffer: int) -> None:
        """Push the own shard, after what is on the current stream; returns at once."""
        if self._stream is None:
            self._push(buffer)
            return
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            self._push(buffer)

    def join(self) -> None:
        """Let the current stream wait for all pushes."""
        if self._stream is not None:
            torch.cuda.current_stream().wait_stream(self._stream)

    def _push(self, buffer: int) -> None:
        for copies in self._copies[buffer]:
            for target, source in copies:
                target.copy_(source)
