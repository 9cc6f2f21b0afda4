"""What a model of time answers for many points at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds of many points, vectors of equal length.

    low, high   ends of the 95 % interval; None for a model that states none
    bound_by    the name of the largest part of each
    """

    total: Array
    low: Array | None = None
    high: Array | None = None
    bound_by: list[str]
