"""What the report shows of empty kernels."""

from roofcal.ops.page import ConstantText, OpPage

PAGE = OpPage(
    title="Empty kernels",
    health=True,
    constants_prefix="",
    constants={
        "compute_units": ConstantText(
            label="Compute units", datasheet="compute_units", headline=True
        ),
        "launch_graph_s": ConstantText(label="Empty kernel in a graph", headline=True),
        "launch_eager_s": ConstantText(label="Empty kernel from the host", headline=True),
    },
)
