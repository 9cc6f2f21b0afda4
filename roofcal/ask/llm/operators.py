"""Prefill and decode of a model on one GPU: its operators, their seconds, and how often they run.

A layer is  norm, [cast], qkv, rope and cache, attention, [cast], attention_out, all-reduce,
            norm, [cast], gate_up, activation, [cast], down, all-reduce
where [cast] takes activations to fp8 and exists under fp8 recipes alone. Latent attention replaces
qkv by q_down, q_up (or q alone), kv_down and kv_up; in decode kv_up is absorbed into queries and
outputs (DeepSeek-V2, 2024-05, section 2.1.2): the same products, and attention over the latent
vectors. Tensor parallelism divides experts like every other matrix; router, dispatch and combine
come with them.

Bytes are those of bf16 activations, each read and written once; norms read and write the residual
stream too.

prefill  passes of at most `chunk` tokens run one after another; with p pipeline stages, m passes
         take m + p - 1 turns of the longest stage: a bubble of (p - 1) / (m + p - 1)
         (GPipe, 2018-11)
decode   the batch is divided into min(p, batch) groups that follow one another through the stages;
         a token takes p turns, and stages without a group idle: a bubble of 1 - groups / p. The
         context is the mean one, prompt + output / 2
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from roofcal.ask.llm.architecture import (
    BF16_BYTES,
    Layers,
    LocalMatrix,
    architecture_of,
    distinct_experts,
    hidden_size,
    kv_bytes_per_token_and_layer,
    local_kv_heads,
    local_matrices,
    local_vocabulary,
)
from roofcal.ask.llm.deployment import Deployment
from roofcal.ask.llm.operator_times import AttentionWork, Collectives, OperatorTimes, whole
from roofcal.core.language_models import LanguageModel
from roofcal.core.times import NO_TIME, CallTime, Duration
from roofcal.models.wave.attention import Attention

CASTS: Final = {"fp8_tensorwise": "fp8_tensorwise", "fp8_axiswise": "fp8_rowwise_dim0"}
BUBBLE: Final = "pipeline bubble"
_HEAD_RECIPE: Final = "bf16"
_Calls = Iterator[tuple[str, float, CallTime]]  # operator, how often it runs, one call


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator(CallTime):
    """Calls of one operator in one pass: the mean call.

    Bound and provider are those of the calls that take longest, doublings and is_unprobed those of
    the calls that lie farthest outside.
    """

    name: str
    calls: float

    @property
    def total(self) -> Duration:
        """Seconds of all its calls."""
        return self.duration * self.calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One forward pass through the layers of a GPU.

    tokens    rows of every product
    requests  rows of the output head: sequences that get a token
    context   cached positions that each token attends to, on average
    query     new tokens of each sequence
    """

    phase: Literal["prefill", "decode"]
    tokens: float
    requests: float
    context: float
    query: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A model on one GPU: a recipe, its share of every matrix, the layers of its stage."""

    model: LanguageModel
    recipe: str
    tensor: int
    layers: Layers
    times: OperatorTimes
    link: Collectives

    def operators(self, forward: Pass) -> list[Operator]:
        """Every operator of a pass, in the order of a layer; embedding and head last."""
        groups: dict[str, list[tuple[float, CallTime]]] = {}
        for name, calls, call in self._calls(forward):
            groups.setdefault(name, []).append((calls, call))
        operators = []
        for name, members in groups.items():
            calls = sum(count for count, _ in members)
            total = sum((call.duration * count for count, call in members), NO_TIME)
            _, longest = max(members, key=lambda member: member[1].duration.value_s * member[0])
            operators.append(
                Operator(
                    name=name,
                    calls=calls,
                    duration=total * (1 / calls),
                    bound_by=longest.bound_by,
                    provider=longest.provider,
                    doublings=max(call.doublings for _, call in members),
                    is_unprobed=any(call.is_unprobed for _, call in members),
                )
            )
        return operators

    def residual_bytes(self, forward: Pass) -> float:
        """Bytes of the stream between layers, which an all-reduce and a send carry."""
        return BF16_BYTES * forward.tokens * hidden_size(self.model)

    def _calls(self, forward: Pass) -> _Calls:
        yield from self._attention(forward)
        tokens, width, layers = forward.tokens, hidden_size(self.model), self.layers
        local = local_matrices(self.model, self.tensor)
        if layers.dense:
            kind = "dense_" if "dense_down" in self.model.matrices else ""
            pair = local[f"{kind}gate_up"], local[f"{kind}down"]
            yield "norm", layers.dense, self.times.norm(tokens, width)
            yield from self._feed_forward(kind, layers.dense, tokens, pair)
            yield from self._all_reduce(layers.dense, forward)
        if layers.expert:
            pair = local["expert_gate_up"], local["expert_down"]
            yield from self._experts(forward, pair)
            yield from self._all_reduce(layers.expert, forward)
        # embedding, last norm and output head, which takes the last token of each request
        yield "embedding", 1, self.times.elementwise(BF16_BYTES * (2 * tokens * width))
        yield "norm", 1, self.times.norm(forward.requests, width)
        rows = local_vocabulary(self.model, self.tensor)
        head = LocalMatrix(n=rows, k=width)
        yield "head", 1, self.times.product(_HEAD_RECIPE, forward.requests, head)
        if self.tensor > 1:
            gathered = BF16_BYTES * forward.requests * rows * self.tensor
            yield "all-gather", 1, self.link.collective("all_gather", self.tensor, gathered)

    def _attention(self, forward: Pass) -> _Calls:
        count, tokens = self.layers.count, forward.tokens
        architecture = architecture_of(self.model)
        yield "norm", count, self.times.norm(tokens, hidden_size(self.model))
        local = local_matrices(self.model, self.tensor)
        for name in architecture.attention_inputs:
            if name != "kv_down":  # reads what q_down reads, or q
                yield from self._cast(count, tokens, local[name].k)
            yield name, count, self.times.product(self.recipe, tokens, local[name])
        # rotates queries and keys in place, writes keys and values to the cache
        heads = architecture.heads // self.tensor
        if architecture.latent:
            rotated = (heads + 1) * architecture.latent.rope
        else:
            rotated = (heads + local_kv_heads(architecture, self.tensor)) * architecture.head_dim
        cached = kv_bytes_per_token_and_layer(self.model, self.tensor) / BF16_BYTES
        moved = BF16_BYTES * (tokens * (2 * rotated + cached))
        yield "rope and cache", count, self.times.elementwise(moved)
        yield "attention", count, self.times.attention(self._attention_work(forward))
        yield from self._cast(count, tokens, local["attention_out"].k)
        out = self.times.product(self.recipe, tokens, local["attention_out"])
        yield "attention_out", count, out
        yield from self._all_reduce(count, forward)

    def _attention_work(self, forward: Pass) -> AttentionWork:
        """The work of one layer.

        2 operations per head, pair of positions and element of query, key and value. In prefill
        the cache is read once: queries of a tile share it.
        """
        architecture = architecture_of(self.model)
        latent, decode = architecture.latent, forward.phase == "decode"
        heads = architecture.heads // self.tensor
        kv_heads = local_kv_heads(architecture, self.tensor)
        widths = 2 * architecture.head_dim  # of a key and a value
        if latent and decode:
            widths, kv_heads = 2 * latent.latent + latent.rope, 1
        elif latent:
            widths, kv_heads = architecture.head_dim + latent.rope + latent.value, heads
        pairs = forward.tokens * forward.context
        cached = kv_bytes_per_token_and_layer(self.model, self.tensor)
        # The mean token of a causal block has half of the block behind it.
        attended = whole(forward.context + (forward.query - 1) / 2)
        shape = Attention(
            heads=heads,
            kv_heads=kv_heads,
            head_dim=widths // 2,  # the mean of a key and a value
            query_tokens=whole(forward.query),
            kv_tokens=max(whole(forward.query), attended),
            sequences=whole(forward.tokens / forward.query),
            shared_kv=latent is not None and decode,
        )
        read = cached * (pairs if decode else forward.tokens)
        return AttentionWork(flops=2 * heads * widths * pairs, read_bytes=read, shape=shape)

    def _feed_forward(
        self, kind: str, calls: int, tokens: float, pair: tuple[LocalMatrix, LocalMatrix],
        experts: int = 1,
    ) -> _Calls:  # fmt: skip
        """pair: gate_up and down."""
        up, down = pair
        yield from self._cast(calls, tokens, up.k)
        yield f"{kind}gate_up", calls, self.times.product(self.recipe, tokens, up, experts)
        yield "activation", calls, self.times.activation(tokens, up.n, down.k)
        yield from self._cast(calls, tokens, down.k)
        yield f"{kind}down", calls, self.times.product(self.recipe, tokens, down, experts)

    def _experts(self, forward: Pass, pair: tuple[LocalMatrix, LocalMatrix]) -> _Calls:
        experts = architecture_of(self.model).experts
        assert experts is not None  # of a model with layers of them
        calls, tokens, width = self.layers.expert, forward.tokens, hidden_size(self.model)
        yield "norm", calls, self.times.norm(tokens, width)
        router = LocalMatrix(n=experts.count, k=width)
        yield "router", calls, self.times.product(_HEAD_RECIPE, tokens, router)
        visited = whole(distinct_experts(experts, tokens))
        rows = tokens * experts.per_token
        moving = self.times.elementwise(BF16_BYTES * ((tokens + rows) * width))
        yield "dispatch", calls, moving
        yield from self._feed_forward("expert_", calls, rows, pair, visited)
        yield "combine", calls, moving
        if experts.shared:
            yield from self._feed_forward("shared_", calls * experts.shared, tokens, pair)

    def _cast(self, calls: int, rows: float, cols: int) -> _Calls:
        """The cast of bf16 activations to fp8, under recipes that have one."""
        if recipe := CASTS.get(self.recipe):
            yield "cast", calls, self.times.cast(recipe, rows, cols)

    def _all_reduce(self, calls: int, forward: Pass) -> _Calls:
        if self.tensor > 1:
            stream = self.residual_bytes(forward)
            yield "all-reduce", calls, self.link.collective("all_reduce", self.tensor, stream)


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
