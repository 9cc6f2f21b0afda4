"""Fewer bootstrap draws where a test says nothing about intervals."""

import pytest

from roofcal.fitting import bootstrap


def draw_few_resamples(patch: pytest.MonkeyPatch) -> None:
    """Draw 20 resamples and not 200: a fit of made-up products takes 1.5 s of CPU and not 2.7."""
    patch.setattr(bootstrap, "RESAMPLES", 20)
