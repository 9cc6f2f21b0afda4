"""What the report shows of products whose A is gathered from several devices."""

from roofcal.ops.page import OpPage

PAGE = OpPage(
    meaning="C[M,N] = A[M,K] B[N,K]ᵀ with the rows of A gathered from several devices",
    title="All-gather and product",
    time_includes="Times exclude casts: both operands lie in their format beforehand.",
    time_note="without casts",
    colours={"bf16": "blue", "fp8_axiswise": "green"},
    markers={"symm_mem_fused": "^", "torch_fused": "X"},
)
