"""Regimes of a matrix product: the groups in which prediction errors are reported.

The bounds are conventions, chosen before any fit; a point belongs to the first regime that holds.
"""

from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

REGIMES: Final = ("ragged", "decode", "skinny_k", "small", "mid", "large")

RAGGED_MULTIPLE: Final = 16
DECODE_TOKENS: Final = 64
SKINNY_K: Final = 1024
SMALL_SIDE: Final = 1024
MID_SIDE: Final = 4096


@cache
def gemm_regime(m: int, n: int, k: int) -> str:
    """The regime of an M x N x K product.

    ragged    a side is not a multiple of 16 (M up to 64 excepted: any few tokens are normal)
    decode    M or N <= 64
    skinny_k  K <= 1024 and at most a quarter of M and of N
    small / mid / large   geometric mean of the sides <= 1024 / <= 4096 / above
    """
    return str(gemm_regimes(float(m), float(n), float(k)))


def gemm_regimes(m: Any, n: Any, k: Any, prefix: str = "") -> NDArray[np.str_]:
    """The regime of each product after a prefix; sizes: vectors of floats, or numbers."""
    has_odd_rows = (m > DECODE_TOKENS) & (m % RAGGED_MULTIPLE != 0)
    is_ragged = has_odd_rows | (n % RAGGED_MULTIPLE != 0) | (k % RAGGED_MULTIPLE != 0)
    shorter, volume = np.minimum(m, n), m * n * k
    is_skinny = (k <= SKINNY_K) & (4 * k <= shorter)
    up_to_small, up_to_mid = (volume <= (side * 1.0001) ** 3 for side in (SMALL_SIDE, MID_SIDE))
    conditions = [is_ragged, shorter <= DECODE_TOKENS, is_skinny, up_to_small, up_to_mid]
    *names, last = (prefix + name for name in REGIMES)
    return np.select(conditions, names, last)
