"""How a rank's shard gets into the buffers of its peers: by copy engines, on side streams.

torch copies contiguous tensors of one type with cudaMemcpyAsync (its ATen/native/cuda/Copy.cu);
where the target is a peer's memory, a copy engine does it and no SM is needed. That holds for the
flags too: after each chunk, four bytes, the number of the turn, are copied from this rank's state
into the peer's flag. A kernel could not publish them: it might wait for an SM until the product has
ended that waits for it. A stream write of a constant could, but not in a graph that is replayed,
where the number grows.

Order: to r - 1, r - 2, ..., so that at any time every rank sends to one peer and receives from one.
Consecutive chunks go to the streams in turns: the flag of one travels while the next moves.
"""

from collections.abc import Iterator

import torch

from kernels.all_gather_configs import Chunks
from kernels.gather_layout import Slots

Copy = tuple[torch.Tensor, torch.Tensor]  # (target, source)


def peers_of(rank: int, world: int) -> list[int]:
    """Whom a rank pushes to, first to last: reverse ring order."""
    return [(rank - step) % world for step in range(1, world)]


def copies_of(
    ranks: tuple[Slots, ...], state: torch.Tensor, cut: Chunks, *, rank: int, buffer: int
) -> Iterator[tuple[Copy, ...]]:
    """The copies of each chunk to each peer, in order: rows, scales, and at last the flag."""
    own = ranks[rank]
    for peer in peers_of(rank, len(ranks)):
        for chunk in range(cut.count):
            first, end = (rank * cut.shard_rows + row for row in cut.rows(chunk))
            pairs = [(ranks[peer].rows[buffer], own.rows[buffer])]
            if own.scales:
                pairs.append((ranks[peer].scales[buffer], own.scales[buffer]))
            copies = [(target[first:end], source[first:end]) for target, source in pairs]
            yield (*copies, (ranks[peer].flags[rank, chunk, :1], state[:1]))


class Pushes:
    """The pushes of one rank, made once and started in every turn."""

    def __init__(
        self, ranks: tuple[Slots, ...], state: torch.Tensor, cut: Chunks, *, rank: int, streams: int
    ) -> None:
        """streams: that push; on a CPU, for Triton's interpreter, there are none."""
        self._streams = tuple(
            torch.cuda.Stream(state.device, priority=-1) for _ in range(streams * state.is_cuda)
        )
        self._copies = tuple(
            tuple(copies_of(ranks, state, cut, rank=rank, buffer=buffer))
            for buffer in range(len(ranks[rank].rows))
        )

    def start(self, buffer: int) -> None:
        """Push the own shard, after what is on the current stream; returns at once."""
        if not self._streams:
            for copies in self._copies[buffer]:
                _copy(copies)
            return
        current = torch.cuda.current_stream()
        for stream in self._streams:
            stream.wait_stream(current)
        try:
            for i, copies in enumerate(self._copies[buffer]):
                torch.cuda.set_stream(self._streams[i % len(self._streams)])
                _copy(copies)
        finally:
            torch.cuda.set_stream(current)

    def join(self) -> None:
        """Let the current stream wait for all pushes."""
        for stream in self._streams:
            torch.cuda.current_stream().wait_stream(stream)


def _copy(copies: tuple[Copy, ...]) -> None:
    for target, source in copies:
        target.copy_(source)
