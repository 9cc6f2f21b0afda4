"""What the report shows of casts."""

from roofcal.ops.cast.model import CONSTANTS, FAMILY
from roofcal.ops.constant import Constant, by_name
from roofcal.ops.page import OpPage

PAGE = OpPage(
    meaning="turns bf16 into fp8 with scales from the data",
    title="Casts to fp8",
    colours={
        "fp8_tensorwise": "vermillion",
        "fp8_rowwise_dim0": "green",
        "fp8_rowwise_dim1": "sky",
        "fp8_rowwise_both": "purple",
        "mxfp8_dim0": "blue",
        "mxfp8_dim1": "orange",
        "mxfp8_both": "grey",
        "fp8_blockwise_1x128": "olive",
        "fp8_blockwise_1x128_dim1": "wine",
        "fp8_blockwise_128x128": "ink",
    },
    markers={"torch_eager": "s", "torch_compile": "D", "triton": "^"},
    constants=by_name(Constant(FAMILY, "code", "How the provider's kernels block a cast"))
    | CONSTANTS,
)
