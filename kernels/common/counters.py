"""Counters by which the programs that share a tile find out which of them is the last.

A kernel that counts leaves its counters at zero, so they are allocated once and lent again and
again. Each stream has counters of its own, because its kernels run one after another. Each capture
of a CUDA graph gets counters that nobody else gets, because graphs of one stream may be replayed at
the same time.
"""

from typing import Final

import torch

from kernels.common.replay import forbid_replay

_COUNTERS_OF_A_STREAM: Final = 1 << 14  # more than a product has tiles
_COUNTERS_OF_ALL_GRAPHS: Final = 1 << 18
_by_stream: dict[tuple[torch.device, int], torch.Tensor] = {}
_left_for_graphs: dict[torch.device, list[torch.Tensor]] = {}  # a list of one tensor


def zeroed_counters(count: int, device: torch.device) -> torch.Tensor:
    """`count` zeros (int32) for one launch on the current stream, which must leave zeros.

    Who calls this is not replayed (kernels.common.replay): the counters belong to a stream.
    """
    forbid_replay()
    if device.type != "cuda" or count > _COUNTERS_OF_A_STREAM:
        return torch.zeros(count, dtype=torch.int32, device=device)
    if torch.cuda.is_current_stream_capturing():
        return _counters_of_graph(count, device)
    if device not in _left_for_graphs:  # nothing can be allocated while a graph is captured
        _left_for_graphs[device] = [
            torch.zeros(_COUNTERS_OF_ALL_GRAPHS, dtype=torch.int32, device=device)
        ]
        torch.cuda.synchronize(device)
    key = (device, torch.cuda.current_stream(device).cuda_stream)
    if key not in _by_stream:
        _by_stream[key] = torch.zeros(_COUNTERS_OF_A_STREAM, dtype=torch.int32, device=device)
    return _by_stream[key][:count]


def _counters_of_graph(count: int, device: torch.device) -> torch.Tensor:
    """Counters that are never lent again; the graph zeroes them itself once none are left."""
    left = _left_for_graphs.get(device, [])
    count = -(-count // 4) * 4  # the next ones begin at 16 bytes, too: else kernels compile anew
    if not left or left[0].numel() < count:
        return torch.zeros(count, dtype=torch.int32, device=device)
    lent, left[0] = left[0][:count], left[0][count:]
    return lent
