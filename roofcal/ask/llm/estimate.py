"""Prefill, decode and throughput of a model from the operators of one GPU.

prefill  passes of at most `chunk` tokens run one after another; with p pipeline stages, m passes
         take m + p - 1 turns of the longest stage: a bubble of (p - 1) / (m + p - 1)
         (GPipe, 2018-11)
decode   the batch is divided into min(p, batch) groups that follow one another through the stages;
         a token takes p turns, and stages without a group idle: a bubble of 1 - groups / p. The
         context is the mean one, prompt + output / 2
A request's first token comes from prefill, the others from output - 1 steps of decode.

The ends of intervals add up (roofcal.core.times). They hold the errors of the calibrated
model, of its constants and of the stated assumptions on link and attention, but not what a serving
engine adds.
"""

from dataclasses import dataclass, replace
from typing import Final

from roofcal.ask.energy import Prices, TokenCost, token_cost
from roofcal.ask.llm.architecture import check_parallel, longest_stage
from roofcal.ask.llm.deployment import Deployment, Memory, checked_memory, with_batch
from roofcal.ask.llm.operator_models import operator_times
from roofcal.ask.llm.operator_times import OperatorTimes
from roofcal.ask.llm.operators import Operator, Pass, Shard
from roofcal.ask.llm.shard_limits import check_shards, runnable_degrees
from roofcal.core.devices import DeviceSpec
from roofcal.core.times import NO_TIME, Duration, Rate
from roofcal.models import calibrated
from roofcal.models.errors import PredictError
from roofcal.ops.time_models import Sources

