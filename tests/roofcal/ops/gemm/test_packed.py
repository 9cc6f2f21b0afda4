"""The equation of products on a processor: hand arithmetic, limits and monotony."""

import numpy as np
import pytest

from roofcal.core.recipes import GEMM_RECIPES
from roofcal.ops.gemm.model import ProductParts, packed_parts
from roofcal.ops.gemm.tiles import FAMILIES, PackedFamily

CONSTANTS = {
    "launch_s": 2e-6,
    "side_s": 1e-8,
    "tile_flops_per_s": 2e11,
    "direct_flops_per_s": 5e10,
    "dram_bytes_per_s": 2e10,
    "pack_a_bytes_per_s": 3e10,
    "pack_b_bytes_per_s": 1e10,
}
CORES = 2


def parts(
    m: int, n: int, k: int, changed: dict[str, float] | None = None, recipe: str = "fp32"
) -> ProductParts:
    m_, n_, k_ = (np.array([float(size)]) for size in (m, n, k))
    return packed_parts(CONSTANTS | (changed or {}), recipe, (m_, n_, k_), CORES)


def seconds(
    m: int, n: int, k: int, changed: dict[str, float] | None = None, recipe: str = "fp32"
) -> float:
    return float(parts(m, n, k, changed, recipe).total[0])


def test_a_packed_product_by_hand() -> None:
    copied = 4 * 512 * 256 / 3e10 + 4 * 1024 * 256 / 1e10
    multiplied = 2 * 512 * 1024 * 256 / (2 * 2e11)
    begun = 2e-6 + 1e-8 * (512 + 1024)
    assert seconds(512, 1024, 256) == pytest.approx(begun + copied + multiplied)
    written = 4 * 512 * 1024 / 5e9
    stored = seconds(512, 1024, 256, {"update_bytes_per_s": 5e9})
    assert stored == pytest.approx(begun + copied + multiplied + written)


def test_one_rate_may_pack_both_operands() -> None:
    apart = {"pack_a_bytes_per_s": 1e10, "pack_b_bytes_per_s": 1e10}
    alike = {"pack_a_bytes_per_s": 1e30, "pack_b_bytes_per_s": 1e30, "pack_bytes_per_s": 1e10}
    assert seconds(300, 400, 500, apart) == pytest.approx(seconds(300, 400, 500, alike))


def test_few_rows_are_multiplied_without_packing() -> None:
    one_row = 2e-6 + 1e-8 * 2049 + 4 * 2048 * 2048 / 2e10 + 2 * 2048 * 2048 / 5e10
    assert seconds(1, 2048, 2048) == pytest.approx(one_row)
    assert parts(1, 2048, 2048).bound_by == ["dram"]
    never = {"direct_flops_per_s": 1e-30}
    assert seconds(1, 2048, 2048) < seconds(1, 2048, 2048, never)
    assert seconds(64, 2048, 2048) == seconds(64, 2048, 2048, never)


def test_weights_beyond_the_near_ones_are_slower_by_up_to_a_factor() -> None:
    far = {"near_bytes": 4e6, "far": 0.5, "launch_s": 0.0, "side_s": 0.0}
    far |= {"tile_flops_per_s": 1e30, "direct_flops_per_s": 1e-30}
    plain = far | {"far": 0.0}
    assert seconds(512, 1000, 1000, far) == seconds(512, 1000, 1000, plain)
    slower = seconds(512, 2000, 1000, far) / seconds(512, 2000, 1000, plain)
    assert slower == pytest.approx(1 + 0.5 * (1 - 4e6 / 8e6))


@pytest.mark.parametrize("recipe", GEMM_RECIPES)
def test_more_rows_never_take_less_time(recipe: str) -> None:
    times = [seconds(m, 2048, 1024, recipe=recipe) for m in range(1, 200)]
    assert times == sorted(times)


def test_a_missing_constant_that_every_product_needs_is_named() -> None:
    lacking = {name: value for name, value in CONSTANTS.items() if name != "dram_bytes_per_s"}
    size = np.array([64.0])
    with pytest.raises(KeyError, match="dram_bytes_per_s"):
        packed_parts(lacking, "fp32", (size, size, size), CORES)


def test_every_family_of_processors_has_what_the_equation_cannot_do_without() -> None:
    packed = [family for family in FAMILIES.values() if isinstance(family, PackedFamily)]
    assert len(packed) > 1
    for family in packed:
        assert {"launch_s", "tile_flops_per_s", "dram_bytes_per_s"} <= set(family.constants)
