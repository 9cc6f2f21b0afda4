"""An estimate and a curve of estimates as text for people."""

from collections.abc import Iterator, Sequence
from typing import Final

from roofcal.ask.llm.architecture import active_parameters, parameters
from roofcal.ask.llm.estimate import Estimate, Stretch
from roofcal.ask.llm.memory import RESERVE
from roofcal.ask.llm.prices import ATTENTION_SHARE
from roofcal.core.units import GB, format_seconds
from roofcal.models.duration import Duration, Rate

_HEADER: Final = ("ms", "95 %", "share", "bound by")
_CURVE: Final = (
    "batch", "GB per GPU", "first token", "per token", "tokens/s each", "tokens/s", "95 %",
)  # fmt: skip
_ONE_HOST: Final = 8


def sentences(found: Estimate) -> str:
    """The whole answer: what was asked, whether it fits, times, rates, operators, remarks."""
    lines = [*_head(found), "", *_operator_lines(found), "", *notes(found)]
    return "\n".join(line.rstrip() for line in lines)


def curve_lines(found: Sequence[Estimate]) -> str:
    """Throughput against latency: one line per batch."""
    rows = [_CURVE, *(_curve_row(estimate) for estimate in found)]
    lines = [_asked(found[0]), _served(found[0], "batch from 1 to the largest that fits"), ""]
    lines += [*_aligned(rows, left=()), "", *notes(found[0])]
    return "\n".join(line.rstrip() for line in lines)


def _head(found: Estimate) -> Iterator[str]:
    memory, load = found.memory, found.question.workload
    yield _asked(found)
    yield _served(found, f"batch {load.batch}")
    yield ""
    yield (
        f"memory       {memory.needed_bytes / GB:.1f} of {memory.usable_bytes / GB:.1f} GB per GPU "
        f"({memory.parts}); largest batch {memory.largest_batch}"
    )
    yield f"first token  {_span(found.first_token)}, mostly {found.prefill.bound_by}"
    yield (
        f"per token    {_span(found.decode.total)}, mostly {found.decode.bound_by}, "
        f"at {load.mean_context:.0f} tokens of context"
    )
    yield (
        f"tokens/s     {_number(found.request_tokens_per_s)} per request, "
        f"{_number(found.decode_tokens_per_s)} in decode, "
        f"{_number(found.output_tokens_per_s)} with prefill"
    )
    if found.question.pipeline > 1:
        idle = (found.prefill.bubble, found.decode.bubble)
        yield f"bubble       {idle[0]:.1%} of prefill, {idle[1]:.1%} of decode"


def _asked(found: Estimate) -> str:
    asked = found.question
    total, active = parameters(asked.model), active_parameters(asked.model)
    experts = asked.model.architecture and asked.model.architecture.experts
    size = f"{total / GB:.1f}e9 parameters"
    size += f", {active / GB:.1f}e9 per token" if experts else ""
    return (
        f"{asked.model.model} ({size}) in {asked.recipe} on {asked.gpus} x {found.device} "
        f"(tp {asked.tensor}, pp {asked.pipeline})"
    )


def _served(found: Estimate, batch: str) -> str:
    load = found.question.workload
    return f"{batch}, prompt {load.prompt}, output {load.output}; calibrated {found.environment}"


def notes(found: Estimate) -> list[str]:
    """What was assumed rather than calibrated, one line each."""
    share = ATTENTION_SHARE
    lines = [] if found.link is None else [found.link]
    if found.question.gpus > _ONE_HOST:
        lines.append(
            f"link: taken to be as fast between hosts, if {found.question.gpus} GPUs need several"
        )
    lines.append(
        f"attention: assumed {share.value:g} ({share.low:g} to {share.high:g}) of the datasheet's "
        "bf16 rate; KV cache in bf16 at the calibrated read bandwidth"
    )
    if found.question.recipe == "int4":
        lines.append(
            "int4: weights of 4.25 bit (groups of 128), math in bf16; priced by memory bandwidth "
            "and the bf16 model, no int4 kernel was measured"
        )
    lines.append(
        f"{RESERVE:.0%} of the memory kept in reserve; "
        "kernels in graphs, none fused or overlapped; what a serving engine adds is left out"
    )
    return lines


def _operator_lines(found: Estimate) -> list[str]:
    """A line per operator: prefill on the left, one step of decode on the right."""
    stretches = (found.prefill, found.decode)
    names = list(dict.fromkeys(o.name for stretch in stretches for o in stretch.operators))
    rows = [["", "prefill", "", "", "", "per token", "", "", ""], ["operator", *_HEADER, *_HEADER]]
    rows += [[name, *_cells(found.prefill, name), *_cells(found.decode, name)] for name in names]
    rows.append(["total", *_total(found.prefill), *_total(found.decode)])
    return _aligned(rows, left=(0, 4, 8))


def _cells(stretch: Stretch, name: str) -> list[str]:
    for operator in stretch.operators:
        if operator.name == name:
            share = operator.total.value_s / stretch.total.value_s
            return [*_milliseconds(operator.total), f"{share:.1%}", operator.bound_by]
    return ["", "", "", ""]


def _total(stretch: Stretch) -> list[str]:
    return [*_milliseconds(stretch.total), "100.0%", ""]


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


def _curve_row(found: Estimate) -> tuple[str, ...]:
    rate = found.decode_tokens_per_s
    return (
        str(found.question.workload.batch),
        f"{found.memory.needed_bytes / GB:.1f}",
        format_seconds(found.first_token.value_s),
        format_seconds(found.decode.total.value_s),
        f"{found.request_tokens_per_s.value:.4g}",
        f"{rate.value:.0f}",
        f"{rate.low:.0f} to {rate.high:.0f}",
    )


def _aligned(rows: Sequence[Sequence[str]], left: Sequence[int]) -> list[str]:
    """Rows of equal length as lines, columns in `left` flush left and the others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def _span(duration: Duration) -> str:
    value, low, high = map(format_seconds, (duration.value_s, duration.low_s, duration.high_s))
    return f"{value} (95 %: {low} to {high})"


def _number(rate: Rate) -> str:
    return f"{rate.value:.4g} ({rate.low:.4g} to {rate.high:.4g})"
