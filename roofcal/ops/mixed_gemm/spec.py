"""C[M,N] = A[M,K] @ B[N,K].T for few tokens M: which format of the weights B is read fastest.

bf16, fp8_tensorwise, fp8_axiswise   as in op gemm: both operands in the format
fp8_weight_only                      weights fp8 with one scale per row, activations bf16
int4_groupwise_g<group>              weights int4 with a bf16 scale per group, activations bf16
..._asymmetric                       and with a zero point per group

Bytes count packed weights, scales, zero points, activations and output.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from roofcal.core.recipes import RECIPES, WEIGHT_ONLY_RECIPES
from roofcal.ops.gemm import spec as gemm
from roofcal.ops.spec import OpSpec

CONTENDERS: Final = ("bf16", "fp8_tensorwise", "fp8_axiswise")
INT4_PROVIDERS: Final = ("triton", "triton_chained", "triton_specialised", "tinygemm", "gemlite")


def has_pair(provider: str, recipe: str) -> bool:
    """Whether the bench has products of a recipe by a provider."""
    is_int4 = recipe not in CONTENDERS and RECIPES[recipe].b.dtype == "int4"
    if provider in INT4_PROVIDERS:
        return is_int4
    if provider == "cublaslt":
        return recipe in CONTENDERS
    return provider == "torch_cpu" or not is_int4


def size_multiples(provider: str, recipe: str) -> Mapping[str, int]:
    """What the bench refuses: int4 weights lie in units of 128 columns, tinygemm's of 16 rows."""
    if recipe in CONTENDERS:
        return gemm.size_multiples(provider, recipe)
    packed = {"k": 128} if RECIPES[recipe].b.dtype == "int4" else {}
    return packed | ({"n": 16} if provider == "tinygemm" else {})


def least_sizes(provider: str, recipe: str) -> Mapping[str, int]:
    """What providers take at least: axis -> size."""
    return {"m": 17} if provider == "triton_specialised" else {}


OP = OpSpec(
    name="mixed_gemm",
    role="study",
    axes=("m", "n", "k"),
    recipes=(*CONTENDERS, *WEIGHT_ONLY_RECIPES),
    providers={
        "cuda": (
            "cublaslt",
            *INT4_PROVIDERS,
            "torch_compile",
        ),
        "cpu": ("torch_cpu", "triton", "tinygemm"),
    },
    work=gemm.work,
    regime=gemm.regime,
    layer_shape=gemm.layer_shape,
    baseline_recipe="bf16",
    computes="product",
    has_pair=has_pair,
    size_multiples=size_multiples,
    least_sizes=least_sizes,
    calibrated_on=("probe_math", "probe_mixed_gemm"),
)
# Random products of few tokens with narrow weights, disjoint from every shape of the study.
PROBE = replace(OP, name="probe_mixed_gemm", role="probe", calibrates=OP.name, layer_shape=None)
