"""Regimes of a matrix product: the groups in which prediction errors are reported.

The bounds are conventions, chosen before any fit; a point belongs to the first regime that holds.
"""

from typing import Any, Final

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
    conditions = regime_conditions(m, n, k).items()
    return next((name for name, is_met in conditions if is_met), REGIMES[-1])


def regime_conditions(m: Any, n: Any, k: Any) -> dict[str, Any]:
    """Regime, all but the last -> whether a product is within its bounds; the first one counts.

    Sizes are whole numbers, or NumPy vectors of them.
    """
    has_odd_rows = (m > DECODE_TOKENS) & (m % RAGGED_MULTIPLE != 0)
    volume = m * n * k
    return {
        "ragged": has_odd_rows | (n % RAGGED_MULTIPLE != 0) | (k % RAGGED_MULTIPLE != 0),
        "decode": (m <= DECODE_TOKENS) | (n <= DECODE_TOKENS),
        "skinny_k": (k <= SKINNY_K) & (4 * k <= m) & (4 * k <= n),
        "small": volume <= (SMALL_SIDE * 1.0001) ** 3,
        "mid": volume <= (MID_SIDE * 1.0001) ** 3,
    }
