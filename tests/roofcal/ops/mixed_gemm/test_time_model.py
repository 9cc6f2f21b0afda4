"""Three roofs: bytes as the spec counts them, each roof binds where it should, crossings blend."""

import numpy as np
import pytest

from roofcal.model.recipes import WEIGHT_ONLY_RECIPES
from roofcal.ops.mixed_gemm.spec import OP
from roofcal.ops.mixed_gemm.time_model import CONSTANTS, TOKENS_AT_ONCE, evaluate, least_bytes

INT4 = "int4_groupwise_g128"
# of the size of an H200's
RATES = {"fixed_s": 2e-6, "bytes_per_s": 4e12, "weights_per_s": 2e13, "flops_per_s": 6e14}


def one(tokens: float, n: float = 28672, k: float = 8192, **changes: float) -> tuple[float, str]:
    sizes = (np.array([size]) for size in (tokens, n, k))
    parts = evaluate(RATES | changes, INT4, *sizes)
    return float(parts.total[0]), parts.bound_by[0]


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


def test_a_roof_far_above_the_others_costs_nothing() -> None:
    total, _ = one(1, weights_per_s=1e15, flops_per_s=1e18)
    weights = float(least_bytes(INT4, *(np.array([float(s)]) for s in (1, 28672, 8192)))[0])
    assert total == pytest.approx(2e-6 + weights / 4e12, rel=1e-6)


def test_two_equal_roofs_cost_a_fifth_more_than_one() -> None:
    moved = float(least_bytes(INT4, *(np.array([float(s)]) for s in (1, 28672, 8192)))[0])
    rate = 28672 * 8192 / (moved / 4e12)
    total, _ = one(1, weights_per_s=rate, flops_per_s=1e18, fixed_s=1e-12)
    assert total == pytest.approx(2**0.25 * moved / 4e12, rel=1e-4)


def test_weights_are_turned_to_floats_again_for_every_block_of_tokens() -> None:
    slow = {"weights_per_s": 1e10, "fixed_s": 1e-12}
    first, again = one(TOKENS_AT_ONCE, **slow)[0], one(TOKENS_AT_ONCE + 1, **slow)[0]
    assert again == pytest.approx(2 * first, rel=1e-6)


def test_time_never_falls_with_size_nor_rises_with_a_rate() -> None:
    times = [one(tokens)[0] for tokens in (1, 8, 9, 64, 65, 256)]
    assert times == sorted(times)
    for name in CONSTANTS:
        if name != "fixed_s":
            assert one(64, **{name: 2 * RATES[name]})[0] < one(64)[0]
