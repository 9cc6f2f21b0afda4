"""Flash attention: the softmax on the vector units against two products on the matrix units.

A workgroup keeps `rows` rows of Q and walks over K and V in tiles of `cols` rows, two of which fit
LDS (one for each of two workgroups). Per step, in clocks, d the dimension of a head:

    qk = pv = max(2 * rows * cols * d / matrix rate / attention fraction, tile bytes / l2 share)
    softmax = rows * cols * sum over its steps of 1 / rate + 2 * reduction

Of t workgroups on a compute unit, two at a time run in turns, so that the softmax of one hides
behind the products of the other; the odd one hides nothing:

    unit(t) = 2 * (t // 2) * max(qk + pv, softmax) + (t % 2) * (qk + pv + softmax)
    compute = steps * unit(ceil(workgroups / units)) / (clock * matrix fraction)
    t       = launch + max(compute, bytes / achieved bandwidth)

Query heads that share a key/value head are rows of one workgroup. Where there are fewer workgroups
than units, K and V are split among several. With a causal mask, a step that is masked as a whole is
left out. The best `rows` of the device is taken.

Source: the seed mi300_llm_inference_roofline_notebook (flashattn_eff, softmax_rate).
"""

import math
from dataclasses import asdict, dataclass
from typing import Final

from roofcal.core.devices import WaveDevice
from roofcal.core.recipes import BITS
from roofcal.models.errors import PredictError
from roofcal.models.wave.operators import (
    OperatorTime,
    check_sizes,
    described_value,
    divide,
    stream_seconds,
)

_RESIDENT: Final = 2  # workgroups that share LDS
_SMALLEST_TILE: Final = 16
_WIDTH: Final = BITS["bf16"] // 8  # bytes of an element


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Attention of one layer on one device in bf16; sizes of one sequence, `sequences` of them.

    query_tokens  tokens whose attention is computed, the last ones of kv_tokens
    kv_tokens     tokens attended to, those of the query included
    causal        a token attends to none behind it
    shared_kv     keys and values are one tensor, as in latent attention
    """

    heads: int
    kv_heads: int
    head_dim: int
    query_tokens: int
    kv_tokens: int
    sequences: int = 1
    causal: bool = True
    shared_kv: bool = False

    @property
    def group(self) -> int:
        """Query heads per key/value head; raises PredictError where that is no whole number."""
        return divide("heads", self.heads, self.kv_heads, "kv_heads")


def flash_attention(device: WaveDevice, shape: Attention) -> OperatorTime:
    """Seconds of QK, softmax and PV of all heads.

    Raises PredictError for sizes below 1, heads that are no multiple of kv_heads, fewer kv_tokens
    than query_tokens, a head too large for LDS, and a device without a rate of bf16.
    """
    switches = ("causal", "shared_kv")
    check_sizes("attention", **{n: v for n, v in asdict(shape).items() if n not in switches})
    if shape.query_tokens > shape.kv_tokens:
        raise PredictError(
            f"attention: query_tokens={shape.query_tokens} are more than "
            f"kv_tokens={shape.kv_tokens}, which hold them"
        )
    cols = kv_tile(device, shape)
    clocks = (_unit_clocks(device, shape, rows, cols) for rows in device.attention_rows)
    total, products, softmax = min(clocks, key=lambda own: own[0])
    scale = device.clock_hz * device.matrix_fraction
    dram = stream_seconds(device, moved_bytes(shape))
    parts = {
        "launch": device.launch_s,
        "math": products / scale,
        "softmax": softmax / scale,
        "dram": dram,
    }
    return OperatorTime(
        total_s=device.launch_s + max(total / scale, dram),
        bound_by=max(parts, key=lambda name: parts[name]),
        parts=parts,
    )


def moved_bytes(shape: Attention) -> float:
    """Q, K and V read once, the output written once."""
    cached = (1 if shape.shared_kv else 2) * shape.kv_heads * shape.kv_tokens
    tokens = cached + 2 * shape.heads * shape.query_tokens
    return shape.sequences * tokens * shape.head_dim * _WIDTH


def softmax_clocks(device: WaveDevice, rows: int, cols: int) -> float:
    """Clocks of a compute unit for the softmax of rows x cols scores."""
    per_element = sum(1 / rate for rate in device.softmax_per_clock.values())
    return rows * cols * per_element + 2 * device.reduction_clocks


def kv_tile(device: WaveDevice, shape: Attention) -> int:
    """Rows of K in a tile: the largest power of two of which two tiles fit LDS."""
    row_bytes = shape.head_dim * _WIDTH
    fitting = int(device.lds_bytes / (_RESIDENT * row_bytes))
    if fitting < _SMALLEST_TILE:
        raise PredictError(
            f"head_dim={shape.head_dim}: two tiles of K of {_SMALLEST_TILE} rows do not fit the "
            f"{device.lds_bytes} bytes of LDS of {device.device}"
        )
    return 1 << (fitting.bit_length() - 1)


def _unit_clocks(
    device: WaveDevice, shape: Attention, rows: int, cols: int
) -> tuple[float, float, float]:
    """Clocks of the busiest compute unit: in all, in products, in the softmax."""
    groups = shape.sequences * shape.kv_heads * math.ceil(shape.query_tokens * shape.group / rows)
    # Tiles of K and V that a workgroup walks over, on average; a masked one is left out.
    own = min(max(1.0, rows / shape.group), shape.query_tokens)  # tokens of one workgroup
    masked = (shape.query_tokens - own) / 2 if shape.causal else 0.0
    steps = math.ceil((shape.kv_tokens - masked) / cols)
    splits = max(1, min(steps, device.compute_units // groups))
    steps = math.ceil(steps / splits)
    per_unit = math.ceil(groups * splits / device.compute_units)
    # QK and PV of one step, which take as long
    flops = 2 * rows * cols * shape.head_dim
    rate = described_value(device, "matrix_flops_per_clock", "bf16")
    rate *= device.attention_fraction
    loaded = cols * shape.head_dim * _WIDTH
    products = 2 * max(flops / rate, loaded / device.l2_bytes_per_clock_and_unit)
    softmax = softmax_clocks(device, rows, cols)
    pairs, odd = divmod(per_unit, _RESIDENT)
    hidden = _RESIDENT * pairs * max(products, softmax)
    total = steps * (hidden + odd * (products + softmax))
    return total, steps * per_unit * products, steps * per_unit * softmax
