"""Collectives among the GPUs of one node: latency, links, and the reduction in memory.

`nbytes` is the whole tensor and p the number of ranks. In a mesh a GPU has one link to each other
GPU, so that p - 1 of `link_peers` links are in use. Behind a switch a GPU has all of its bandwidth
to any rank.

    latency        = link latency * log2(p)
    link           = (p - 1) / p * nbytes / (bandwidth * used links * fraction)
    all_gather     = latency + link
    reduce_scatter = latency + link + reduction
    all_reduce     = reduce_scatter + all_gather
    reduction      = (p + 1) / p * nbytes / achieved memory bandwidth

A rank reduces its own share: it reads p partial sums of nbytes / p and writes one.

Source: the seed mi300_llm_inference_roofline_notebook (alpha log P + (P - 1) / P * bytes / B in its
comments).
"""

import math

from roofcal.core.wave_device import WaveDevice
from roofcal.models.errors import PredictError
from roofcal.models.wave.operator_time import OperatorTime, check_sizes, stream_seconds


def all_gather(device: WaveDevice, nbytes: int, ranks: int) -> OperatorTime:
    """Every rank gets all of `nbytes`, of which it had 1 / ranks; raises as all_reduce does."""
    return _one_after_another(_parts(device, nbytes, ranks))


def reduce_scatter(device: WaveDevice, nbytes: int, ranks: int) -> OperatorTime:
    """Every rank gets the sum of 1 / ranks of `nbytes`; raises as all_reduce does."""
    parts = _parts(device, nbytes, ranks)
    return _one_after_another(parts | {"dram": reduction_seconds(device, nbytes, ranks)})


def all_reduce(device: WaveDevice, nbytes: int, ranks: int) -> OperatorTime:
    """Every rank gets the sum of all `nbytes`.

    Raises PredictError for sizes below 1 and more ranks than the links of the device reach.
    """
    parts = {name: 2 * seconds for name, seconds in _parts(device, nbytes, ranks).items()}
    return _one_after_another(parts | {"dram": reduction_seconds(device, nbytes, ranks)})


def send(device: WaveDevice, nbytes: int) -> OperatorTime:
    """One GPU sends to the next, as between pipeline stages; raises PredictError below 1 byte."""
    check_sizes("send", nbytes=nbytes)
    bandwidth = device.link_bytes_per_s * device.link_fraction / device.link_peers
    return _one_after_another({"latency": device.link_latency_s, "link": nbytes / bandwidth})


def reduction_seconds(device: WaveDevice, nbytes: int, ranks: int) -> float:
    """Seconds of adding the partial sums of one rank's share; 0 for one rank."""
    return 0.0 if ranks == 1 else stream_seconds(device, (ranks + 1) / ranks * nbytes)


def used_bytes_per_s(device: WaveDevice, ranks: int) -> float:
    """Bandwidth that a collective of `ranks` ranks reaches on the links that it uses."""
    used = min(ranks - 1, device.link_peers) / device.link_peers
    return device.link_bytes_per_s * used * device.link_fraction


def _parts(device: WaveDevice, nbytes: int, ranks: int) -> dict[str, float]:
    check_sizes("collective", nbytes=nbytes, ranks=ranks)
    if ranks > device.link_ranks:
        raise PredictError(
            f"{ranks} ranks: the links of {device.device} reach {device.link_ranks}; "
            "take fewer ranks"
        )
    if ranks == 1:
        return {"latency": 0.0, "link": 0.0}
    sent = (ranks - 1) / ranks * nbytes
    return {
        "latency": device.link_latency_s * math.log2(ranks),
        "link": sent / used_bytes_per_s(device, ranks),
    }


def _one_after_another(parts: dict[str, float]) -> OperatorTime:
    return OperatorTime(
        total_s=sum(parts.values()),
        bound_by=max(parts, key=lambda name: parts[name]),
        parts=parts,
    )
