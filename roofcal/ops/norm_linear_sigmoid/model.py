"""What a linear between a norm and a sigmoid consists of: the linear, and four passes over memory.

    norm             reads x, writes y                                4 bytes per element of x
    sigmoid          reads z, writes s                                4 bytes per element of z
    its gradient     reads grad and s, writes grad * s * (1 - s)      6 bytes per element of z
    gradient of the norm  reads grad_y and x, writes grad_x           6 bytes per element of x

Products and casts are those of op linear (roofcal.ops.linear.model.parts_of). A cast that is fused
to the norm saves reading y once; where the tensor is cast along its columns too, y is written and
read all the same (kernels.cast.fused), and that adds up to the bytes above. So these hold for fused
and separate passes alike.

A pass takes the start of a kernel of many programs that reads memory once, for which our cast along
the rows stands, and its bytes at the speed of a copy: from the cache as far as they fit, because
the kernel before has just written or read them, else from memory.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from roofcal.core.times import Array

# Pass -> (tensor with the sizes it runs over, bytes per element).
PASSES: Final[dict[str, tuple[str, int]]] = {
    "norm": ("x", 4),
    "sigmoid": ("z", 4),
    "sigmoid_gradient": ("z", 6),
    "norm_gradient": ("x", 6),
}
START: Final = "cast.triton.fp8_rowwise_dim0.fixed_s"
FILL: Final = "cast.triton.fp8_rowwise_dim0.fill_s"  # a calibration may lack it: then it is 0
CONSTANTS: Final = (START, "cache_bytes", "cache_copy_bytes_per_s", "dram_copy_bytes_per_s")
_CACHE_SHARE: Final = 0.75  # as casts have it


def pass_seconds(constants: Mapping[str, float], m: Array, n: Array, k: Array) -> Array:
    """Seconds of all passes; constants: CONSTANTS, KeyError for a missing one, and perhaps FILL."""
    start = constants[START] + constants.get(FILL, 0.0)
    elements = {"x": m * k, "z": m * n}
    total = np.zeros_like(m)
    for tensor, count in PASSES.values():
        moved = elements[tensor] * count
        cached = np.minimum(1.0, _CACHE_SHARE * constants["cache_bytes"] / moved)
        per_byte = cached / constants["cache_copy_bytes_per_s"]
        per_byte = per_byte + (1 - cached) / constants["dram_copy_bytes_per_s"]
        total = total + start + moved * per_byte
    return total
