"""exp, log and a norm of float64 arrays, with the same bits on every machine.

NumPy's own call other vector libraries on other processors, and fits repeat differences of last
bits until printed digits differ: a publication could be verified only where it was made. These use
what IEEE 754 rounds alike everywhere, take 3 to 6 times as long, and err by less than 2e-15.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# ln 2 in two parts: k * LN2_HIGH is exact for every exponent k, because its last 21 bits are zero.
_LN2_HIGH: Final = 0.6931471803691238
_LN2_LOW: Final = 1.9082149292705877e-10
_INVERSE_LN2: Final = 1.4426950408889634
_SQRT_HALF: Final = 0.7071067811865476

# Taylor series of exp on |r| <= ln(2) / 2; the next term is below 5e-18.
_EXP_TERMS: Final = (
    1 / 6227020800,
    1 / 479001600,
    1 / 39916800,
    1 / 3628800,
    1 / 362880,
    1 / 40320,
    1 / 5040,
    1 / 720,
    1 / 120,
    1 / 24,
    1 / 6,
    1 / 2,
)
# Series of 2 artanh(s) / s - 2 in s^2 on |s| <= 0.172; the next term is below 2e-18.
_LOG_TERMS: Final = tuple(2 / (2 * k + 1) for k in range(10, 0, -1))


def exp(x: Array) -> Array:
    """e to the power of x, for |x| <= 700."""
    exponent = np.rint(x * _INVERSE_LN2)
    rest = (x - exponent * _LN2_HIGH) - exponent * _LN2_LOW
    series = np.full_like(rest, _EXP_TERMS[0])
    for term in _EXP_TERMS[1:]:
        series = series * rest + term
    mantissa = 1.0 + (rest + rest * rest * series)
    result: Array = np.ldexp(mantissa, exponent.astype(np.int32))
    return result


def log(x: Array) -> Array:
    """Natural logarithm of positive numbers."""
    mantissa, exponent = np.frexp(x)
    is_small = mantissa < _SQRT_HALF
    mantissa = np.where(is_small, 2.0 * mantissa, mantissa)
    exponent = exponent - is_small
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    series = np.full_like(s, _LOG_TERMS[0])
    for term in _LOG_TERMS[1:]:
        series = series * square + term
    mantissa_log = 2.0 * s + s * (square * series)
    result: Array = exponent * _LN2_HIGH + (mantissa_log + exponent * _LN2_LOW)
    return result


def fourth_norm(a: Array, b: Array) -> Array:
    """(a^4 + b^4)^(1/4), by squares and roots: a general power costs ten times as much."""
    a, b = a * a, b * b
    norm: Array = np.sqrt(np.sqrt(a * a + b * b))
    return norm
