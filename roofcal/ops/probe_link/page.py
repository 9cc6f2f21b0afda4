"""What the report shows of links between devices."""

from roofcal.ops.page import ConstantText, OpPage

PAGE = OpPage(
    title="Links between devices",
    colours={
        "all_gather": "blue",
        "reduce_scatter": "vermillion",
        "all_reduce": "green",
        "copy_engine_peer": "grey",
    },
    markers={"nccl": "o", "symm_mem": "^", "gloo": "o"},
    constants_prefix="link",
    constants={
        "bytes_per_s": ConstantText(label="Rate of the link", datasheet="link_bytes_per_s"),
        "latency_s": ConstantText(label="Latency over the link"),
    },
)
