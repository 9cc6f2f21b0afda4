"""Fewer bootstrap draws and fits without probes, where a test says nothing about intervals."""

import pytest

from roofcal.fitting import cross_validation, intervals


def draw_few_resamples(patch: pytest.MonkeyPatch) -> None:
    """Draw 20 resamples and not 200, and leave probes out in 12 fits and not 60."""
    patch.setattr(intervals, "RESAMPLES", 20)
    patch.setattr(cross_validation, "_MOST_LEFT_OUT", 12)
