"""Bytes of packed elements."""

import pytest

from roofcal.core.dtypes import BITS, nbytes


@pytest.mark.parametrize(
    ("dtype", "elements", "expected"),
    [("fp32", 3, 12), ("bf16", 3, 6), ("fp8_e4m3", 3, 3), ("int4", 3, 2), ("int4", 4, 2)],
)
def test_elements_are_packed_and_rounded_up(dtype: str, elements: int, expected: int) -> None:
    assert nbytes(dtype, elements) == expected


def test_every_width_is_a_power_of_two() -> None:
    assert all(bits & (bits - 1) == 0 for bits in BITS.values())


def test_an_unknown_dtype_is_an_error() -> None:
    with pytest.raises(KeyError):
        nbytes("fp7", 1)
