"""Kernels that the vector units and memory bound: LayerNorm, GELU, SiLU.

    normalisation  vector = ceil(rows / units) * (columns * 7 / lanes + reduction) clocks
    activation     vector = elements / units * clocks per element
    t = launch + max(vector, bytes / achieved bandwidth)

One workgroup normalises a row: 7 operations an element, of which 2 are for the mean, 2 for the
variance (Welford) and 3 to apply them. RMSNorm counts as the same, because memory bounds both.

Source: the seed mi300_llm_inference_roofline_notebook (layerNormCycles, geluCycles).
"""

import math
from typing import Final

from roofcal.core.recipes import BITS
from roofcal.core.wave_device import WaveDevice
from roofcal.models.wave.operator_time import (
    OperatorTime,
    check_sizes,
    described_value,
    kernel_time,
    stream_seconds,
)

OPERATIONS_PER_ELEMENT: Final = 2 + 2 + 3


def normalisation(
    device: WaveDevice, rows: int, columns: int, *, dtype: str = "bf16", residual: bool = False
) -> OperatorTime:
    """Seconds of normalising `rows` rows of `columns` elements.

    residual  the kernel also adds the residual stream, which doubles its bytes

    Raises PredictError for sizes below 1.
    """
    check_sizes("normalisation", rows=rows, columns=columns)
    passes = 4 if residual else 2
    moved = passes * rows * columns * BITS[dtype] / 8
    operations = columns * OPERATIONS_PER_ELEMENT / device.vector_per_clock
    row_clocks = operations + device.normalisation_reduction_clocks
    clocks = math.ceil(rows / device.compute_units) * row_clocks
    return kernel_time(
        device, {"vector": clocks / device.clock_hz, "dram": stream_seconds(device, moved)}
    )


def activation(
    device: WaveDevice,
    elements: int,
    *,
    function: str = "silu",
    gated: bool = True,
    fused: bool = False,
    dtype: str = "bf16",
) -> OperatorTime:
    """Seconds of a function of `elements` outputs.

    gated  the layer multiplies by a second input (SwiGLU), so an output takes two inputs
    fused  the function ends the product before it: neither a launch nor memory is paid again

    Raises PredictError for elements below 1 and a function that the device's file does not have.
    """
    check_sizes("activation", elements=elements)
    per_element = described_value(device, "activation_clocks_per_element", function)
    vector = elements / device.compute_units * per_element / device.clock_hz
    if fused:
        return OperatorTime(total_s=vector, bound_by="vector", parts={"vector": vector})
    moved = (3 if gated else 2) * elements * BITS[dtype] / 8
    return kernel_time(device, {"vector": vector, "dram": stream_seconds(device, moved)})
