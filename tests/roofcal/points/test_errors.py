"""Statistics of errors."""

import numpy as np

from roofcal.points.errors import coverage_interval


def test_the_interval_of_a_share_is_that_of_clopper_and_pearson() -> None:
    assert coverage_interval(95, 100) == (0.8872, 0.9836)
    assert coverage_interval(30, 30) == (0.8843, 1.0)
    assert coverage_interval(0, 10)[0] == 0.0
    assert all(np.isnan(end) for end in coverage_interval(0, 0))
