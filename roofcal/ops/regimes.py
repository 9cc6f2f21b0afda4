"""Regimes of a matrix product: the groups in which prediction errors are reported.

The bounds are conventions, chosen before any fit; a point belongs to the first regime that holds.
"""

from typing import Final

REGIMES: Final = ("ragged", "decode", "skinny_k", "small", "mid", "large")

RAGGED_MULTIPLE: Final = 16
DECODE_TOKENS: Final = 64
SKINNY_K: Final = 1024
SMALL_SIDE: Final = 1024
MID_SIDE: Final = 4096


def gemm_regime(m: int, n: int, k: int) -> str:
    """The regime of an M x N x K product.

    ragged    a side is not a multiple of 16 (M up to 64 excepted: any few tokens are normal)
    decode    M or N <= 64
    skinny_k  K <= 1024 and at most a quarter of M and of N
    small / mid / large   geometric mean of the sides <= 1024 / <= 4096 / above
    """
    if any(side % RAGGED_MULTIPLE for side in (n, k, m if m > DECODE_TOKENS else 0)):
        return "ragged"
    if min(m, n) <= DECODE_TOKENS:
        return "decode"
    if k <= SKINNY_K and 4 * k <= min(m, n):
        return "skinny_k"
    side = (m * n * k) ** (1 / 3)
    if side <= SMALL_SIDE * 1.0001:
        return "small"
    return "mid" if side <= MID_SIDE * 1.0001 else "large"
