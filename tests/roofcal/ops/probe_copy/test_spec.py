"""Bytes that streams move."""

import pytest

from roofcal.ops.probe_copy.spec import OP


@pytest.mark.parametrize(
    ("recipe", "read", "written"), [("read", 64, 0), ("write", 0, 64), ("copy", 64, 64)]
)
def test_a_stream_moves_its_buffer(recipe: str, read: int, written: int) -> None:
    work = OP.work(recipe, {"size_bytes": 64})
    assert (work.dram_read_bytes, work.dram_write_bytes) == (read, written)


def test_large_begins_at_64_mib() -> None:
    assert OP.regime({"size_bytes": (1 << 26) - 1}) == "small"
    assert OP.regime({"size_bytes": 1 << 26}) == "large"
