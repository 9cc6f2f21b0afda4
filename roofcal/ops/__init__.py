"""The ops of the study. To add one: its folder here, its name in OPS, its sweep file, its test."""

from typing import Final

from roofcal.ops.all_gather_matmul.spec import OP as ALL_GATHER_MATMUL
from roofcal.ops.cast.spec import OP as CAST
from roofcal.ops.gemm.spec import OP as GEMM
from roofcal.ops.linear.spec import OP as LINEAR
from roofcal.ops.mixed_gemm.spec import OP as MIXED_GEMM
from roofcal.ops.norm_linear_sigmoid.spec import OP as NORM_LINEAR_SIGMOID
from roofcal.ops.probe_cast.spec import OP as PROBE_CAST
from roofcal.ops.probe_copy.spec import OP as PROBE_COPY
from roofcal.ops.probe_launch.spec import OP as PROBE_LAUNCH
from roofcal.ops.probe_link.spec import OP as PROBE_LINK
from roofcal.ops.probe_math.spec import OP as PROBE_MATH
from roofcal.ops.probe_mixed_gemm.spec import OP as PROBE_MIXED_GEMM
from roofcal.ops.spec import OpSpec

OPS: Final[tuple[OpSpec, ...]] = (
    PROBE_LAUNCH,
    PROBE_COPY,
    PROBE_MATH,
    PROBE_CAST,
    PROBE_MIXED_GEMM,
    PROBE_LINK,
    GEMM,
    CAST,
    MIXED_GEMM,
    LINEAR,
    NORM_LINEAR_SIGMOID,
    ALL_GATHER_MATMUL,
)
BY_NAME: Final[dict[str, OpSpec]] = {op.name: op for op in OPS}
