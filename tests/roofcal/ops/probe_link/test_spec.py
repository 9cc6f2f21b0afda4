"""What the link probe declares."""

import pytest

from roofcal.ops.probe_link.model import COLLECTIVES
from roofcal.ops.probe_link.spec import OP, RECIPES


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_collective_is_about_its_whole_vector_and_computes_nothing(recipe: str) -> None:
    work = OP.work(recipe, {"size_bytes": 4096})
    assert (work.link_bytes, work.flops, work.dram_bytes) == (4096, 0, 0)


def test_regimes_part_at_a_mebibyte() -> None:
    assert [OP.regime({"size_bytes": size}) for size in (4096, 1 << 20)] == ["small", "large"]


def test_every_collective_has_a_name_among_the_constants() -> None:
    assert set(COLLECTIVES) == set(RECIPES)
