"""Numbers as people read them."""

import pytest

from roofcal.core.units import GIB, format_bytes, format_seconds


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (GIB, "1 GiB"), (2048 * GIB, "2 TiB")],
)
def test_bytes(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3e-9, "3 ns"), (3.25e-6, "3.25 us"), (0.0125, "12.5 ms"), (90.0, "90 s")],
)
def test_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
