"""Estimates as text for people: one deployment in full, or one line per batch."""

from collections.abc import Iterator, Sequence
from typing import Final

from roofcal.ask.llm.architecture import active_parameters, parameters
from roofcal.ask.llm.deployment import RESERVE
from roofcal.ask.llm.estimate import Estimate, PhaseTime
from roofcal.ask.llm.operator_times import ATTENTION_SHARE
from roofcal.core.times import Duration, Rate
from roofcal.core.units import GB, format_seconds

_HEADER: Final = ("ms", "95 %", "share", "bound by")
_BATCH_HEADER: Final = (
    "batch", "GB per GPU", "first token", "per token", "tokens/s each", "tokens/s", "95 %",
)  # fmt: skip
_ONE_HOST: Final = 8


def estimate_text(estimate: Estimate) -> str:
    """The whole answer: deployment, memory, times, rates, operators, assumptions."""
    lines = [*_summary(estimate), "", *_operator_lines(estimate), "", *assumptions(estimate)]
    return "\n".join(line.rstrip() for line in lines)


def batches_text(estimates: Sequence[Estimate]) -> str:
    """Throughput against latency: one line per batch."""
    first = estimates[0]
    rows = [_BATCH_HEADER, *(_batch_row(estimate) for estimate in estimates)]
    load = _load_line(first, "batch from 1 to the largest that fits")
    lines = [_deployment_line(first), load, "", *_aligned(rows, left=()), "", *assumptions(first)]
    return "\n".join(line.rstrip() for line in lines)


def _summary(estimate: Estimate) -> Iterator[str]:
    memory, load = estimate.memory, estimate.deployment.workload
    yield _deployment_line(estimate)
    yield _load_line(estimate, f"batch {load.batch}")
    yield ""
    yield (
        f"memory       {memory.needed_bytes / GB:.1f} of {memory.usable_bytes / GB:.1f} GB per GPU "
        f"({memory.parts}); largest batch {memory.largest_batch}"
    )
    prefill, decode = estimate.prefill, estimate.decode
    yield f"first token  {_seconds_with_interval(prefill.total)}, mostly {prefill.bound_by}"
    yield (
        f"per token    {_seconds_with_interval(decode.total)}, mostly {decode.bound_by}, "
        f"at {load.mean_context:.0f} tokens of context"
    )
    yield (
        f"tokens/s     {_rate_with_interval(estimate.request_tokens_per_s)} per request, "
        f"{_rate_with_interval(estimate.decode_tokens_per_s)} in decode, "
        f"{_rate_with_interval(estimate.output_tokens_per_s)} with prefill"
    )
    if estimate.deployment.pipeline > 1:
        yield f"bubble       {prefill.bubble:.1%} of prefill, {decode.bubble:.1%} of decode"


def _deployment_line(estimate: Estimate) -> str:
    deployment, model = estimate.deployment, estimate.deployment.model
    size = f"{parameters(model) / GB:.1f}e9 parameters"
    if model.architecture and model.architecture.experts:
        size += f", {active_parameters(model) / GB:.1f}e9 per token"
    return (
        f"{model.model} ({size}) in {deployment.recipe} on {deployment.gpus} x {estimate.device} "
        f"(tp {deployment.tensor}, pp {deployment.pipeline})"
    )


def _load_line(estimate: Estimate, batch: str) -> str:
    load = estimate.deployment.workload
    return f"{batch}, prompt {load.prompt}, output {load.output}; calibrated {estimate.environment}"


def assumptions(estimate: Estimate) -> list[str]:
    """What was assumed rather than calibrated, one line each."""
    share = ATTENTION_SHARE
    lines = [] if estimate.link is None else [estimate.link]
    if estimate.deployment.gpus > _ONE_HOST:
        lines.append(
            "link: assumed to be as fast between hosts as within one, where "
            f"{estimate.deployment.gpus} GPUs take several hosts"
        )
    lines.append(
        f"attention: assumed {share.value:g} ({share.low:g} to {share.high:g}) of the datasheet's "
        "bf16 rate; KV cache in bf16 at the calibrated read bandwidth"
    )
    if estimate.deployment.recipe == "int4":
        lines.append(
            "int4: weights of 4.25 bit (groups of 128), math in bf16; priced by memory bandwidth "
            "and the bf16 model, no int4 kernel was measured"
        )
    lines.append(
        f"{RESERVE:.0%} of the memory kept in reserve; "
        "kernels in graphs, none fused or overlapped; what a serving engine adds is left out"
    )
    return lines


def _operator_lines(estimate: Estimate) -> list[str]:
    """A line per operator: prefill on the left, one step of decode on the right."""
    prefill, decode = estimate.prefill, estimate.decode
    names = dict.fromkeys(o.name for phase in (prefill, decode) for o in phase.operators)
    rows = [["", "prefill", "", "", "", "per token", "", "", ""], ["operator", *_HEADER, *_HEADER]]
    rows += [[n, *_operator_cells(prefill, n), *_operator_cells(decode, n)] for n in names]
    rows.append(["total", *_total_cells(prefill), *_total_cells(decode)])
    return _aligned(rows, left=(0, 4, 8))


def _operator_cells(phase: PhaseTime, name: str) -> list[str]:
    for operator in phase.operators:
        if operator.name == name:
            share = operator.total.value_s / phase.total.value_s
            return [*_milliseconds(operator.total), f"{share:.1%}", operator.bound_by]
    return ["", "", "", ""]


def _total_cells(phase: PhaseTime) -> list[str]:
    return [*_milliseconds(phase.total), "100.0%", ""]


def _milliseconds(duration: Duration) -> tuple[str, str]:
    seconds = (duration.value_s, duration.low_s, duration.high_s)
    value, low, high = (_three_digits(s * 1e3) for s in seconds)
    return value, f"{low} to {high}"


def _three_digits(number: float) -> str:
    """Three digits, and no more than three places: 1112, 80.4, 2.15, 0.147, 0.001."""
    for least, places in ((100, 0), (10, 1), (1, 2)):
        if number >= least:
            return f"{number:.{places}f}"
    return f"{number:.3f}"


def _batch_row(estimate: Estimate) -> tuple[str, ...]:
    rate = estimate.decode_tokens_per_s
    return (
        str(estimate.deployment.workload.batch),
        f"{estimate.memory.needed_bytes / GB:.1f}",
        format_seconds(estimate.first_token.value_s),
        format_seconds(estimate.decode.total.value_s),
        f"{estimate.request_tokens_per_s.value:.4g}",
        f"{rate.value:.0f}",
        f"{rate.low:.0f} to {rate.high:.0f}",
    )


def _aligned(rows: Sequence[Sequence[str]], left: Sequence[int]) -> list[str]:
    """Rows of equal length as lines; columns in `left` are flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def _seconds_with_interval(duration: Duration) -> str:
    value, low, high = map(format_seconds, (duration.value_s, duration.low_s, duration.high_s))
    return f"{value} (95 %: {low} to {high})"


def _rate_with_interval(rate: Rate) -> str:
    return f"{rate.value:.4g} ({rate.low:.4g} to {rate.high:.4g})"
