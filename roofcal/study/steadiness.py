"""Whether times on this processor repeat: a small product, timed for a second."""

import time
from statistics import median
from typing import Final

import numpy as np

_SIZE: Final = 256  # 0.1 to 1 ms: a turn holds hundreds of products
_TURNS: Final = 5
_WARM_UP_S: Final = 0.1  # the threads of the library start, and the clock rises


def product_drift(seconds: float = 1.0) -> float:
    """Slowest over fastest turn of one fp32 product on all cores, minus 1.

    A turn is a fifth of the time, and its time is the median over its products, as that of a
    sentinel in a session is.
    """
    operand = np.random.default_rng(0).standard_normal((_SIZE, _SIZE)).astype(np.float32)
    _median_seconds(operand, _WARM_UP_S)
    medians = [_median_seconds(operand, seconds / _TURNS) for _ in range(_TURNS)]
    return max(medians) / min(medians) - 1


def _median_seconds(operand: np.ndarray, seconds: float) -> float:
    """Median time of a product, of as many as fit into a turn."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        np.matmul(operand, operand)
        times.append(time.perf_counter() - start)
    return median(times)
