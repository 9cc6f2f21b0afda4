"""Errors and warnings of predictions."""

from operator import index
from typing import Any

from roofcal.core.csv_files import LARGEST_SIZE


class PredictError(ValueError):
    """A question that cannot be answered here; the message says which can."""


def checked_sizes(**sizes: Any) -> dict[str, int]:
    """Sizes that were given in Python, also as ints of NumPy, as ints by name.

    Raises PredictError naming the first that is no whole number from 1 to LARGEST_SIZE. True is
    refused, although Python counts it as 1: it was meant for another argument.
    """
    checked: dict[str, int] = {}
    for name, value in sizes.items():
        try:
            checked[name] = 0 if isinstance(value, bool) else index(value)
        except TypeError:  # a float, a text, a bool of NumPy
            checked[name] = 0
        if not 0 < checked[name] <= LARGEST_SIZE:
            raise PredictError(f"{name}={value!r} is not a whole number from 1 to 2^30")
    return checked


class CalibrationWarning(UserWarning):
    """The calibration that answers was fitted on a disturbed machine."""
