"""Prefill and decode of a model, from the operators of one GPU.

prefill  passes of at most `chunk` tokens run one after another; with p pipeline stages, m passes
         take m + p - 1 turns of the longest stage: a bubble of (p - 1) / (m + p - 1)
         (GPipe, 2018-11)
decode   the batch is divided into min(p, batch) groups that follow one another through the stages;
         a token takes p turns, and stages without a group idle: a bubble of 1 - groups / p. The
         context is the mean one, prompt + output / 2
"""

from dataclasses import dataclass, replace
from typing import Final

from roofcal.ask.llm.deployment import Deployment
from roofcal.ask.llm.operators import Operator, Pass, Shard
from roofcal.core.times import NO_TIME, Duration

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

    @property
    def products_by(self) -> str:
        """The providers of the products; "" for a model that knows none."""
        return ", ".join(dict.fromkeys(filter(None, (one.provider for one in self.operators))))


def prefill(deployment: Deployment, shard: Shard) -> PhaseTime:
    """The passes that the prompts of the whole batch take."""
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


def decode(deployment: Deployment, shard: Shard) -> PhaseTime:
    """One step: a token for each request."""
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
