"""Where blocks that sum the same tile meet, and how those of most kernels end.

The last block to arrive adds all parts of K, in order (`finish`). Blocks of
kernels.int4.specialised exchange their sums or hand them on, and wait for them; the counters of a
workspace are their flags.

A product touches its workspace only after the kernel before it on its stream has ended, chained
launches included, so kernels of one stream can share one. Products that run at the same time in one
workspace give wrong sums or never end, and leave it unusable: allocate a new one then. `cached`
keeps one for every stream, and one for all captured graphs.

No float is added by an atomic, so equal inputs give equal bits. Counters end at zero, as they
began: a captured CUDA graph can be replayed again and again, but not at the same time as another
user of its workspace.
"""

from dataclasses import dataclass
from typing import Final

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

_LEAST_PARTIALS: Final = 1 << 20  # 4 MiB of fp32
_LEAST_COUNTERS: Final = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """partials: fp32, any content; counters: int32, zero before and after every product."""

    partials: torch.Tensor
    counters: torch.Tensor

    def fits(self, partials: int, counters: int) -> bool:
        """Whether a product that needs so many elements can use it."""
        return self.partials.numel() >= partials and self.counters.numel() >= counters


def allocate(partials: int, counters: int, device: torch.device) -> Workspace:
    """A workspace of at least that many elements, rounded up to a power of two.

    Its counters are zeroed on the current stream: another stream must wait for that.
    """
    partials = triton.next_power_of_2(max(partials, _LEAST_PARTIALS))
    counters = triton.next_power_of_2(max(counters, _LEAST_COUNTERS))
    return Workspace(
        partials=torch.empty(partials, dtype=torch.float32, device=device),
        counters=torch.zeros(counters, dtype=torch.int32, device=device),
    )


_OF_GRAPHS: Final = -1  # in place of a stream
_CACHED: Final[dict[tuple[torch.device, int], list[Workspace]]] = {}


def cached(partials: int, counters: int, device: torch.device) -> Workspace:
    """The workspace of the current stream, or during a capture that of all captured graphs.

    It is made or enlarged on first need and then kept. An outgrown one is kept too: a CUDA graph
    captured before may still write to it. Graphs that are replayed at the same time, and branches
    of one that run at the same time, must be captured with workspaces of their own.

    Raises RuntimeError during a capture if the one of graphs is too small, because memory allocated
    then would belong to the graph. A call for the same sizes outside of a capture, on any stream,
    makes one that is large enough.
    """
    is_cuda = device.type == "cuda"
    is_captured = is_cuda and torch.cuda.is_current_stream_capturing()
    stream = _current_stream(device) if is_cuda and not is_captured else 0
    workspaces = _CACHED.setdefault((device, _OF_GRAPHS if is_captured else stream), [])
    for workspace in workspaces:
        if workspace.fits(partials, counters):
            return workspace
    if is_captured:
        raise RuntimeError(
            f"a product needs a workspace of {partials} sums and {counters} counters during a "
            "CUDA graph capture; call it once before the capture, or hand in a workspace"
        )
    workspaces.append(allocate(partials, counters, device))
    if is_cuda:
        of_graphs = _CACHED.setdefault((device, _OF_GRAPHS), [])
        if not any(workspace.fits(partials, counters) for workspace in of_graphs):
            of_graphs.append(allocate(partials, counters, device))
            torch.cuda.synchronize(device)  # a graph may be replayed on any stream
    return workspaces[-1]


def _current_stream(device: torch.device) -> int:
    """The address of the device's current stream."""
    stream: int = torch.cuda.current_stream(device).cuda_stream
    return stream


@gluon.jit
def finish(y, place, target, inside, partials, counters, SIZE: gl.constexpr, SPLIT: gl.constexpr):
    """Store y to `target` where `inside`; y is a part of the sum where SPLIT is above 1.

    place   offset of each element in a block's part of `partials`, SIZE elements
    """
    if SPLIT == 1:
        gl.store(target, y.to(target.dtype.element_ty), mask=inside)
    else:
        block = gl.program_id(0) * gl.num_programs(1) + gl.program_id(1)
        own = partials + block * (SPLIT * SIZE) + place
        gl.store(own + gl.program_id(2) * SIZE, y)
        gl.thread_barrier()
        arrived = gl.atomic_add(counters + block, 1, sem="acq_rel", scope="gpu")
        if arrived == SPLIT - 1:
            total = gl.load(own, cache_modifier=".cg")
            if SIZE <= 8192:  # all loads in flight at once
                for other in gl.static_range(1, SPLIT):
                    total += gl.load(own + other * SIZE, cache_modifier=".cg")
            else:  # there are no registers for that
                for other in range(1, SPLIT):
                    total += gl.load(own + other * SIZE, cache_modifier=".cg")
            gl.store(target, total.to(target.dtype.element_ty), mask=inside)
            gl.store(counters + block, 0)
