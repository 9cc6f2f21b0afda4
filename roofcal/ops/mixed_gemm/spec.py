"""C[M,N] = A[M,K] @ B[N,K].T for few tokens M: which format of the weights B is read fastest.

bf16, fp8_tensorwise, fp8_axiswise   as in op gemm: both operands in the format
fp8_weight_only                      weights fp8 with one scale per row, activations bf16
int4_groupwise_g<group>              weights int4 with a bf16 scale per group, activations bf16
..._asymmetric                       and with a zero point per group

Bytes count packed weights, scales, zero points, activations and output.
"""

from dataclasses import replace
from typing import Final

from roofcal.core.recipes import RECIPES, WEIGHT_ONLY_RECIPES
from roofcal.core.work import Work, gemm_work
from roofcal.ops.gemm import spec as gemm
from roofcal.ops.spec import OpSpec, Shape

CONTENDERS: Final = ("bf16", "fp8_tensorwise", "fp8_axiswise")


def work(recipe: str, shape: Shape) -> Work:
    """Least work of a product; raises KeyError for an unknown recipe or a missing axis."""
    return gemm_work(RECIPES[recipe], shape["m"], shape["n"], shape["k"])


OP = OpSpec(
    name="mixed_gemm",
    role="study",
    axes=("m", "n", "k"),
    recipes=(*CONTENDERS, *WEIGHT_ONLY_RECIPES),
    providers={
        "cuda": ("cublaslt", "triton", "triton_chained", "tinygemm", "gemlite", "torch_compile"),
        "cpu": ("torch_cpu", "triton", "tinygemm"),
    },
    work=work,
    regime=gemm.regime,
    layer_shape=gemm.layer_shape,
    baseline_recipe="bf16",
    computes="product",
)
# Random products of few tokens with narrow weights, disjoint from every shape of the study.
PROBE = replace(OP, name="probe_mixed_gemm", role="probe", calibrates=OP.name, layer_shape=None)
