"""Three roofs: bytes as the spec counts them, each roof binds where it should, crossings blend.

What our own kernels take, test_constants.py holds to written values.
"""

import numpy as np
import pytest

from roofcal.core.recipes import WEIGHT_ONLY_RECIPES
from roofcal.ops.kernel_rules import int4
from roofcal.ops.mixed_gemm.model import (
    CONSTANTS,
    FAMILIES,
    NarrowParts,
    evaluate,
    least_bytes,
    our_blocks,
)
from roofcal.ops.mixed_gemm.spec import OP

INT4 = "int4_groupwise_g128"
TILED = "tiles"
UNITS = 132
# of the size of an H200's
RATES = {
    "fixed_s": 2e-6,
    "bytes_per_s": 4e12,
    "weights_per_s": 2e13,
    "flops_per_s": 6e14,
    "block_columns": 1000.0,
    "waiting_s": 6e-8,
    "slot_s": 5e-8,
    "pass_bytes_per_s": 3e12,
    "ragged": 0.3,
    "turn_s": 2e-6,
    "joining_s": 1e-6,
    "unit_s": 5e-7,
    "direct_s": 2e-6,
}
OURS = ("ours", "ours_chained")
SPECIALISED = "ours_specialised"


def parts(
    tokens: float, n: float = 28672, k: float = 8192, family: str = "turned_once", **changes: float
) -> NarrowParts:
    m_, n_, k_ = (np.array([size]) for size in (tokens, n, k))
    return evaluate(RATES | changes, family, INT4, (m_, n_, k_), UNITS)


def one(tokens: float, n: float = 28672, k: float = 8192, **changes: float) -> tuple[float, str]:
    seconds_of_parts = parts(tokens, n, k, "turned_once", **changes)
    return float(seconds_of_parts.total[0]), seconds_of_parts.bound_by[0]


@pytest.mark.parametrize("recipe", WEIGHT_ONLY_RECIPES)
def test_bytes_are_those_of_the_spec(recipe: str) -> None:
    shapes = [(1, 3584, 8192), (16, 1000, 256), (256, 8192, 28672)]
    m, n, k = np.array(shapes, dtype=float).T
    expected = [OP.work(recipe, dict(zip("mnk", s, strict=True))).dram_bytes for s in shapes]
    assert least_bytes(recipe, m, n, k).tolist() == expected


def test_every_roof_binds_somewhere() -> None:
    assert one(1)[1] == "dram"
    assert one(16, weights_per_s=1e12)[1] == "slots"
    assert one(256, flops_per_s=1e14)[1] == "math"
    assert one(1, n=64, k=128)[1] == "launch"


def test_blocks_are_the_smallest_that_hold_the_tokens_and_are_computed_whole() -> None:
    math = {tokens: float(parts(tokens, family=TILED).math[0]) for tokens in (3, 8, 9, 16, 33, 64)}
    assert math[3] == math[8]
    assert math[9] == math[16] > math[8]
    assert math[33] == math[64]


@pytest.mark.parametrize("family", FAMILIES)
def test_time_never_falls_with_tokens_nor_rises_with_a_rate(family: str) -> None:
    # whole blocks: our kernels take other blocks, not only more of them, for tokens between
    steps = (1, 8, 64, 128, 256) if family in OURS else (1, 8, 9, 64, 65, 256)
    if family == SPECIALISED:
        steps = (17, 32, 64, 128, 256, 512)
    times = [float(parts(tokens, family=family).total[0]) for tokens in steps]
    assert times == sorted(times)
    for name in FAMILIES[family].constants:
        now = float(parts(steps[-3], family=family).total[0])
        more = float(parts(steps[-3], family=family, **{name: 2 * RATES[name]}).total[0])
        if name.endswith("per_s") or name in ("fixed_s", "bytes_per_s", "block_columns"):
            assert (more < now) == name.endswith("per_s")
        else:
            assert more >= now  # not in every product


def test_every_constant_is_of_a_family() -> None:
    assert {name for family in FAMILIES.values() for name in family.constants} == set(CONSTANTS)


def test_unknown_names_and_missing_constants_are_refused() -> None:
    sizes = (np.ones(1), np.ones(1), np.ones(1))
    with pytest.raises(KeyError, match="no_tiles"):
        evaluate(RATES, "no_tiles", INT4, sizes, UNITS)
    with pytest.raises(KeyError, match="bf16"):
        evaluate(RATES, "no_blocks", "bf16", sizes, UNITS)
    without_blocks = {name: value for name, value in RATES.items() if name != "block_columns"}
    with pytest.raises(KeyError, match="block_columns"):
        evaluate(without_blocks, TILED, INT4, sizes, UNITS)
    for rule, recipe in (("int8", INT4), ("int4", "bf16")):
        with pytest.raises(KeyError, match=r"int8|bf16"):
            our_blocks(rule, recipe, sizes, UNITS)


def test_the_spec_knows_from_how_many_tokens_the_specialised_kernel_runs() -> None:
    least = OP.least_sizes("triton_specialised", INT4)["m"]
    weights = int4.WeightSizes(rows=4096, k=4096, group=128)
    assert int4.for_many_tokens(weights, least - 1) is None
    assert int4.for_many_tokens(weights, least) is not None


def test_a_pass_that_converts_and_the_product_behind_it_bind_apart() -> None:
    fixed, dram, slots, math, total = np.array([[1.0], [5.0], [3.0], [3.0], [9.0]])
    parts = NarrowParts(fixed, dram, slots, math, total)
    assert parts.bound_by == ["slots"]
    assert parts._replace(converts=True).bound_by == ["dram"]
