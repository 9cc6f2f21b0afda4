"""Counters by which the programs that share a tile find out who is last.

A kernel that counts leaves its counters at zero, so they are made once and lent again and again:
per stream, whose kernels run one after another; and to every capture of a CUDA graph counters that
no one else gets, because graphs of one stream may be replayed at once.
"""

from typing import Final

import torch

_LENT_TO_STREAM: Final = 1 << 14  # counters; tiles of a product are fewer
_LENT_TO_GRAPHS: Final = 1 << 18
_of_streams: dict[tuple[torch.device, int], torch.Tensor] = {}
_of_graphs: dict[torch.device, list[torch.Tensor]] = {}  # what is left, in one piece


def zeroed_counters(count: int, device: torch.device) -> torch.Tensor:
    """`count` zeros (int32) for one launch on the current stream, which must leave zeros."""
    if device.type != "cuda" or count > _LENT_TO_STREAM:
        return torch.zeros(count, dtype=torch.int32, device=device)
    if torch.cuda.is_current_stream_capturing():
        return _for_graph(count, device)
    if device not in _of_graphs:  # cannot be made while a graph is captured
        _of_graphs[device] = [torch.zeros(_LENT_TO_GRAPHS, dtype=torch.int32, device=device)]
        torch.cuda.synchronize(device)
    key = (device, torch.cuda.current_stream(device).cuda_stream)
    if key not in _of_streams:
        _of_streams[key] = torch.zeros(_LENT_TO_STREAM, dtype=torch.int32, device=device)
    return _of_streams[key][:count]


def _for_graph(count: int, device: torch.device) -> torch.Tensor:
    """Counters that are never lent again; zeroed by the graph itself once none are left."""
    left = _of_graphs.get(device, [])
    if not left or left[0].numel() < count:
        return torch.zeros(count, dtype=torch.int32, device=device)
    lent, left[0] = left[0][:count], left[0][count:]
    return lent
