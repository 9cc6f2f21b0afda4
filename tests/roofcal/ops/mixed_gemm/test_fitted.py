"""Constants of narrow weights are found by their names, and give the model's times."""

import numpy as np
import pytest

from roofcal.core.records import Ceiling
from roofcal.ops.mixed_gemm.fitted import FAMILY, pairs, parts
from roofcal.ops.mixed_gemm.model import FAMILIES, evaluate

RATES = {"fixed_s": 2e-6, "bytes_per_s": 4e12, "weights_per_s": 2e13, "flops_per_s": 6e14}
G64 = "int4_groupwise_g64"


def known(value: float) -> Ceiling:
    return Ceiling(value=value, ci95_low=value, ci95_high=value, unit="1", evidence="made up")


def constants(family: str, **changes: float) -> dict[str, Ceiling]:
    own = RATES | {FAMILY: float(FAMILIES[family].code)} | changes
    named = {f"mixed_gemm.triton.{G64}.{name}": known(value) for name, value in own.items()}
    return {"compute_units": known(132), "gemm.triton.bf16.tile_family": known(1)} | named


@pytest.mark.parametrize("family", FAMILIES)
def test_times_are_those_of_the_family_that_was_chosen(family: str) -> None:
    sizes = (np.array([16.0]), np.array([3584.0]), np.array([8192.0]))
    found = parts(constants(family, block_columns=500.0), "triton", G64, sizes)
    expected = evaluate(RATES | {"block_columns": 500.0}, family, 132, G64, sizes)
    assert found.total == expected.total


def test_pairs_are_those_with_a_family() -> None:
    assert pairs(constants("no_blocks")) == [("triton", G64)]
    assert pairs({}) == []


def test_a_pair_that_was_not_calibrated_is_refused() -> None:
    one = np.ones(1)
    with pytest.raises(KeyError, match="tinygemm"):
        parts(constants("no_blocks"), "tinygemm", G64, (one, one, one))
