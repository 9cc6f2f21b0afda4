"""What the report shows of links between devices."""

from roofcal.ops.constant import Constant, by_name
from roofcal.ops.page import OpPage

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
    constants=by_name(
        Constant("bytes_per_s", "B/s", "Rate of the link", datasheet="link_bytes_per_s"),
        Constant("latency_s", "s", "Latency over the link"),
    ),
)
