"""Distribution-free statistics of latency samples: the median and its interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Final

FEWEST_SAMPLES: Final = 6  # 1 - 2 * 0.5**6 = 0.969: the fewest whose extremes cover the median
# Differences of time, as fractions, that count as changes: the defaults of commands.
MATTERS: Final = 0.02  # a smaller one costs less than finding its reason
# Two healthy H200 of one environment were up to 4.6 % apart at the power limit (`compare`).
BETWEEN_CARDS: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Median of samples and the ends of its 95 % interval, in the unit of the samples."""

    median: float
    ci95_low: float
    ci95_high: float
    count: int

    @property
    def half_width_fraction(self) -> float:
        """Half the interval as a fraction of the median; infinite with fewer than six samples."""
        if self.count < FEWEST_SAMPLES:
            return math.inf
        return (self.ci95_high - self.ci95_low) / 2 / self.median


@cache
def order_statistic_rank(count: int) -> int:
    """Zero-based rank r so that [x_r, x_(count-1-r)] covers the median with at least 95 %.

    Exact binomial tail for up to 400 samples, its normal approximation above (David & Nagaraja,
    Order Statistics, 3rd ed., section 7.1).
    """
    if count < FEWEST_SAMPLES:
        return 0
    if count > 400:
        return max(0, math.floor((count - 1.959964 * math.sqrt(count)) / 2) - 1)
    tail, total, rank = 1, 2**count, 0
    while 2 * (tail + math.comb(count, rank + 1)) <= 0.05 * total:
        rank += 1
        tail += math.comb(count, rank)
    return rank


def summarise(samples: Sequence[float]) -> Summary:
    """Median with its 95 % order-statistic interval; raises ValueError without samples.

    With fewer than six samples the interval is the range, which covers less than 95 %.
    """
    if not samples:
        raise ValueError("no samples to summarise")
    ordered = sorted(samples)
    rank = order_statistic_rank(len(ordered))
    return Summary(
        median=median(ordered),
        ci95_low=ordered[rank],
        ci95_high=ordered[-1 - rank],
        count=len(ordered),
    )


def sqnr_db(error: float) -> float:
    """Signal to quantisation noise in decibels, of noise over signal (norms): -20 log10 error.

    Infinite where there is no noise.
    """
    return -20 * math.log10(error) if error > 0 else math.inf
