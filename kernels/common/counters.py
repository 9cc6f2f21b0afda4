"""Counters by which programs that share a tile find out which of them is the last, or which came.

A kernel that counts leaves its counters at zero, so they are allocated once and lent again and
again: to all kernels of a stream, because these run one after another, and to all that a stream
launches during a capture of a CUDA graph. Streams and graphs may run at the same time, so no two of
them share counters. If each launch of a graph had counters of its own, its first atomic would wait
for memory, 1.5 us on an H100; those that the graph has just used lie in the L2 cache.
"""

import ctypes
import itertools
import threading
from functools import cache
from typing import Any, Final

import torch

from kernels.common.architecture import is_amd_build
from kernels.common.replay import forbid_replay

_COUNTERS_OF_A_STREAM: Final = 1 << 14  # more than a product has tiles
_COUNTERS_OF_ALL_GRAPHS: Final = 1 << 18
_by_stream: dict[tuple[torch.device, int], torch.Tensor] = {}
_LAUNCHES: Final = itertools.count()
_left_for_graphs: dict[torch.device, torch.Tensor] = {}
_lending = threading.Lock()  # threads may capture at once
_of_captures: dict[tuple[torch.device, int], tuple[int, torch.Tensor]] = {}


def zeroed_counters(count: int, device: torch.device) -> torch.Tensor:
    """`count` zeros (int32) for one launch on the current stream, which must leave zeros.

    Who calls this is not replayed (kernels.common.replay): the counters belong to a stream.
    """
    forbid_replay()
    if device.type != "cuda" or count > _COUNTERS_OF_A_STREAM:
        return torch.zeros(count, dtype=torch.int32, device=device)
    stream = torch.cuda.current_stream(device).cuda_stream
    if torch.cuda.is_current_stream_capturing():
        return _counters_of_capture(count, device, stream)
    if device not in _left_for_graphs:  # nothing can be allocated while a graph is captured
        _left_for_graphs[device] = torch.zeros(
            _COUNTERS_OF_ALL_GRAPHS, dtype=torch.int32, device=device
        )
        torch.cuda.synchronize(device)
    key = (device, stream)
    if key not in _by_stream:
        _by_stream[key] = torch.zeros(_COUNTERS_OF_A_STREAM, dtype=torch.int32, device=device)
    return _by_stream[key][:count]


def _counters_of_capture(count: int, device: torch.device, stream: int) -> torch.Tensor:
    """Counters that nobody but this stream gets, and only during this capture."""
    key, capture = (device, stream), _capture_number(stream)
    last, lent = _of_captures.get(key, (None, None))
    if lent is None or last != capture or lent.numel() < count:
        most = -(-count // 4) * 4  # the next ones begin at 16 bytes, too: else kernels compile anew
        with _lending:  # for ever
            left = _left_for_graphs.get(device)
            if left is None or left.numel() < most:  # the graph zeroes its own
                lent = torch.zeros(most, dtype=torch.int32, device=device)
            else:
                lent, _left_for_graphs[device] = left[:most], left[most:]
        _of_captures[key] = (capture, lent)
    return lent[:count]


@cache
def _cuda_driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def _capture_number(stream: int) -> int:
    """By which number CUDA tells captures of graphs apart; torch does not say it.

    Raises RuntimeError if the driver refuses to answer.
    """
    if is_amd_build():  # not tried there: every launch counts as a capture of its own
        return next(_LAUNCHES)
    status, number = ctypes.c_int(), ctypes.c_uint64()
    error = _cuda_driver().cuStreamGetCaptureInfo_v2(
        ctypes.c_void_p(stream), ctypes.byref(status), ctypes.byref(number), None, None, None
    )
    if error:
        raise RuntimeError(f"cuStreamGetCaptureInfo_v2: the driver answers with error {error}")
    return number.value
