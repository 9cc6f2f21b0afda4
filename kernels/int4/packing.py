"""Int4 weights: quantise by groups along K, pack for the matrix unit, and back.

    w[row, k]  ~  scale[row, k // group] * (q[row, k] - zero[row, k // group]),   q in 0..15

symmetric: zero is 8 everywhere and not stored; asymmetric: zero is a whole number of 0..15, stored
like a scale. Scales and zeros have the dtype of the activations (bf16 or fp16).

Layout (rows are padded to ROW_MULTIPLE with weights of value zero):

    packed  uint8 [rows/16, K/128, 1024]   one unit of 1 KB holds 16 rows x 128 columns
    scales  [rows/16, K/group, 16]         entry 2*g + b belongs to row 8*b + g of the 16
    zeros   as scales

A unit is a row-major array of little-endian 32-bit words [half 2][g 8][s 4][w 4]. Word
(half, g, s, w) holds the eight weights of row 8*b + g, column 64*h + 16*s + 8*half + 2*w + i for b,
h, i in 0..1; weight (b, h, i) is nibble 2*h + b + 4*i, counted from the low end. Two facts follow:

- The 16 bytes at (half, g, s) hold 16 x 2 weights of 16 contiguous columns: the operand of lane
  4*g + s in four m16n8k16 products, when the activations are read in the same order. One 16-byte
  load per lane feeds the matrix unit without any exchange between lanes.
- The 4 bytes at (half, g, s, w) are what lane 4*g + w holds in step s of a product over columns in
  their natural order: the same weights serve a kernel that multiplies from shared memory.

`word & 0x000f000f` gives the two weights of one row in the low bits of two 16-bit lanes, where one
`or` with a magic number makes them floats (Kim et al., "Who Says Elephants Can't Run", 2022).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

from kernels.int4.rule import ROW_MULTIPLE, UNIT_COLUMNS, UNIT_ROWS, WeightSizes

MOST_COLUMNS: Final = 1 << 28  # kernels count bytes and scales of a tile's rows in 32 bits
GROUPS: Final = (32, 64, 128)
SCALE_DTYPES: Final = (torch.bfloat16, torch.float16)
# bf16: its smallest normal number. fp16: its smallest subnormal one, which is normal in fp32; times
# a weight of 4 bits it is exact there.
_SMALLEST_SCALE: Final = {torch.bfloat16: 2.0**-126, torch.float16: 2.0**-24}
SYMMETRIC_ZERO: Final = 8
_LARGEST: Final = 15
# (half, g, s, w) of a word, then (b, h, i) of a weight, as axes of q cut into
# [row tile, b, g, unit, h, s, half, w, i]
_TO_WORDS: Final = (0, 3, 6, 2, 5, 7, 8, 1, 4)  # row tile, unit | half, g, s, w | i, b, h


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantised:
    """Weights as whole numbers, not packed.

    q       uint8 [rows, k], 0..15
    scales  [rows, k / group], bf16 or fp16
    zeros   as scales, whole numbers 0..15, or None where the zero point is 8
    group   columns that share a scale; k for one scale per row
    """

    q: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor | None
    group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4Weights(WeightSizes):
    """Packed weights of a layer with `rows` outputs and `k` inputs; see the module's layout."""

    packed: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor | None

    @property
    def nbytes(self) -> int:
        """Bytes in memory of weights, scales and zero points, padding included."""
        tensors = [self.packed, self.scales, *([] if self.zeros is None else [self.zeros])]
        return sum(tensor.nbytes for tensor in tensors)


