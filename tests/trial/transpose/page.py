"""What the report shows of transposes."""

from roofcal.ops.constant import Constant, by_name
from roofcal.ops.page import OpPage
from roofcal.ops.transpose.model import CONSTANTS, FAMILY

PAGE = OpPage(
    meaning="turns rows into columns",
    title="Transposes",
    colours={"bf16": "blue"},
    constants=by_name(Constant(FAMILY, "code", "How the provider's kernels take rows")) | CONSTANTS,
)
