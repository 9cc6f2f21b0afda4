"""The operators of the notebook's second cell, one function each.

Source: the seed mi300_llm_inference_roofline_notebook. Seconds, unless named otherwise; 2 bytes an
element (fp16).
"""

import math
from typing import Final

from roofcal.models.wave.notebook.device import NotebookDevice

WIDTH: Final = 2
_DTYPE: Final = "bf16"
_KIB: Final = 1024
_GIB: Final = 1024**3


def rate(device: NotebookDevice) -> float:
    """Matrix operations per clock of a compute unit."""
    return device.matrix_flops_per_clock[_DTYPE]


def gemm_efficiency(device: NotebookDevice, rows: int, cols: int, k: int) -> float:
    """What the cache and LDS leave of the matrix rate, less the loss of the launch."""
    depth = device.operand_depth
    cached = WIDTH * ((rows + cols) * k + rows * cols)
    l2 = cached / (2 * rows * cols * k // rate(device))
    stored = WIDTH * (2 * (rows + cols) * depth + rows * cols)
    lds = stored / (2 * rows * cols * depth // rate(device))
    fed = min(device.l2_bytes_per_clock_and_unit / l2, 1, device.lds_bytes_per_clock / lds)
    return fed - device.launch_loss


def gemm_utilisation(device: NotebookDevice, m: int, n: int, tile: tuple[int, int]) -> float:
    """Tiles per compute unit over the waves they take; a tile may be a fraction of one."""
    tiles = (m / tile[0]) * (n / tile[1]) / device.compute_units
    return tiles / math.ceil(tiles)


def gemm_s(device: NotebookDevice, m: int, n: int, k: int) -> float:
    """A product on the best tile; below 16 rows or columns the skinny one."""
    if min(m, n) < 16:
        return skinny_s(device, m, n, k)
    best = max(
        gemm_efficiency(device, *tile, k) * gemm_utilisation(device, m, n, tile)
        for tile in device.tiles
    )
    clocks = 2 * m * n * k / (best * device.compute_units * rate(device))
    written = device.write_fraction * device.write_bytes_per_clock * device.compute_units
    return (clocks + m * n * WIDTH / written) / device.clock_hz + device.launch_s


def skinny_s(device: NotebookDevice, m: int, n: int, k: int) -> float:
    """The weights over the memory's bandwidth, then taken for clocks: 6e-16 of what is right."""
    elements = (n if m < 16 else m) * k
    gigabytes_per_s = device.stream_bytes_per_s / 1e9
    per_second = 1e6 * gigabytes_per_s * device.product_memory_fraction
    milliseconds = elements / _GIB * WIDTH / per_second / (device.clock_hz / 1e9 * 1e6)
    return milliseconds / 1e3


def softmax_clocks(device: NotebookDevice, rows: int, cols: int) -> float:
    """Clocks of the softmax of rows x cols scores on four SIMDs of 64 lanes."""
    waves = rows * cols // 4 // 64
    clocks = sum(256 / per_clock for per_clock in device.softmax_per_clock.values())
    return waves * clocks + 2 * device.reduction_clocks


def attention_efficiency(
    device: NotebookDevice, per_unit: float, head_dim: int, rows: int, cols: int
) -> float:
    """Of the matrix rate, with `per_unit` workgroups on a compute unit."""
    share = math.floor(device.l2_bytes_per_clock_and_unit)
    clocks = rows * cols * head_dim * 2 // rate(device)
    l2 = cols * WIDTH * head_dim / clocks
    reached = min(share / l2, 1)
    softmax = softmax_clocks(device, rows, cols)
    if per_unit >= 2:
        scores = rows * cols / (clocks / reached)
        return min((rows * cols // softmax) / scores, 1) * device.attention_fraction
    if per_unit >= 1:
        return 2 * clocks / (2 * clocks / reached + softmax * (2 - per_unit))
    return per_unit * 2 * clocks / (2 * clocks / reached + softmax)


def attention_s(device: NotebookDevice, tokens: int, heads: int, head_dim: int) -> float:
    """Attention of as many tokens to themselves, rounded as the notebook rounds."""
    rows = _next_power_of_two(tokens / (device.compute_units / heads))
    per_unit = round(tokens / rows * heads / device.compute_units, 1)
    cols = 64 * _KIB // (2 * head_dim * WIDTH)
    efficiency = attention_efficiency(device, per_unit, head_dim, rows, cols)
    flops = 2 * heads * (2 * tokens * head_dim * tokens)
    clocks = round(flops / (device.compute_units * rate(device) * efficiency), 4)
    return clocks / device.clock_hz


def normalisation_s(device: NotebookDevice, rows: int, columns: int) -> float:
    """Each element once over the memory's bandwidth, in fp32."""
    moved = columns * device.normalisation_bytes_per_element * rows
    return moved / device.stream_bytes_per_s


def gelu_s(device: NotebookDevice, elements: float) -> float:
    """GELU at the end of a product."""
    clocks = elements / device.compute_units * device.activation_clocks_per_element["gelu"]
    return clocks / device.clock_hz


def link_bytes_per_s(device: NotebookDevice) -> float:
    """Of all links together, whatever the number of ranks."""
    return device.link_bytes_per_s * device.link_fraction


def latency_s(device: NotebookDevice, ranks: int) -> float:
    """Of one collective."""
    return device.link_latency_s * math.log2(ranks)


def gather_s(device: NotebookDevice, columns: int, layers: int, ranks: int) -> float:
    """One row of every layer of a stage, without its latency."""
    return (ranks - 1) / ranks * layers * columns * WIDTH / link_bytes_per_s(device)


def reduce_scatter_s(device: NotebookDevice, rows: int, columns: int) -> float:
    """Every element over the links, without its latency."""
    return rows * columns * WIDTH / link_bytes_per_s(device)


def reduction_s(device: NotebookDevice, rows: int, columns: int, ranks: int) -> float:
    """Two reads and a write of every element of every rank."""
    return 3 * ranks * rows * columns * WIDTH / device.stream_bytes_per_s


def _next_power_of_two(size: float) -> int:
    """At least 2, but 1 stays 1."""
    power = 1 if size == 1 else 2
    while power < size:
        power *= 2
    return power
