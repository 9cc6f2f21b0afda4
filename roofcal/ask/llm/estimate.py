"""Prefill, decode and throughput of a model from the operators of one GPU.

prefill  passes of at most `chunk` tokens run one after another; with p pipeline stages, m passes
         take m + p - 1 turns of the longest stage: a bubble of (p - 1) / (m + p - 1)
         (GPipe, 2018-11)
decode   the batch is split over min(p, batch) groups that follow one another through the stages; a
         token takes p turns, and stages without a group idle: a bubble of 1 - groups / p.
         Priced at the mean context, prompt + output / 2
A request's first token comes from prefill, the others from output - 1 steps of decode.

Intervals: ends of parts add up, see duration.py. They hold the errors of the calibrated model, of
its constants and of the stated assumptions on link and attention; not what a serving engine adds.
"""

from dataclasses import dataclass, replace
from typing import Final

from roofcal.ask.llm.architecture import check_parallel, longest_stage
from roofcal.ask.llm.memory import Memory, checked_memory
from roofcal.ask.llm.operators import Operator, Pass, Shard
from roofcal.ask.llm.prices import Prices, prices_of
from roofcal.ask.llm.workload import Question
from roofcal.models.duration import NOTHING, Duration, Rate
from roofcal.models.link import Link, link_of
from roofcal.models.sources import Sources

BUBBLE: Final = "pipeline bubble"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Prefill of the whole batch, or one step of decode: operators add up to its seconds.

    bubble  share of its time that a stage idles
    """

    operators: tuple[Operator, ...]
    bubble: float

    @property
    def total(self) -> Duration:
        """Seconds from its start to its end."""
        return sum((operator.total for operator in self.operators), NOTHING)

    @property
    def bound_by(self) -> str:
        """The part that most of the time goes to."""
        shares: dict[str, float] = {}
        for operator in self.operators:
            shares[operator.bound_by] = shares.get(operator.bound_by, 0) + operator.total.value_s
        return max(shares, key=lambda name: shares[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a device does with a workload."""

    question: Question
    device: str
    environment: str
    memory: Memory
    prefill: Stretch
    decode: Stretch
    link: str | None

    @property
    def first_token(self) -> Duration:
        """Seconds until every request has its first token."""
        return self.prefill.total

    @property
    def whole(self) -> Duration:
        """Seconds until every request has all its tokens."""
        return self.prefill.total + self.decode.total * (self.question.workload.output - 1)

    @property
    def request_tokens_per_s(self) -> Rate:
        """Tokens per second of one request while it decodes."""
        return self.decode.total.rate(1)

    @property
    def decode_tokens_per_s(self) -> Rate:
        """Tokens per second of all requests while they decode."""
        return self.decode.total.rate(self.question.workload.batch)

    @property
    def output_tokens_per_s(self) -> Rate:
        """Tokens of all outputs per second from first to last, prefill included."""
        load = self.question.workload
        return self.whole.rate(load.batch * load.output)


def estimate(question: Question, sources: Sources) -> Estimate:
    """The estimate of a question.

    Raises PredictError for degrees that do not divide the model, a model that does not fit, a
    recipe, link or device without what it takes.
    """
    check_parallel(question.model, question.tensor, question.pipeline)
    prices = prices_of(sources, question.recipe)
    link = link_of(
        prices.calibration, prices.spec, question.link, question.tensor, question.pipeline
    )
    spec = prices.spec
    memory = checked_memory(question, spec.dram_bytes, spec.device)
    return _priced(question, prices, link, memory)


def _priced(question: Question, prices: Prices, link: Link, memory: Memory) -> Estimate:
    shard = Shard(
        model=question.model,
        recipe=question.recipe,
        tensor=question.tensor,
        layers=longest_stage(question.model, question.pipeline),
        prices=prices,
        link=link,
    )
    return Estimate(
        question=question,
        device=prices.spec.device,
        environment=prices.calibration.environment_id,
        memory=memory,
        prefill=_prefill(question, shard),
        decode=_decode(question, shard),
        link=link.says,
    )


def _prefill(question: Question, shard: Shard) -> Stretch:
    load, stages = question.workload, question.pipeline
    passes = load.prefill_passes
    forward = Pass(
        phase="prefill",
        tokens=load.batch * load.prompt / passes,
        requests=max(1.0, load.batch / passes),  # a chunk of a prompt runs the head, too
        context=(load.prompt + 1) / 2,
    )
    turn = _turn(shard, forward, stages)
    operators = [replace(operator, calls=operator.calls * passes) for operator in turn]
    if stages > 1:
        stage = sum((operator.total for operator in turn), NOTHING)
        operators.append(
            Operator(name=BUBBLE, calls=stages - 1, duration=stage, bound_by="pipeline")
        )
    bubble = (stages - 1) / (passes + stages - 1)
    return Stretch(operators=tuple(operators), bubble=bubble)


def _decode(question: Question, shard: Shard) -> Stretch:
    load, stages = question.workload, question.pipeline
    groups = min(stages, load.batch)
    requests = -(-load.batch // groups)
    forward = Pass(phase="decode", tokens=requests, requests=requests, context=load.mean_context)
    turn = _turn(shard, forward, stages)
    operators = (replace(operator, calls=operator.calls * stages) for operator in turn)
    return Stretch(operators=tuple(operators), bubble=1 - groups / stages)


def _turn(shard: Shard, forward: Pass, stages: int) -> list[Operator]:
    """What the longest stage does with one pass, the send to the next stage included."""
    operators = shard.operators(forward)
    if stages > 1:
        priced = shard.link.send(shard.stream_bytes(forward))
        operators.append(
            Operator(name="send", calls=1, duration=priced.duration, bound_by=priced.bound_by)
        )
    return operators


def curve(question: Question, sources: Sources) -> list[Estimate]:
    """Estimates of batches 1, 2, 4, ... up to the largest that fits; raises as estimate."""
    spec = prices_of(sources, question.recipe).spec
    one = replace(question, workload=replace(question.workload, batch=1))
    largest = checked_memory(one, spec.dram_bytes, spec.device).largest_batch
    batches = [1 << power for power in range(largest.bit_length()) if 1 << power < largest]
    return [
        estimate(replace(one, workload=replace(one.workload, batch=batch)), sources)
        for batch in [*batches, largest]
    ]
