"""What the report shows of blocks of language models."""

from dataclasses import replace

from roofcal.ops.linear import page as linear

PAGE = replace(
    linear.PAGE,
    meaning="forward and backward of a block of a language model: norms, attention, SwiGLU",
    title="Blocks of language models",
    time_includes="Times are those of forward and backward of the whole block, its casts included; "
    "its attention and norms are in bf16 under every recipe.",
    time_note="whole block",
)
