"""Memory in which the splits of a product over K meet.

Kernels of one stream can share a workspace, because they run one after another. Products that may
run at the same time (two streams, two graphs replayed together) need one each.
"""

from dataclasses import dataclass
from typing import Final

import torch

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
    """A workspace of at least that many elements, rounded up to a power of two."""
    return Workspace(
        partials=torch.empty(
            _rounded(partials, _LEAST_PARTIALS), dtype=torch.float32, device=device
        ),
        counters=torch.zeros(_rounded(counters, _LEAST_COUNTERS), dtype=torch.int32, device=device),
    )


_CACHED: Final[dict[torch.device, list[Workspace]]] = {}


def cached(partials: int, counters: int, device: torch.device) -> Workspace:
    """The device's own workspace, made or enlarged on first need and then kept.

    An outgrown one is kept too: a CUDA graph captured before may still write to it. Raises
    RuntimeError where it would have to be made during a capture, whose memory is not its own.
    """
    known = _CACHED.setdefault(device, [])
    for workspace in known:
        if workspace.fits(partials, counters):
            return workspace
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            f"a product needs a workspace of {partials} sums and {counters} counters during a "
            "CUDA graph capture; call it once before the capture, or hand in a workspace"
        )
    known.append(allocate(partials, counters, device))
    return known[-1]


def _rounded(wanted: int, least: int) -> int:
    return max(least, 1 << max(0, wanted - 1).bit_length())
