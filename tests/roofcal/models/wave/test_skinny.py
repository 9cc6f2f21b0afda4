"""Few rows: strips, and how K is split among idle units."""

import numpy as np
import pytest

from roofcal.models.wave.skinny import skinny_seconds, split_k
from tests.roofcal.models.runs import WAVE


def test_fewer_strips_than_units_split_k() -> None:
    assert split_k(WAVE, np.array([1.0, 100.0, 101.0, 200.0, 201.0])).tolist() == [4, 4, 2, 2, 1]


def test_a_strip_by_hand() -> None:
    one = [np.array([float(size)]) for size in (1, 160, 4096)]  # ten strips, 40 workgroups
    found = skinny_seconds(WAVE, 2.0, *one)
    assert found == pytest.approx((16 + 1) * 4096 / 4 * 2 / 256 / 0.5e9)


def test_the_sides_are_alike() -> None:
    m, n, k = np.array([1.0, 3000.0]), np.array([3000.0, 1.0]), np.array([512.0, 512.0])
    first, second = skinny_seconds(WAVE, 1.0, m, n, k)
    assert first == second


def test_a_longer_side_never_takes_less() -> None:
    n = np.arange(1, 10_000).astype(np.float64)
    found = skinny_seconds(WAVE, 2.0, np.full_like(n, 8.0), n, np.full_like(n, 1024.0))
    assert (np.diff(found) >= -1e-18).all()
