"""Sizes that the formulas take: numbers, vectors, or symbols.

Every formula of this package is written once. It computes with + * / // alone and takes the
function `maximum` of two values that fits its sizes: max for numbers, numpy.maximum for vectors
(float64: products of three sizes leave int64), sympy.Max for symbols.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Size = TypeVar("Size", float, NDArray[np.float64])
Maximum: TypeAlias = Callable[[Any, Any], Any]
