"""The empty kernel does nothing."""

import pytest

from roofcal.ops.probe_launch.spec import OP


def test_nothing_is_computed_and_nothing_moved() -> None:
    work = OP.work("empty", {"grid": 1})
    assert (work.flops, work.dram_bytes) == (0, 0)
    assert OP.regime({"grid": 1}) == "launch"


def test_there_is_one_recipe() -> None:
    with pytest.raises(KeyError):
        OP.work("full", {"grid": 1})
