"""Why no calibrated model answers for a block: no probe says how fast its attention is.

The linears of a block could be added up (roofcal.ops.linear.model), its norms and residuals too.
Attention could not: it is 7 % of the operations of a block of Llama-3 70B at 8192 tokens and 13 %
of Llama-3 8B, more of the time because it stays in bf16, and no probe runs its kernels, so that
neither a value nor an end of its interval would be identified. The datasheet's model answers, by
the least work of the whole op.
"""

from dataclasses import replace

from roofcal.core.records import PlanPoint
from roofcal.ops.linear import model as linear
from roofcal.ops.time_models import Model, Sources

PAGE = replace(
    linear.PAGE,
    meaning="forward and backward of a block of a language model: norms, attention, SwiGLU",
    title="Blocks of language models",
    time_includes="Times are those of forward and backward of the whole block, its casts included; "
    "its attention and norms are in bf16 under every recipe.",
    time_note="whole block, with casts",
)


def why_unanswered(model: Model, point: PlanPoint, sources: Sources) -> str:  # noqa: ARG001
    """What to say where a model has no answer."""
    return "no probe says how fast attention is; ask for its linears (op linear), or the datasheet"
