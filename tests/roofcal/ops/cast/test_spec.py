"""Least bytes of casts, by hand."""

import pytest

from roofcal.core.recipes import CAST_RECIPES
from roofcal.ops.cast.spec import OP, written_bytes


def scale_count(recipe: str, rows: int, cols: int) -> int:
    """Scales of all outputs of a cast."""
    return sum(scale.count(rows, cols) for scale in CAST_RECIPES[recipe])


@pytest.mark.parametrize(
    ("recipe", "per_element", "scales"),
    [
        ("fp8_tensorwise", 5, 1),  # read twice, written once
        ("fp8_rowwise_dim0", 3, 10),
        ("fp8_rowwise_dim1", 3, 20),
        ("fp8_rowwise_both", 4, 30),  # read once, written twice
    ],
)
def test_bytes_are_reads_writes_and_scales(recipe: str, per_element: int, scales: int) -> None:
    assert scale_count(recipe, 10, 20) == scales
    work = OP.work(recipe, {"rows": 10, "cols": 20})
    assert work.dram_bytes == per_element * 200 + 4 * scales
    assert work.flops == 0


@pytest.mark.parametrize(
    ("recipe", "per_element", "scales"),
    [
        ("mxfp8_dim0", 3, 40 * 3),  # 70 columns: two blocks of 32 and one of 6
        ("mxfp8_dim1", 3, 70 * 2),
        ("mxfp8_both", 4, 40 * 3 + 70 * 2),
    ],
)
def test_a_scale_of_mxfp8_is_one_byte_per_block(recipe: str, per_element: int, scales: int) -> None:
    assert scale_count(recipe, 40, 70) == scales
    outputs = per_element - 2  # the input is 2 bytes an element
    assert written_bytes(recipe, 40, 70) == outputs * 40 * 70 + scales
    work = OP.work(recipe, {"rows": 40, "cols": 70})
    assert work.dram_bytes == per_element * 40 * 70 + scales


@pytest.mark.parametrize(
    ("recipe", "scales"),
    [
        ("fp8_blockwise_1x128", 300 * 3),  # 260 columns: two blocks of 128 and one of 4
        ("fp8_blockwise_1x128_dim1", 260 * 3),
        ("fp8_blockwise_128x128", 3 * 3),
    ],
)
def test_a_scale_of_blocks_is_four_bytes(recipe: str, scales: int) -> None:
    assert scale_count(recipe, 300, 260) == scales
    work = OP.work(recipe, {"rows": 300, "cols": 260})
    assert work.dram_read_bytes == 2 * 300 * 260
    assert work.dram_write_bytes == 300 * 260 + 4 * scales


def test_a_layers_activation_is_tokens_by_k() -> None:
    assert OP.layer_shape is not None
    assert OP.layer_shape(16, 4096, 8192) == {"rows": 16, "cols": 8192}


def test_large_begins_at_sixteen_mebi_elements() -> None:
    assert OP.regime({"rows": 4096, "cols": 4095}) == "small"
    assert OP.regime({"rows": 4096, "cols": 4096}) == "large"