def quantise(
    w: torch.Tensor, group: int, *, symmetric: bool = True, dtype: torch.dtype = torch.bfloat16
) -> Quantised:
    """Round w [rows, k] to the nearest of 16 levels per group of columns.

    symmetric: scale = amax / 7; asymmetric: scale = (max - min) / 15 over a range that holds zero.
    The scale is rounded to `dtype` first, so that q is the nearest level of what is stored. The
    smallest scale is 2^-126 in bf16 and 2^-24 in fp16, where scales below 2^-14 are subnormal and
    lose bits: normal weights of a standard deviation below 1e-6 are rounded more than others.
    Raises ValueError for a k or group that cannot be packed, another dtype, or weights for whose
    scales `dtype` has no finite value.
    """
    if w.ndim != 2 or not w.is_floating_point():
        raise ValueError(f"w: got {w.dtype} {tuple(w.shape)}, wanted a matrix of floats")
    check_sizes(w.shape[0], w.shape[1], group)
    if dtype not in SCALE_DTYPES:
        raise ValueError(f"dtype: got {dtype}, wanted one of {SCALE_DTYPES}")
    grouped = w.float().reshape(w.shape[0], -1, group)
    if symmetric:
        scales, zeros = _stored(grouped.abs().amax(dim=2) / 7, dtype), None
        offset = torch.full_like(scales, SYMMETRIC_ZERO)
    else:
        low, high = grouped.amin(dim=2).clamp(max=0), grouped.amax(dim=2).clamp(min=0)
        scales = _stored((high - low) / _LARGEST, dtype)
        zeros = (-low / scales.float()).round().clamp(0, _LARGEST).to(dtype)
        offset = zeros
    if bool((~scales.isfinite()).any()):
        largest = float(grouped.abs().max())
        raise ValueError(
            f"w: got weights up to {largest:g}, whose scales are not finite in {dtype}"
        )
    levels = (grouped / scales.float()[:, :, None]).round() + offset.float()[:, :, None]
    q = levels.clamp(0, _LARGEST).to(torch.uint8).reshape(w.shape)
    return Quantised(q=q, scales=scales, zeros=zeros, group=group)


