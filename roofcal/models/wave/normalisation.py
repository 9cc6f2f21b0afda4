"""LayerNorm: a row by one workgroup, reading and writing every element once.

    vector = ceil(rows / units) * (columns * 7 / lanes + reduction) clocks
    t      = launch + max(vector, elements * bytes / achieved bandwidth)

7 operations an element: 2 for the mean and 2 for the variance (Welford), 3 to apply them. RMSNorm
is taken for the same: memory bounds both. `residual` adds the residual stream in the same kernel:
twice the bytes. Source: the seed mi300_llm_inference_roofline_notebook, layerNormCycles.
"""

import math
from typing import Final

from roofcal.core.dtypes import BITS
from roofcal.core.wave_device import WaveDevice
from roofcal.models.wave.operator_time import (
    OperatorTime,
    check_sizes,
    kernel_time,
    stream_seconds,
)

OPERATIONS: Final = 2 + 2 + 3


def normalisation(
    device: WaveDevice, rows: int, columns: int, *, dtype: str = "bf16", residual: bool = False
) -> OperatorTime:
    """Seconds of normalising rows of `columns` elements; raises PredictError for sizes below 1."""
    check_sizes("normalisation", rows=rows, columns=columns)
    passes = 4 if residual else 2
    moved = passes * rows * columns * BITS[dtype] / 8
    row = columns * OPERATIONS / device.vector_per_clock + device.normalisation_reduction_clocks
    clocks = math.ceil(rows / device.compute_units) * row
    return kernel_time(
        device, {"vector": clocks / device.clock_hz, "dram": stream_seconds(device, moved)}
    )
