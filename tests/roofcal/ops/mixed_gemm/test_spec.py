"""Least bytes of products with narrow weights, by hand."""

import pytest

from roofcal.core.recipes import RECIPES
from roofcal.ops.gemm.spec import OP as GEMM
from roofcal.ops.mixed_gemm.spec import CONTENDERS, OP

M, N, K = 16, 3584, 8192


@pytest.mark.parametrize(
    ("recipe", "weights"),
    [
        ("bf16", 2 * N * K),
        ("fp8_tensorwise", N * K + 4),
        ("fp8_weight_only", N * K + 4 * N),
        ("int4_groupwise_g32", N * K // 2 + 2 * N * K // 32),
        ("int4_groupwise_g64", N * K // 2 + 2 * N * K // 64),
        ("int4_groupwise_g128", N * K // 2 + 2 * N * K // 128),
        ("int4_groupwise_g64_asymmetric", N * K // 2 + 4 * N * K // 64),
    ],
)
def test_bytes_are_packed_weights_scales_zeros_activations_and_output(
    recipe: str, weights: int
) -> None:
    work = OP.work(recipe, {"m": M, "n": N, "k": K})
    activations = M * K + 4 if recipe == "fp8_tensorwise" else 2 * M * K
    assert work.dram_read_bytes == weights + activations
    assert work.dram_write_bytes == 2 * M * N
    assert work.flops == 2 * M * N * K


@pytest.mark.parametrize("recipe", CONTENDERS)
def test_contenders_do_the_work_of_op_gemm(recipe: str) -> None:
    shape = {"m": M, "n": N, "k": K}
    assert OP.work(recipe, shape) == GEMM.work(recipe, shape)


def test_narrow_weights_are_multiplied_in_bf16() -> None:
    for name in set(OP.recipes) - set(CONTENDERS):
        assert RECIPES[name].math_dtype == "bf16"
        assert RECIPES[name].a.dtype == "bf16"


def test_a_layers_tokens_are_the_rows_of_a() -> None:
    assert OP.layer_shape is not None
    assert OP.layer_shape(16, N, K) == {"m": 16, "n": N, "k": K}
    assert OP.regime({"m": 16, "n": N, "k": K}) == "decode"
