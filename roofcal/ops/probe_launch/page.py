"""What the report shows of empty kernels."""

from roofcal.ops.constant import Constant, by_name
from roofcal.ops.page import OpPage

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
