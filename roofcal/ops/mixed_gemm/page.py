"""What the report shows of products with narrow weights."""

from roofcal.ops.page import ConstantText, OpPage

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
    constants={
        "narrow_family": ConstantText(
            label="How the provider's kernels cut a product with narrow weights"
        ),
        "fixed_s": ConstantText(label="Start of a product with narrow weights"),
        "bytes_per_s": ConstantText(
            label="Bandwidth of narrow weights", datasheet="dram_bytes_per_s"
        ),
        "weights_per_s": ConstantText(label="Weights turned to floats"),
        "flops_per_s": ConstantText(label="Rate of products with narrow weights"),
        "block_columns": ConstantText(label="Columns that a block's start and end cost"),
        "beside": ConstantText(label="What a further block on a multiprocessor takes longer"),
        "ragged": ConstantText(label="What tokens off a multiple of 8 cost more"),
        "turn_s": ConstantText(label="Start of a turn of blocks"),
        "block_s": ConstantText(label="End of a turn of blocks of 64 tokens"),
        "halving_s": ConstantText(label="Halving K"),
        "part_s": ConstantText(label="Joining the parts of K of a tile of 128 x 128"),
        "direct_s": ConstantText(label="Start of a turn of warps that stream weights"),
        "unit_s": ConstantText(label="A warp's wait for 128 columns of weights"),
    },
)
