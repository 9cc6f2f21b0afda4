"""What the report shows of linears."""

from roofcal.ops.page import OpPage

PAGE = OpPage(
    meaning="forward and backward of y = x wᵀ: three products and their casts",
    title="Linears",
    time_includes="Times are those of forward and backward, and include the casts of x, w and the "
    "gradient of y.",
    time_note="with casts",
    colours={
        "bf16": "blue",
        "fp8_tensorwise": "vermillion",
        "fp8_axiswise": "green",
        "fp8_axiswise_bf16_grad_weight": "sky",
        "fp8_blockwise_128x128": "ink",
        "mxfp8": "purple",
    },
    markers={
        "bf16_compile": "o",
        "triton": "^",
        "triton_products": "<",
        "triton_inputs": ">",
        "torchao": "X",
        "torch_cpu": "o",
    },
)
