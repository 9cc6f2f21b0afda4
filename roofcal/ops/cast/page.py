"""What the report shows of casts."""

from roofcal.ops.page import ConstantText, OpPage

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
    constants={
        "cast_family": ConstantText(label="How the provider's kernels block a cast"),
        "fixed_s": ConstantText(label="Start of a cast"),
        "fill_s": ConstantText(label="Start of many programs, beyond that of one"),
        "further_s": ConstantText(label="Each further kernel or loop of a cast"),
        "bytes_per_s": ConstantText(
            label="Bandwidth of a large cast", datasheet="dram_bytes_per_s"
        ),
        "cached_bytes_per_s": ConstantText(label="Bandwidth of a cached cast"),
        "misaligned": ConstantText(label="Slow-down of sizes that loads of 16 bytes do not take"),
        "padded_loads": ConstantText(label="Narrow loads of padded rows, over what memory takes"),
        "uneven": ConstantText(label="Slow-down of rows of the result off its lines"),
        "extra_columns": ConstantText(label="Columns that narrow matrices seem to have more"),
        "fork_s": ConstantText(label="Sharing out the passes of a cast"),
        "serial_bytes_per_s": ConstantText(label="Bandwidth of what one thread does alone"),
        "near_bytes": ConstantText(label="Casts that stay in the cache"),
        "row_s": ConstantText(label="End of a row off 64 elements"),
    },
)
