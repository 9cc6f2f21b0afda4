"""What lies where in the memory of a rank that its peers write to."""

from dataclasses import dataclass
from typing import Final

import torch

from kernels.gather.configs import FLAG_SPACING, Chunks
from kernels.gather.model import Gathered

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
