"""What the report shows of transposes."""

from roofcal.ops.page import ConstantText, OpPage

PAGE = OpPage(
    meaning="turns rows into columns",
    title="Transposes",
    colours={"bf16": "blue"},
    constants={
        "transpose_family": ConstantText(label="How the provider's kernels take rows"),
        "fixed_s": ConstantText(label="Start of a transpose"),
        "bytes_per_s": ConstantText(label="Bandwidth of a transpose", datasheet="dram_bytes_per_s"),
    },
)
