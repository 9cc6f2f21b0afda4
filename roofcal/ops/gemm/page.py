"""What the report shows of matrix products."""

from roofcal.ops.constant import Constant, by_name
from roofcal.ops.gemm.model import CEILING, FAMILY, TABLE
from roofcal.ops.page import OpPage

PAGE = OpPage(
    meaning="C[M,N] = A[M,K] B[N,K]ᵀ",
    title="Matrix products",
    time_includes="Times exclude the casts to the narrow format: this is what the products alone "
    "allow.",
    time_note="without casts",
    is_headline=True,
    health=True,
    library_providers=("cublaslt", "torch_cpu"),
    colours={
        "bf16": "blue",
        "fp32": "grey",
        "int8": "purple",
        "fp8_tensorwise": "vermillion",
        "fp8_tensorwise_slow_accum": "orange",
        "fp8_axiswise": "green",
        "fp8_axiswise_slow_accum": "sky",
        "fp8_blockwise_128x128": "ink",
    },
    markers={"cublaslt": "o", "torch_cpu": "o", "triton": "^"},
    constants=by_name(
        Constant(CEILING, "flop/s", "Fastest probe", datasheet="peak", headline=True),
        TABLE["sustained_flops_per_s"],
        Constant("sustained_sm_clock_hz", "Hz", "Clock under load", headline=True),
        Constant(
            "sustained_power_w", "W", "Power under load", datasheet="power_limit_w", headline=True
        ),
        Constant(FAMILY, "code", "Tiles the library chooses from"),
    )
    | TABLE,
)
PROBE_PAGE = OpPage(health=True)
