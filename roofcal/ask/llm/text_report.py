"""Estimates as text for people: one deployment in full, or one line per batch."""

from collections.abc import Iterator, Sequence
from typing import Final

from roofcal.ask.aligned import aligned
from roofcal.ask.llm.architecture import active_parameters, parameters
from roofcal.ask.llm.deployment import RESERVE
from roofcal.ask.llm.estimate import Estimate, PhaseTime
from roofcal.core.times import Duration, Rate
from roofcal.core.units import GB, format_seconds

_INTERVAL: Final = "95 %"
_HEADER: Final = ("ms", _INTERVAL, "share", "bound by")
_BATCH_HEADER: Final = (
    "batch", "GB per GPU", "first token", "per token", "tokens/s each", "tokens/s", _INTERVAL,
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
    table = aligned(_shown_columns(rows, first.has_interval), left=())
    lines = [_deployment_line(first), load, "", *table, "", *assumptions_of_all(estimates)]
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
    stated, per_gpu = estimate.has_interval, ""
    if estimate.deployment.gpus > 1:
        per_gpu = f"; {estimate.tokens_per_s_per_gpu:.4g} per GPU in decode"
    yield f"first token  {_seconds(prefill.total, stated)}, mostly {prefill.bound_by}"
    yield (
        f"per token    {_seconds(decode.total, stated)}, mostly {decode.bound_by}, "
        f"at {load.mean_context:.0f} tokens of context"
    )
    yield (
        f"tokens/s     {_rate(estimate.request_tokens_per_s, stated)} per request, "
        f"{_rate(estimate.decode_tokens_per_s, stated)} in decode, "
        f"{_rate(estimate.output_tokens_per_s, stated)} with prefill{per_gpu}"
    )
    if estimate.deployment.pipeline > 1:
        yield f"bubble       {prefill.bubble:.1%} of prefill, {decode.bubble:.1%} of decode"


def _deployment_line(estimate: Estimate) -> str:
    deployment = estimate.deployment
    return (
        f"{model_line(estimate)} on {deployment.gpus} x {estimate.device} "
        f"(tp {deployment.tensor}, pp {deployment.pipeline})"
    )


def model_line(estimate: Estimate) -> str:
    """The model with its size, and the recipe."""
    model = estimate.deployment.model
    size = f"{parameters(model) / GB:.1f}e9 parameters"
    if model.architecture and model.architecture.experts:
        size += f", {active_parameters(model) / GB:.1f}e9 per token"
    return f"{model.model} ({size}) in {estimate.deployment.recipe}"


def _load_line(estimate: Estimate, batch: str) -> str:
    load = estimate.deployment.workload
    return f"{batch}, prompt {load.prompt}, output {load.output}; {origin(estimate)}"


def origin(estimate: Estimate) -> str:
    """Whose times they are."""
    if estimate.environment:
        return f"calibrated {estimate.environment}"
    return f"by {estimate.by}, which states no interval"


def assumptions(estimate: Estimate) -> list[str]:
    """What the answer assumes, one line each."""
    return [*_own_lines(estimate), *_extrapolated_lines([estimate]), *_shared_lines(estimate)]


def _own_lines(estimate: Estimate) -> list[str]:
    """What differs between the cuts and batches of a model, but for what is extrapolated."""
    lines = [] if estimate.link is None else [estimate.link]
    if estimate.deployment.gpus > _ONE_HOST:
        lines.append(
            "link: assumed to be as fast between hosts as within one, where "
            f"{estimate.deployment.gpus} GPUs take several hosts"
        )
    if estimate.products_by != "any":
        lines.append(_products_line(estimate))
    return [*lines, *estimate.assumed]


def _shared_lines(estimate: Estimate) -> list[str]:
    """What holds for every cut and batch of a model."""
    return [
        *(f"left out: {line}" for line in estimate.deployment.model.left_out),
        f"{RESERVE:.0%} of the memory kept in reserve; "
        "kernels in graphs, none fused or overlapped; what a serving engine adds is left out",
    ]


def assumptions_of_all(answers: Sequence[Estimate]) -> list[str]:
    """What any of several answers of one model assumes, one line each, links first.

    A line that is not true of all ends with the cuts or batches that it holds for. What is
    extrapolated differs from answer to answer, and is summed up.
    """
    holding: dict[str, list[Estimate]] = {}
    for answer in answers:
        for line in _own_lines(answer):
            holding.setdefault(line, []).append(answer)
    linked = [answer for answer in answers if answer.link is not None]
    lines = [
        line + _whose(own, linked if own[0].link == line else answers)
        for line, own in holding.items()
    ]
    lines.sort(key=lambda line: not line.startswith("link:"))
    return [*lines, *_extrapolated_lines(answers), *_shared_lines(answers[0])]


def _whose(own: Sequence[Estimate], answers: Sequence[Estimate]) -> str:
    """The cuts or batches of some among several answers, in brackets; "" where it is all."""
    if len(own) == len(answers):
        return ""
    batches, every = _batches_by_cut(own), _batches_by_cut(answers)
    if all(batches[cut] == every[cut] for cut in batches):
        return f" (tp x pp: {', '.join(batches)})"
    listed = {cut: f"batch {', '.join(map(str, of_cut))}" for cut, of_cut in batches.items()}
    if len(every) == 1:
        return f" ({', '.join(listed.values())})"
    return f" (tp x pp: {'; '.join(f'{cut}, {text}' for cut, text in listed.items())})"


def _batches_by_cut(answers: Sequence[Estimate]) -> dict[str, list[int]]:
    batches: dict[str, list[int]] = {}
    for deployment in (answer.deployment for answer in answers):
        cut = f"{deployment.tensor} x {deployment.pipeline}"
        batches.setdefault(cut, []).append(deployment.workload.batch)
    return batches


def _products_line(estimate: Estimate) -> str:
    """Whose products are in prefill and in decode."""
    by_phase = [
        ", ".join(dict.fromkeys(filter(None, (operator.provider for operator in phase.operators))))
        for phase in (estimate.prefill, estimate.decode)
    ]
    if by_phase[0] == by_phase[1]:
        return f"products by {by_phase[0]}"
    return f"products of prefill by {by_phase[0]}; of decode by {by_phase[1]}"


def _extrapolated_lines(answers: Sequence[Estimate]) -> Iterator[str]:
    """Which operators of any answer lie beyond the probes of the calibration."""
    for name in ("prefill", "decode"):
        phases = [(answer, getattr(answer, name)) for answer in answers]
        beyond = [(answer, o) for answer, phase in phases for o in phase.operators if o.doublings]
        if beyond:
            farthest_of, farthest = max(beyond, key=lambda pair: pair[1].doublings)
            shares = [
                sum(o.total.value_s for o in phase.operators if o.doublings) / phase.total.value_s
                for _, phase in phases
            ]
            ends = dict.fromkeys(f"{share:.0%}" for share in (min(shares), max(shares)))
            yield (
                f"extrapolated: {', '.join(dict.fromkeys(o.name for _, o in beyond))} of {name}, "
                f"{' to '.join(ends)} of its time; {farthest.name} lies {farthest.doublings:.1f} "
                f"doublings beyond every probe{_whose([farthest_of], answers)}; their intervals "
                "are wider"
            )
        unprobed = [(answer, o) for answer, phase in phases for o in phase.operators
                    if o.is_unprobed]  # fmt: skip
        if unprobed:
            own = list({id(answer): answer for answer, _ in unprobed}.values())
            yield (
                f"no probe is like {', '.join(dict.fromkeys(o.name for _, o in unprobed))} of "
                f"{name}; intervals there are the widest that such shapes have with any provider"
                f"{_whose(own, answers)}"
            )


def _operator_lines(estimate: Estimate) -> list[str]:
    """A line per operator: prefill on the left, one step of decode on the right."""
    prefill, decode = estimate.prefill, estimate.decode
    names = dict.fromkeys(o.name for phase in (prefill, decode) for o in phase.operators)
    rows = [["", "prefill", "", "", "", "per token", "", "", ""], ["operator", *_HEADER, *_HEADER]]
    rows += [[n, *_operator_cells(prefill, n), *_operator_cells(decode, n)] for n in names]
    rows.append(["total", *_total_cells(prefill), *_total_cells(decode)])
    shown = _shown_columns(rows, estimate.has_interval)
    return aligned(shown, left=(0, 4, 8) if estimate.has_interval else (0, 3, 6))


def _shown_columns(rows: Sequence[Sequence[str]], has_interval: bool) -> list[Sequence[str]]:
    """Without the columns of intervals where the model states none; the last header names them."""
    header = next(row for row in rows if _INTERVAL in row)
    shown = [place for place, name in enumerate(header) if has_interval or name != _INTERVAL]
    return [[row[place] for place in shown] for row in rows]


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
    return (*batch_cells(estimate), f"{rate.low:.0f} to {rate.high:.0f}")


def batch_cells(estimate: Estimate) -> tuple[str, ...]:
    """Batch, GB per GPU, first token, time per token, tokens/s of a request and of all."""
    return (
        str(estimate.deployment.workload.batch),
        f"{estimate.memory.needed_bytes / GB:.1f}",
        format_seconds(estimate.first_token.value_s),
        format_seconds(estimate.decode.total.value_s),
        f"{estimate.request_tokens_per_s.value:.4g}",
        f"{estimate.decode_tokens_per_s.value:.0f}",
    )


def _seconds(duration: Duration, has_interval: bool) -> str:
    value, low, high = map(format_seconds, (duration.value_s, duration.low_s, duration.high_s))
    return f"{value} (95 %: {low} to {high})" if has_interval else value


def _rate(rate: Rate, has_interval: bool) -> str:
    interval = f" ({rate.low:.4g} to {rate.high:.4g})" if has_interval else ""
    return f"{rate.value:.4g}{interval}"
