"""What the report shows of empty kernels: all that there is of a model."""

from roofcal.ops.constants import Constant, OpPage, by_name

PAGE = OpPage(
    title="Empty kernels",
    health=True,
    constants_prefix="",
    constants=by_name(
        Constant("compute_units", "1", "Compute units", datasheet="compute_units", headline=True),
        Constant("launch_graph_s", "s", "Empty kernel in a graph", headline=True),
        Constant("launch_eager_s", "s", "Empty kernel from the host", headline=True),
    ),
)
