"""Times, rates and memory of a model that is deployed.

A request's first token comes from prefill, the others from output - 1 steps of decode. Intervals
hold the errors of the calibrated model, of its constants and of the stated assumptions on link and
attention, but not what a serving engine adds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from itertools import count, takewhile
from typing import Any, Final

from roofcal.ask.answers import Answer, Column, Part, Table, Verdict, filled
from roofcal.ask.energy import Prices, TokenCost, token_cost
from roofcal.ask.llm.deployment import (
    ONE_HOST,
    RESERVE,
    Deployment,
    Memory,
    active_parameters,
    check_parallel,
    check_shards,
    checked_memory,
    datasheet_of,
    parameters,
)
from roofcal.ask.llm.operator_models import operator_times
from roofcal.ask.llm.operator_times import OperatorTimes
from roofcal.ask.llm.operators import Operator, PhaseTime, Shard
from roofcal.core.times import Duration, Rate
from roofcal.core.units import GB
from roofcal.models import calibrated
from roofcal.ops.time_models import Sources

# Of one batch on one deployment; curves and sweeps add columns.
BATCH_COLUMNS: Final = (
    Column("batch", "{batch}"),
    Column("GB per GPU", "{needed_bytes_per_gpu:GB.1f}"),
    Column("first token", "{first_token_s:time}"),
    Column("per token", "{decode_step_s:time}"),
    Column("tokens/s each", "{request_tokens_per_s:.4g}"),
    Column("tokens/s", "{decode_tokens_per_s:.0f}"),
)
_OPERATOR_COLUMNS: Final = (
    Column("operator", "{operator}", left=True),
    *(
        column
        for phase, head in (("prefill", "prefill"), ("decode", "per token"))
        for column in (
            Column("ms", f"{{{phase}_s:ms three}}", group=head),
            Column(
                "95 %", f"{{{phase}_low_s:ms three}} to {{{phase}_high_s:ms three}}", group=head
            ),
            Column("share", f"{{{phase}_share:.1%}}", group=head),
            Column("bound by", f"{{{phase}_bound_by}}", left=True, group=head),
        )
    ),
)
_RATES: Final = {
    "request_tokens_per_s": "per request",
    "decode_tokens_per_s": "in decode",
    "output_tokens_per_s": "with prefill",
}


@dataclass(frozen=True, kw_only=True)
class Estimate(Answer):
    """Times and memory of a deployment by a model of time.

    Attributes:
        environment: of the calibration; None for a model that reads none.
        link: where the times of collectives come from; None where no GPUs are joined.
        assumed: what the model assumes of operators, one line each.
        costs: what a token costs while requests decode, and with prefill; where asked for.
        answer: everything as `roofcal llm --json` prints it.
    """

    deployment: Deployment
    device: str
    by: str
    environment: str | None
    memory: Memory
    prefill: PhaseTime
    decode: PhaseTime
    link: str | None
    assumed: tuple[str, ...]
    costs: Mapping[str, TokenCost] = field(default_factory=dict)

    @property
    def products_by(self) -> str:
        """The providers of the products; any: the model knows no providers."""
        names = f"{self.prefill.products_by}, {self.decode.products_by}".split(", ")
        return ", ".join(dict.fromkeys(filter(None, names))) or "any"

    @property
    def doublings(self) -> float:
        """How far the operator lies beyond the probes that lies farthest; 0 within."""
        phases = (self.prefill, self.decode)
        return max(operator.doublings for phase in phases for operator in phase.operators)

    @property
    def has_interval(self) -> bool:
        """Whether the model states intervals; else their ends are the values."""
        return self.by == calibrated.MODEL

    @property
    def first_token(self) -> Duration:
        """Seconds until every request has its first token."""
        return self.prefill.total

    @property
    def all_tokens(self) -> Duration:
        """Seconds until every request has all its tokens."""
        return self.prefill.total + self.decode.total * (self.deployment.output - 1)

    @property
    def request_tokens_per_s(self) -> Rate:
        """Tokens per second of one request while it decodes."""
        return self.decode.total.rate(1)

    @property
    def decode_tokens_per_s(self) -> Rate:
        """Tokens per second of all requests while they decode."""
        return self.decode.total.rate(self.deployment.batch)

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """Tokens per second of all requests while they decode, over the GPUs."""
        return self.decode_tokens_per_s.value / self.deployment.gpus

    @property
    def output_tokens_per_s(self) -> Rate:
        """Tokens of all outputs per second from first to last, prefill included."""
        return self.all_tokens.rate(self.deployment.batch * self.deployment.output)

    @property
    def record(self) -> dict[str, Any]:
        """JSON values in SI units, without operators; None for ends that are not stated."""
        deployment = self.deployment
        return {
            **deployment_record(deployment, self.memory),
            "parameters": parameters(deployment.model),
            "active_parameters": active_parameters(deployment.model),
            "device": self.device,
            "by": self.by,
            "environment": self.environment,
            "products_by": self.products_by,
            "chunk_tokens": deployment.chunk,
            "kv_cache_bytes_per_gpu": self.memory.kv_bytes,
            "activation_bytes_per_gpu": self.memory.activation_bytes,
            **self.interval("first_token", self.first_token),
            **self.interval("decode_step", self.decode.total),
            **{
                key: value
                for name in _RATES
                for key, value in self.interval(name, getattr(self, name)).items()
            },
            "extrapolated": self.doublings > 0,
            "extrapolated_doublings": self.doublings,
            "prefill_bound_by": self.prefill.bound_by,
            "decode_bound_by": self.decode.bound_by,
            "prefill_bubble": self.prefill.bubble,
            "decode_bubble": self.decode.bubble,
            "notes": self.notes(),
        }

    @property
    def answer(self) -> dict[str, Any]:
        """JSON values in SI units, with the operators of both phases."""
        costs = {name: asdict(cost) for name, cost in self.costs.items()}
        return {
            **self.record,
            "prefill": self._operators(self.prefill),
            "decode": self._operators(self.decode),
            **({"energy": costs} if costs else {}),
        }

    def interval(self, name: str, of: Duration | Rate) -> dict[str, float | None]:
        """A value and both ends by their keys; None for ends that are not stated."""
        value, *ends = astuple(of)
        low, high = ends if self.has_interval else (None, None)
        unit = "_s" if isinstance(of, Duration) else ""
        return {f"{name}{unit}": value, f"{name}_low{unit}": low, f"{name}_high{unit}": high}

    def _operators(self, phase: PhaseTime) -> list[dict[str, Any]]:
        return [
            {
                "operator": operator.name,
                "calls": operator.calls,
                **self.interval("call", operator.duration),
                **self.interval("total", operator.total),
                "bound_by": operator.bound_by,
                "provider": operator.provider or None,
                "extrapolated_doublings": operator.doublings,
                "unprobed": operator.is_unprobed,
            }
            for operator in phase.operators
        ]

    def parts(self) -> Iterator[Part]:
        """The rate of a request; deployment, memory, times, rates, operators, assumptions."""
        deployment, memory, record = self.deployment, self.memory, self.record
        rate = filled("Each request gets {request_tokens_per_s: four} tokens/s", record)
        ends = " (95 %: {request_tokens_per_s_low: four} to {request_tokens_per_s_high: four})"
        together = ", all {batch} together {decode_tokens_per_s: four}" * (deployment.batch > 1)
        after = filled("{first_token_s:time}", record)
        yield Verdict(
            f"{rate}{filled(ends + together, record)} in decode, its first token after {after}."
        )
        yield self.where
        yield f"batch {deployment.batch}, {self.load}"
        yield ""
        yield filled(
            "memory       {needed_bytes_per_gpu:GB.1f} of {usable_bytes_per_gpu:GB.1f} GB per GPU "
            f"({memory.parts}); largest batch {memory.largest_batch}",
            record,
        )
        between = " (95 %: {{{0}_low_s:time}} to {{{0}_high_s:time}})".format
        first, then = (filled(between(name), record) for name in ("first_token", "decode_step"))
        yield filled(
            f"first token  {{first_token_s:time}}{first}, mostly bound by {{prefill_bound_by}}",
            record,
        )
        yield filled(
            f"per token    {{decode_step_s:time}}{then}, mostly bound by {{decode_bound_by}}, "
            f"at {deployment.mean_context:.0f} tokens of context",
            record,
        )
        rates = ", ".join(
            filled(f"{{{name}: four}}", record)
            + filled(f" ({{{name}_low: four}} to {{{name}_high: four}})", record)
            + f" {when}"
            for name, when in _RATES.items()
        )
        several = f"; {self.tokens_per_s_per_gpu:.4g} per GPU in decode"
        yield f"tokens/s     {rates}{several if deployment.gpus > 1 else ''}"
        if deployment.pipeline > 1:
            bubbles = self.prefill.bubble, self.decode.bubble
            yield "bubble       {:.1%} of prefill, {:.1%} of decode".format(*bubbles)
        yield ""
        yield Table(self._operator_rows(), _OPERATOR_COLUMNS)
        yield ""
        yield from self.notes()
        yield from (f"{name}: {cost.text}" for name, cost in self.costs.items())

    @property
    def where(self) -> str:
        """The model in its recipe, and the GPUs."""
        cut = f"(tp {self.deployment.tensor}, pp {self.deployment.pipeline})"
        return f"{self.what} on {self.deployment.gpus} x {self.device} {cut}"

    @property
    def what(self) -> str:
        """The model with its size, and the recipe."""
        model = self.deployment.model
        size = f"{parameters(model) / GB:.1f}e9 parameters"
        if model.architecture and model.architecture.experts:
            size += f", {active_parameters(model) / GB:.1f}e9 per token"
        return f"{model.model} ({size}) in {self.deployment.recipe}"

    @property
    def load(self) -> str:
        """The tokens of a request, and whose times they are."""
        origin = f"by {self.by}, which states no interval"
        if self.environment:
            origin = f"calibrated {self.environment}"
        return f"prompt {self.deployment.prompt}, output {self.deployment.output}; {origin}"

    def _operator_rows(self) -> list[dict[str, Any]]:
        """A row per operator: prefill on the left, one step of decode on the right."""
        rows: dict[str, dict[str, Any]] = {}
        names = [f"{phase}_{key}" for phase in ("prefill", "decode")
                 for key in ("s", "low_s", "high_s", "share", "bound_by")]  # fmt: skip
        for phase, time in (("prefill", self.prefill), ("decode", self.decode)):
            total = Operator(name="total", calls=1, duration=time.total, bound_by="")
            for one in (*time.operators, total):
                row = rows.setdefault(one.name, dict.fromkeys(names) | {"operator": one.name})
                row |= self.interval(phase, one.total)
                row[f"{phase}_share"] = one.total.value_s / time.total.value_s
                row[f"{phase}_bound_by"] = one.bound_by
        total_row = rows.pop("total")  # operators of decode alone come behind that of prefill
        return [*rows.values(), total_row]

    def notes(self) -> list[str]:
        """What the answer assumes, one line each."""
        return notes_of_all([self])

    def own_notes(self) -> list[str]:
        """What differs between the cuts and batches of a model, but for what is extrapolated."""
        gpus = self.deployment.gpus
        lines = [] if self.link is None else [self.link]
        if gpus > ONE_HOST:
            lines.append(
                "link: assumed to be as fast between hosts as within one, where "
                f"{gpus} GPUs take several hosts"
            )
        first, then = self.prefill.products_by, self.decode.products_by
        if first and first == then:
            lines.append(f"products by {first}")
        elif first:
            lines.append(f"products of prefill by {first}; of decode by {then}")
        return [*lines, *self.assumed]


def notes_of_all(answers: Sequence[Estimate]) -> list[str]:
    """What any of several answers of one model assumes, one line each, links first.

    A line that is not true of all ends with the recipes, cuts or batches that it holds for. What is
    extrapolated differs from answer to answer, and is summed up.
    """
    holding: dict[str, list[Estimate]] = {}
    for answer in answers:
        for line in answer.own_notes():
            holding.setdefault(line, []).append(answer)
    linked = [answer for answer in answers if answer.link is not None]
    lines = [
        line + _whose(own, linked if own[0].link == line else answers)
        for line, own in holding.items()
    ]
    return [
        *sorted(lines, key=lambda line: not line.startswith("link:")),
        *_extrapolated_notes(answers),
        *(f"left out: {line}" for line in answers[0].deployment.model.left_out),
        f"{RESERVE:.0%} of the memory kept in reserve; "
        "kernels in graphs, none fused or overlapped; what a serving engine adds is left out",
    ]


def _whose(own: Sequence[Estimate], answers: Sequence[Estimate]) -> str:
    """The recipes, cuts or batches of some among several answers, in brackets; "" of all."""
    if len(own) == len(answers):
        return ""
    if len({answer.deployment.recipe for answer in answers}) > 1:
        return f" (in {', '.join(answer.deployment.recipe for answer in own)})"
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
        batches.setdefault(cut, []).append(deployment.batch)
    return batches


def _extrapolated_notes(answers: Sequence[Estimate]) -> Iterator[str]:
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
            names = list(dict.fromkeys(o.name for _, o in beyond))
            which = f", {farthest.name} farthest" if names[1:] else ""
            yield (
                f"extrapolated: {', '.join(names)} of {name} ({' to '.join(ends)} of its time), "
                f"{farthest.doublings:.1f} doublings outside the probed range{which}"
                f"{_whose([farthest_of], answers)}; intervals there are wider"
            )
        unprobed = [
            (answer, o) for answer, phase in phases for o in phase.operators if o.is_unprobed
        ]
        if unprobed:
            own = list({id(answer): answer for answer, _ in unprobed}.values())
            yield (
                f"no probe is like {', '.join(dict.fromkeys(o.name for _, o in unprobed))} of "
                f"{name}; the intervals shown are the widest that any provider has for such shapes"
                f"{_whose(own, answers)}"
            )


def deployment_record(deployment: Deployment, memory: Memory) -> dict[str, Any]:
    """What is deployed, and what its fullest GPU holds, as JSON values."""
    return {
        "model": deployment.model.model,
        "recipe": deployment.recipe,
        "tensor_parallel": deployment.tensor,
        "pipeline_parallel": deployment.pipeline,
        "prompt_tokens": deployment.prompt,
        "output_tokens": deployment.output,
        "batch": deployment.batch,
        "largest_batch": memory.largest_batch,
        "weight_bytes_per_gpu": memory.weight_bytes,
        "needed_bytes_per_gpu": memory.needed_bytes,
        "usable_bytes_per_gpu": memory.usable_bytes,
    }


def estimate(
    deployment: Deployment,
    sources: Sources,
    by: str = calibrated.MODEL,
    times: OperatorTimes | None = None,
    prices: Prices | None = None,
) -> Estimate:
    """The estimate of a deployment by a model of time, one of MODELS.

    times: those of operator_times for equal sources, recipe and model, where they are at hand.
    prices: costs are asked for.

    Raises PredictError for degrees that do not divide the model or leave shards that no kernel of
    the recipe takes, a model that does not fit, and a recipe, link or device that lacks a constant
    or a datasheet.
    """
    check_parallel(deployment.model, deployment.tensor, deployment.pipeline)
    times = times or operator_times(sources, deployment.recipe, by)
    check_shards(deployment, sources, by)
    link = times.link(deployment.link, deployment.tensor, deployment.pipeline)
    memory = checked_memory(deployment, sources, by)
    shard = Shard(deployment, times, link)
    calibration = sources.calibration if by == calibrated.MODEL else None
    answer = Estimate(
        deployment=deployment,
        device=datasheet_of(sources).device,
        by=by,
        environment=calibration.environment_id if calibration else None,
        memory=memory,
        prefill=shard.prefill(),
        decode=shard.decode(),
        link=link.provenance,
        assumed=tuple(times.assumptions(deployment.recipe)),
    )
    if prices is None:
        return answer
    rates = {"decode": answer.decode_tokens_per_s, "with prefill": answer.output_tokens_per_s}
    costs = {
        phase: token_cost(sources, deployment.gpus / rate.value, prices, by)
        for phase, rate in rates.items()
    }
    return replace(answer, costs=costs)


def estimates_by_batch(
    deployment: Deployment,
    sources: Sources,
    by: str = calibrated.MODEL,
    factor: int = 2,
    times: OperatorTimes | None = None,
) -> list[Estimate]:
    """Estimates of batches 1, `factor`, ... and the largest that fits; arguments as in estimate."""
    times = times or operator_times(sources, deployment.recipe, by)
    largest = checked_memory(replace(deployment, batch=1), sources, by).largest_batch
    powers = takewhile(lambda batch: batch < largest, (factor**power for power in count()))
    batches = [replace(deployment, batch=batch) for batch in (*powers, largest)]
    # One by one the operators of the table of an H200 took 7 of its 10 s.
    times.prepare(lambda asked: [estimate(batch, sources, by, asked) for batch in batches])
    return [estimate(batch, sources, by, times) for batch in batches]
