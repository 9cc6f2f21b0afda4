"""GELU and SiLU, as a kernel of their own or at the end of the product before them.

    vector = elements / units * clocks per element
    t      = launch + max(vector, (inputs + outputs) * bytes / achieved bandwidth)

A gated layer (SwiGLU) reads two inputs an element. Fused into the product, neither the launch nor
the memory is paid again. Source: the seed mi300_llm_inference_roofline_notebook, geluCycles.
"""

import difflib

from roofcal.core.dtypes import BITS
from roofcal.core.wave_device import WaveDevice
from roofcal.models.errors import PredictError
from roofcal.models.wave.operator_time import (
    OperatorTime,
    check_sizes,
    kernel_time,
    stream_seconds,
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
    """Seconds of a function of so many outputs.

    Raises PredictError for elements below 1 and a function that the device's file does not have.
    """
    check_sizes("activation", elements=elements)
    clocks = elements / device.compute_units * _clocks_per_element(device, function)
    vector = clocks / device.clock_hz
    if fused:
        return OperatorTime(total_s=vector, bound_by="vector", parts={"vector": vector})
    moved = (3 if gated else 2) * elements * BITS[dtype] / 8
    return kernel_time(device, {"vector": vector, "dram": stream_seconds(device, moved)})


def _clocks_per_element(device: WaveDevice, function: str) -> float:
    known = device.activation_clocks_per_element
    if function not in known:
        close = difflib.get_close_matches(function, known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"it has {', '.join(known)}"
        raise PredictError(
            f"config/devices/{device.device}.yaml: wave.activation_clocks_per_element has no "
            f"'{function}'; {hint}"
        )
    return known[function]
