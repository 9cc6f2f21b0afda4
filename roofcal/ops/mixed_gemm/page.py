"""What the report shows of products with narrow weights."""

from roofcal.ops.constant import Constant, by_name
from roofcal.ops.mixed_gemm.model import CONSTANTS, FAMILY
from roofcal.ops.page import OpPage

PAGE = OpPage(
    meaning="C[M,N] = A[M,K] B[N,K]ᵀ for few tokens M, with the weights B in fewer bits",
    title="Products with narrow weights",
    time_includes="Times exclude casts: all operands lie in their format beforehand.",
    time_note="without casts",
    colours={
        "bf16": "blue",
        "fp8_tensorwise": "vermillion",
        "fp8_axiswise": "green",
        "fp8_weight_only": "grey",
        "int4_groupwise_g32": "orange",
        "int4_groupwise_g64": "sky",
        "int4_groupwise_g128": "purple",
        "int4_groupwise_g64_asymmetric": "ink",
    },
    markers={
        "cublaslt": "o",
        "torch_cpu": "o",
        "triton": "^",
        "triton_chained": "*",
        "triton_specialised": "X",
        "tinygemm": "v",
        "gemlite": "P",
        "torch_compile": "D",
    },
    constants=by_name(
        Constant(FAMILY, "code", "How the provider's kernels cut a product with narrow weights")
    )
    | {name: constant for name, constant in CONSTANTS.items() if name != "unit_s"}
    | {"unit_s": CONSTANTS["unit_s"]},  # behind the turns that warps wait in
)