BUBBLE: Final = "pipeline bubble"


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTime:
    """Prefill of the whole batch, or one step of decode: the sum of its operators.

    bubble  share of the time in which a pipeline stage idles
    """

    operators: tuple[Operator, ...]
    bubble: float

    @property
    def total(self) -> Duration:
        """Seconds from start to end."""
        return sum((operator.total for operator in self.operators), NO_TIME)

    @property
    def bound_by(self) -> str:
        """The part that takes most of the time."""
        shares: dict[str, float] = {}
        for operator in self.operators:
            shares[operator.bound_by] = shares.get(operator.bound_by, 0) + operator.total.value_s
        return max(shares, key=lambda name: shares[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Times and memory of a deployment by a model of time.

    Attributes:
        environment: of the calibration; None for a model that reads none.
        link: where the times of collectives come from; None where no GPUs are joined.
        assumed: what the model assumes of operators, one line each.
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

    def __str__(self) -> str:
        from roofcal.ask.llm.text_report import estimate_text  # noqa: PLC0415 (it imports this)

        return estimate_text(self)

    @property
    def products_by(self) -> str:
        """The providers of the products; any: the model knows no providers."""
        phases = (self.prefill, self.decode)
        providers = [operator.provider for phase in phases for operator in phase.operators]
        return ", ".join(dict.fromkeys(filter(None, providers))) or "any"

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
        return self.prefill.total + self.decode.total * (self.deployment.workload.output - 1)

    @property
    def request_tokens_per_s(self) -> Rate:
        """Tokens per second of one request while it decodes."""
        return self.decode.total.rate(1)

    @property
    def decode_tokens_per_s(self) -> Rate:
        """Tokens per second of all requests while they decode."""
        return self.decode.total.rate(self.deployment.workload.batch)

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """Tokens per second of all requests while they decode, over the GPUs."""
        return self.decode_tokens_per_s.value / self.deployment.gpus

    @property
    def output_tokens_per_s(self) -> Rate:
        """Tokens of all outputs per second from first to last, prefill included."""
        load = self.deployment.workload
        return self.all_tokens.rate(load.batch * load.output)


def estimate(
    deployment: Deployment,
    sources: Sources,
    by: str = calibrated.MODEL,
    times: OperatorTimes | None = None,
) -> Estimate:
    """The estimate of a deployment by a model of time, one of operator_models.BY.

    times: those of operator_times for equal sources, recipe and model, where they are at hand.

    Raises PredictError for degrees that do not divide the model or leave shards that no kernel of
    the recipe takes, a model that does not fit, and a recipe, link or device that lacks a constant
    or a datasheet.
    """
    model, recipe = deployment.model, deployment.recipe
    check_parallel(model, deployment.tensor, deployment.pipeline)
    times = times or operator_times(sources, recipe, by)
    check_shards(model, recipe, deployment.tensor, sources, by)
    link = times.link(deployment.link, deployment.tensor, deployment.pipeline)
    spec = datasheet_of(sources)
    degrees = runnable_degrees(model, recipe, sources, by)
    memory = checked_memory(deployment, spec.dram_bytes, spec.device, degrees)
    shard = Shard(
        model=model,
        recipe=recipe,
        tensor=deployment.tensor,
        layers=longest_stage(model, deployment.pipeline),
        times=times,
        link=link,
    )
    calibration = sources.calibration if by == calibrated.MODEL else None
    return Estimate(
        deployment=deployment,
        device=spec.device,
        by=by,
        environment=calibration.environment_id if calibration else None,
        memory=memory,
        prefill=_prefill(deployment, shard),
        decode=_decode(deployment, shard),
        link=link.provenance,
        assumed=tuple(times.assumptions(recipe)),
    )


def cost_by_phase(answer: Estimate, sources: Sources, prices: Prices) -> dict[str, TokenCost]:
    """What a token costs while requests decode, and from first to last, prefill included."""
    rates = {"decode": answer.decode_tokens_per_s, "with prefill": answer.output_tokens_per_s}
    gpus = answer.deployment.gpus
    return {
        phase: token_cost(sources, gpus / rate.value, prices, answer.by)
        for phase, rate in rates.items()
    }


def datasheet_of(sources: Sources) -> DeviceSpec:
    """The datasheet; raises PredictError without one."""
    if sources.spec is None:
        raise PredictError("`llm` needs a file of the device in config/devices: its memory")
    return sources.spec


def estimates_by_batch(
    deployment: Deployment,
    sources: Sources,
    by: str = calibrated.MODEL,
    factor: int = 2,
    times: OperatorTimes | None = None,
) -> list[Estimate]:
    """Estimates of batches 1, `factor`, ... and the largest that fits; arguments as in estimate."""
    times = times or operator_times(sources, deployment.recipe, by)
    spec = datasheet_of(sources)
    degrees = runnable_degrees(deployment.model, deployment.recipe, sources, by)
    one = with_batch(deployment, 1)
    largest = checked_memory(one, spec.dram_bytes, spec.device, degrees).largest_batch
    return [
        estimate(with_batch(deployment, batch), sources, by, times)
        for batch in batches_up_to(largest, factor)
    ]


def batches_up_to(largest: int, factor: int) -> list[int]:
    """1, factor, factor^2, ... below the largest, and the largest."""
    batches, batch = [], 1
    while batch < largest:
        batches.append(batch)
        batch *= factor
    return [*batches, largest]


def _prefill(deployment: Deployment, shard: Shard) -> PhaseTime:
    load, stages = deployment.workload, deployment.pipeline
    passes = load.prefill_passes
    tokens = load.batch * load.prompt / passes
    forward = Pass(
        phase="prefill",
        tokens=tokens,
        requests=max(1.0, load.batch / passes),  # a chunk of a prompt runs the head, too
        context=(load.prompt + 1) / 2,
        query=min(float(load.prompt), tokens),
    )
    turn = _stage_turn(shard, forward, stages)
    operators = [replace(operator, calls=operator.calls * passes) for operator in turn]
    if stages > 1:
        stage = sum((operator.total for operator in turn), NO_TIME)
        operators.append(
            Operator(name=BUBBLE, calls=stages - 1, duration=stage, bound_by="pipeline")
        )
    bubble = (stages - 1) / (passes + stages - 1)
    return PhaseTime(operators=tuple(operators), bubble=bubble)


def _decode(deployment: Deployment, shard: Shard) -> PhaseTime:
    load, stages = deployment.workload, deployment.pipeline
    groups = min(stages, load.batch)
    requests = -(-load.batch // groups)
    forward = Pass(phase="decode", tokens=requests, requests=requests, context=load.mean_context)
    turn = _stage_turn(shard, forward, stages)
    operators = (replace(operator, calls=operator.calls * stages) for operator in turn)
    return PhaseTime(operators=tuple(operators), bubble=1 - groups / stages)


def _stage_turn(shard: Shard, forward: Pass, stages: int) -> list[Operator]:
    """What the longest stage does with one pass, the send to the next stage included."""
    operators = shard.operators(forward)
    if stages > 1:
        sent = shard.link.send(shard.residual_bytes(forward))
        operators.append(
            Operator(name="send", calls=1, duration=sent.duration, bound_by=sent.bound_by)
        )
    return operators
