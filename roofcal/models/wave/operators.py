"""Operators that no matrix unit bounds, and what all operators share.

LayerNorm, GELU and SiLU are bound by the vector units and memory:

    normalisation  vector = ceil(rows / units) * (columns * 7 / lanes + reduction) clocks
    activation     vector = elements / units * clocks per element
    t = launch + max(vector, bytes / achieved bandwidth)

One workgroup normalises a row: 7 operations an element, of which 2 are for the mean, 2 for the
variance (Welford) and 3 to apply them. RMSNorm counts as the same, because memory bounds both.

Collectives among the GPUs of one node take latency, links, and the reduction in memory. `nbytes` is
the whole tensor and p the number of ranks. In a mesh a GPU has one link to each other GPU, so that
p - 1 of `link_peers` links are in use. Behind a switch a GPU has all of its bandwidth to any rank.

    latency        = link latency * log2(p)
    link           = (p - 1) / p * nbytes / (bandwidth * used links * fraction)
    all_gather     = latency + link
    all_reduce     = 2 * all_gather + reduction
    reduction      = (p + 1) / p * nbytes / achieved memory bandwidth

A rank reduces its own share: it reads p partial sums of nbytes / p and writes one.

Source: the seed mi300_llm_inference_roofline_notebook (layerNormCycles, geluCycles; alpha log P +
(P - 1) / P * bytes / B in its comments).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from roofcal.core.devices import WaveDevice
from roofcal.core.names import did_you_mean_or_all
from roofcal.core.recipes import BITS
from roofcal.models.errors import PredictError

_OPERATIONS_PER_ELEMENT: Final = 2 + 2 + 3
_BF16_BYTES: Final = BITS["bf16"] // 8


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorTime:
    """Seconds of one operator.

    parts     seconds of each part that the operator has, of launch, math, l2, lds, softmax, vector,
              dram, link and latency
    bound_by  the largest part
    """

    total_s: float
    bound_by: str
    parts: Mapping[str, float]


def kernel_time(device: WaveDevice, parts: Mapping[str, float]) -> OperatorTime:
    """One kernel: a launch, then the largest part, because the parts overlap."""
    all_parts = {"launch": device.launch_s, **parts}
    return OperatorTime(
        total_s=device.launch_s + max(parts.values()),
        bound_by=max(all_parts, key=lambda name: all_parts[name]),
        parts=all_parts,
    )


def stream_seconds(device: WaveDevice, moved_bytes: float) -> float:
    """Seconds in which a kernel moves `moved_bytes` to and from memory."""
    return moved_bytes / device.stream_bytes_per_s


def normalisation(
    device: WaveDevice, rows: int, columns: int, *, residual: bool = False
) -> OperatorTime:
    """Seconds of normalising `rows` rows of `columns` elements of bf16.

    residual  the kernel also adds the residual stream, which doubles its bytes

    Raises PredictError for sizes below 1.
    """
    check_sizes("normalisation", rows=rows, columns=columns)
    moved = (4 if residual else 2) * rows * columns * _BF16_BYTES
    operations = columns * _OPERATIONS_PER_ELEMENT / device.vector_per_clock
    row_clocks = operations + device.normalisation_reduction_clocks
    clocks = math.ceil(rows / device.compute_units) * row_clocks
    return kernel_time(
        device, {"vector": clocks / device.clock_hz, "dram": stream_seconds(device, moved)}
    )


def activation(
    device: WaveDevice, elements: int, *, function: str = "silu", gated: bool = True
) -> OperatorTime:
    """Seconds of a function of `elements` outputs of bf16.

    gated  the layer multiplies by a second input (SwiGLU), so an output takes two inputs

    Raises PredictError for elements below 1 and a function that the device's file does not have.
    """
    check_sizes("activation", elements=elements)
    per_element = described_value(device, "activation_clocks_per_element", function)
    vector = elements / device.compute_units * per_element / device.clock_hz
    moved = (3 if gated else 2) * elements * _BF16_BYTES
    return kernel_time(device, {"vector": vector, "dram": stream_seconds(device, moved)})


def all_gather(device: WaveDevice, nbytes: int, ranks: int) -> OperatorTime:
    """Every rank gets all of `nbytes`, of which it had 1 / ranks; raises as all_reduce does."""
    return _one_after_another(_parts(device, nbytes, ranks))


def all_reduce(device: WaveDevice, nbytes: int, ranks: int) -> OperatorTime:
    """Every rank gets the sum of all `nbytes`.

    Raises PredictError for sizes below 1 and more ranks than the links of the device reach.
    """
    parts = {name: 2 * seconds for name, seconds in _parts(device, nbytes, ranks).items()}
    added = 0.0 if ranks == 1 else stream_seconds(device, (ranks + 1) / ranks * nbytes)
    return _one_after_another(parts | {"dram": added})


def send(device: WaveDevice, nbytes: int) -> OperatorTime:
    """One GPU sends to the next, as between pipeline stages; raises PredictError below 1 byte."""
    check_sizes("send", nbytes=nbytes)
    bandwidth = device.link_bytes_per_s * device.link_fraction / device.link_peers
    return _one_after_another({"latency": device.link_latency_s, "link": nbytes / bandwidth})


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


def check_sizes(what: str, **sizes: int) -> None:
    """Raises PredictError unless all sizes are whole numbers from 1."""
    # an int alone, and no True, which Python counts as 1
    refused = [
        f"{name}={size!r}" for name, size in sizes.items() if type(size) is not int or size < 1
    ]
    if refused:
        raise PredictError(f"{what}: {', '.join(refused)}: must be a whole number from 1")


def divide(what: str, size: int, parts: int, among: str) -> int:
    """size / parts; raises PredictError where that leaves a remainder."""
    if size % parts:
        raise PredictError(
            f"{size} {what} do not divide among {parts} {among}; "
            f"{among} must be a divisor of {size}"
        )
    return size // parts


def described_value(
    device: WaveDevice,
    key: Literal["matrix_flops_per_clock", "activation_clocks_per_element"],
    name: str,
) -> float:
    """The value that a key of section `wave` has for a dtype or function.

    Raises PredictError, naming the file, where it has none.
    """
    values: Mapping[str, float] = getattr(device, key)
    if name not in values:
        nearest = did_you_mean_or_all(name, values)
        raise PredictError(
            f"config/devices/{device.device}.yaml: wave.{key} has no '{name}'{nearest}"
        )
    return values[name]