def _stored(scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Scales in `dtype`; never zero, so that a group of zeros divides by something."""
    return scale.clamp(min=_SMALLEST_SCALE[dtype]).to(dtype)


def check_sizes(rows: int, k: int, group: int) -> None:
    """Raises ValueError unless weights [rows, k] with this group can be packed."""
    if rows < 1:
        raise ValueError(f"rows: got {rows}, wanted at least 1")
    if k < UNIT_COLUMNS or k % UNIT_COLUMNS or k > MOST_COLUMNS:
        wanted = f"a multiple of {UNIT_COLUMNS}, at most {MOST_COLUMNS}"
        raise ValueError(f"k: got {k}, wanted {wanted}")
    if group not in GROUPS and group != k:
        raise ValueError(f"group: got {group}, wanted one of {GROUPS} or k = {k}")


def pack(quantised: Quantised) -> Int4Weights:
    """Weights in the layout of this module, rows padded with weights of value zero.

    Raises ValueError for q, scales or zeros of another dtype or shape, and for zero points that are
    no whole numbers of 0..15.
    """
    _check_quantised(quantised)
    rows, k = quantised.q.shape
    words = _pad(quantised.q, SYMMETRIC_ZERO).reshape(-1, 2, 8, k // UNIT_COLUMNS, 2, 4, 2, 4, 2)
    nibbles = words.permute(*_TO_WORDS).reshape(-1, 2, 2, 2)  # i, b, h
    packed = torch.zeros(nibbles.shape[0], 4, dtype=torch.uint8, device=words.device)
    for byte in range(4):  # nibbles 2j and 2j + 1: j = h + 2i, b = 0 and 1
        h, i = byte % 2, byte // 2
        packed[:, byte] = nibbles[:, i, 0, h] | (nibbles[:, i, 1, h] << 4)
    zeros = quantised.zeros
    return Int4Weights(
        packed=packed.view(-1, k // UNIT_COLUMNS, 1024),
        scales=_pack_scales(quantised.scales, 0.0),
        zeros=None if zeros is None else _pack_scales(zeros, SYMMETRIC_ZERO),
        rows=rows,
        k=k,
        group=quantised.group,
    )


def unpack(weights: Int4Weights) -> Quantised:
    """The inverse of `pack`, padding removed."""
    units = weights.k // UNIT_COLUMNS
    bits = weights.packed.view(-1, 2, 2)  # word, i, h: byte h + 2i
    nibbles = torch.stack((bits & _LARGEST, bits >> 4), dim=2)  # word, i, b, h
    axes = nibbles.view(-1, units, 2, 8, 4, 4, 2, 2, 2)
    back = sorted(range(9), key=lambda axis: _TO_WORDS[axis])
    q = axes.permute(*back).reshape(-1, weights.k)[: weights.rows]
    zeros = weights.zeros
    return Quantised(
        q=q.contiguous(),
        scales=_unpack_scales(weights.scales)[: weights.rows].contiguous(),
        zeros=None if zeros is None else _unpack_scales(zeros)[: weights.rows].contiguous(),
        group=weights.group,
    )


def dequantise(
    quantised: Quantised, rows: Sequence[int] | torch.Tensor | None = None
) -> torch.Tensor:
    """The weights (or some rows of them) in float64, exactly: scale * (q - zero)."""
    chosen = slice(None) if rows is None else torch.as_tensor(rows)
    q, scales = quantised.q[chosen], quantised.scales[chosen].double()
    levels = q.double().reshape(q.shape[0], -1, quantised.group)
    if quantised.zeros is None:
        levels -= SYMMETRIC_ZERO
    else:
        levels -= quantised.zeros[chosen].double()[:, :, None]
    return (levels * scales[:, :, None]).reshape(q.shape)


def quantisation_error(w: torch.Tensor, quantised: Quantised) -> float:
    """||dequantised - w|| / ||w|| in float64: what rounding to int4 costs before any kernel runs.

    Normal weights, groups of 128, symmetric: about 0.11. A kernel is judged against the dequantised
    weights instead, so that the two errors stay apart.
    """
    exact = w.double()
    return float((dequantise(quantised) - exact).norm() / exact.norm())


def _check_quantised(quantised: Quantised) -> None:
    q, scales, zeros = quantised.q, quantised.scales, quantised.zeros
    if q.ndim != 2 or q.dtype != torch.uint8:
        raise ValueError(f"q: got {q.dtype} {tuple(q.shape)}, wanted a uint8 matrix")
    check_sizes(q.shape[0], q.shape[1], quantised.group)
    if int(q.max()) > _LARGEST:
        raise ValueError(f"q: got a value of {int(q.max())}, wanted 0..{_LARGEST}")
    wanted = (q.shape[0], q.shape[1] // quantised.group)
    for name, values in (("scales", scales), ("zeros", zeros)):
        if values is None:
            continue
        if tuple(values.shape) != wanted:
            raise ValueError(f"{name}: got shape {tuple(values.shape)}, wanted {wanted}")
        if values.dtype not in SCALE_DTYPES or values.dtype != scales.dtype:
            raise ValueError(
                f"{name}: got {values.dtype}, wanted one of {SCALE_DTYPES}, scales and zeros alike"
            )
    if zeros is None:
        return
    wrong = ~((zeros >= 0) & (zeros <= _LARGEST) & (zeros == zeros.round()))  # NaN is wrong as well
    if bool(wrong.any()):
        row, group = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"zeros: got {float(zeros[row, group])} in row {row}, group {group}, wanted whole "
            f"numbers of 0..{_LARGEST}; quantise the weights anew (kernels.int4.packing.quantise, "
            "symmetric=False), which rounds zero points before it rounds weights"
        )


def _pad(matrix: torch.Tensor, value: float) -> torch.Tensor:
    missing = -matrix.shape[0] % ROW_MULTIPLE
    return torch.nn.functional.pad(matrix, (0, 0, 0, missing), value=value)


def _pack_scales(scales: torch.Tensor, value: float) -> torch.Tensor:
    """[rows, groups] -> [rows/16, groups, 16], the row 8*b + g of a tile at 2*g + b."""
    cut = _pad(scales, value).reshape(-1, 2, 8, scales.shape[1])
    return cut.permute(0, 3, 2, 1).reshape(-1, scales.shape[1], UNIT_ROWS).contiguous()


def _unpack_scales(packed: torch.Tensor) -> torch.Tensor:
    cut = packed.reshape(-1, packed.shape[1], 8, 2)
    return cut.permute(0, 3, 2, 1).reshape(-1, packed.shape[1])
