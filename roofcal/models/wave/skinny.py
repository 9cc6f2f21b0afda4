"""A product of fewer rows than a tile has: one pass over the weights, bound by memory.

The long side is cut into strips of 16, and K into 4, 2 or 1 parts so that every compute unit has
something to read (the notebook chooses this split, and then does not use it). A workgroup stores
its strip and the short operand in LDS once; the cache saves nothing, as no weight is read twice:

    strips = ceil(long side / 16); split = 4 up to one strip a unit, 2 up to two, else 1
    load   = ceil(strips * split / units) * (16 + short side) * k / split * w / lds bandwidth
    t      = launch + max(load, least bytes / achieved bandwidth)

Source: the seed mi300_llm_inference_roofline_notebook, membound_gemm.
"""

from typing import Final

import numpy as np

from roofcal.core.times import Array
from roofcal.core.wave_device import WaveDevice

SKINNY_ROWS: Final = 16  # rows of the smallest matrix instruction


def skinny_seconds(device: WaveDevice, width: float, m: Array, n: Array, k: Array) -> Array:
    """Seconds of loading into LDS, `width` bytes an element; memory is not in it."""
    strips = np.ceil(np.maximum(m, n) / SKINNY_ROWS)
    split = split_k(device, strips)
    waves = np.ceil(strips * split / device.compute_units)
    loaded = (SKINNY_ROWS + np.minimum(m, n)) * k / split * width
    clocks: Array = waves * loaded / device.lds_bytes_per_clock
    return clocks / (device.clock_hz * device.matrix_fraction)


def split_k(device: WaveDevice, strips: Array) -> Array:
    """Into how many parts K is cut: more, the fewer strips there are."""
    per_unit = strips / device.compute_units
    return np.select([per_unit <= 1, per_unit <= 2], [4.0, 2.0], 1.0)
