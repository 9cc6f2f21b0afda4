"""A sweep over cuts and batches, for people and for programs."""

from typing import Any, Final

from roofcal.ask.aligned import aligned
from roofcal.ask.llm.csv_table import as_dict
from roofcal.ask.llm.sweep import Sweep, frontier
from roofcal.ask.llm.text_report import assumptions_of_all, batch_cells, model_line, origin
from roofcal.core.units import GB

_HEADER: Final = (
    "tp", "pp", "GPUs", "batch", "GB per GPU", "first token", "per token", "tokens/s each",
    "tokens/s", "per GPU", "",
)  # fmt: skip


def sweep_text(sweep: Sweep) -> str:
    """One line per cut and batch; a star where no other line is better in latency and rate."""
    answers = sweep.answers
    best = {id(answer) for answer in frontier(answers)}
    rows: list[tuple[str, ...]] = [_HEADER]
    for answer in answers:
        deployment = answer.deployment
        rows.append(
            (
                *map(str, (deployment.tensor, deployment.pipeline, deployment.gpus)),
                *batch_cells(answer),
                f"{answer.tokens_per_s_per_gpu:.0f}",
                "*" if id(answer) in best else "",
            )
        )
    first, load = answers[0], answers[0].deployment.workload
    refused = [
        f"tp {tensor} pp {pipeline}: does not fit, one request needs "
        f"{memory.needed_bytes / GB:.1f} of {memory.usable_bytes / GB:.1f} GB per GPU"
        for (tensor, pipeline), memory in sweep.too_large.items()
    ]
    refused += [f"not timed: {reason}" for reason in sweep.refused.values()]
    lines = [
        f"{model_line(first)} on {first.device}",
        f"prompt {load.prompt}, output {load.output}; {origin(first)}",
        "",
        *aligned(rows, left=()),
        *refused,
        "",
        "* no other line has both more tokens/s per GPU and less time per token",
        *assumptions_of_all(answers),
    ]
    return "\n".join(line.rstrip() for line in lines)


def sweep_as_dict(sweep: Sweep) -> dict[str, Any]:
    """JSON values in SI units: the answers, and the cuts that do not hold one request or run."""
    best = {id(answer) for answer in frontier(sweep.answers)}
    return {
        "sweep": [
            as_dict(answer, operators=False)
            | {"tokens_per_s_per_gpu": answer.tokens_per_s_per_gpu, "frontier": id(answer) in best}
            for answer in sweep.answers
        ],
        "too_large": [
            {
                "tensor_parallel": tensor,
                "pipeline_parallel": pipeline,
                "needed_bytes_per_gpu": memory.needed_bytes,
                "usable_bytes_per_gpu": memory.usable_bytes,
            }
            for (tensor, pipeline), memory in sweep.too_large.items()
        ],
        "refused": [
            {"tensor_parallel": tensor, "reason": reason}
            for tensor, reason in sweep.refused.items()
        ],
    }
