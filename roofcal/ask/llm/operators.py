"""Prefill and decode of a model on one GPU: its operators, their seconds, and how often they run.

docs/models.md has the operators of a layer, and the bubbles of a pipeline.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from roofcal.ask.llm.deployment import (
    BF16_BYTES,
    Deployment,
    LocalMatrix,
    architecture_of,
    distinct_experts,
    hidden_size,
    kv_bytes_per_token_and_layer,
    local_kv_heads,
    local_matrices,
    local_vocabulary,
    longest_stage,
)
from roofcal.ask.llm.operator_times import AttentionWork, Collectives, OperatorTimes, whole
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


class Shard:
    """What one GPU of the longest pipeline stage does, by a model of time and a link."""

    def __init__(self, deployment: Deployment, times: OperatorTimes, link: Collectives) -> None:
        self._deployment, self._stages = deployment, deployment.pipeline
        self._recipe, self._tensor = deployment.recipe, deployment.tensor
        self._times, self._link, self._model = times, link, deployment.model
        self._layers = longest_stage(self._model, self._stages)
        self._architecture = architecture_of(self._model)
        self._local = local_matrices(self._model, self._tensor)
        self._width = hidden_size(self._model)
        self._heads = self._architecture.heads // self._tensor
        self._kv_heads = local_kv_heads(self._architecture, self._tensor)
        self._cached_bytes = kv_bytes_per_token_and_layer(self._model, self._tensor)

    def prefill(self) -> PhaseTime:
        """The passes that the prompts of the whole batch take."""
        load, stages = self._deployment, self._stages
        passes = -(-load.batch * load.prompt // load.chunk)
        tokens = load.batch * load.prompt / passes
        turn = self.operators(
            Pass(
                phase="prefill",
                tokens=tokens,
                requests=max(1.0, load.batch / passes),  # a chunk of a prompt runs the head, too
                context=(load.prompt + 1) / 2,
                query=min(float(load.prompt), tokens),
            )
        )
        operators = [replace(operator, calls=operator.calls * passes) for operator in turn]
        if stages > 1:
            stage = sum((operator.total for operator in turn), NO_TIME)
            operators.append(
                Operator(name=BUBBLE, calls=stages - 1, duration=stage, bound_by="pipeline")
            )
        bubble = (stages - 1) / (passes + stages - 1)
        return PhaseTime(operators=tuple(operators), bubble=bubble)

    def decode(self) -> PhaseTime:
        """One step: a token for each request."""
        groups = min(self._stages, self._deployment.batch)
        requests = -(-self._deployment.batch // groups)
        context = self._deployment.mean_context
        turn = self.operators(
            Pass(phase="decode", tokens=requests, requests=requests, context=context)
        )
        operators = tuple(replace(one, calls=one.calls * self._stages) for one in turn)
        return PhaseTime(operators=operators, bubble=1 - groups / self._stages)

    def operators(self, forward: Pass) -> list[Operator]:
        """Every operator of a pass in the order of a layer; embedding, head and send last."""
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

    def _calls(self, forward: Pass) -> _Calls:
        yield from self._attention(forward)
        tokens, width, layers = forward.tokens, self._width, self._layers
        if layers.dense:
            kind = "dense_" if "dense_down" in self._local else ""
            yield "norm", layers.dense, self._times.norm(tokens, width)
            yield from self._feed_forward(kind, layers.dense, tokens)
            yield from self._all_reduce(layers.dense, tokens)
        if layers.expert:
            yield "norm", layers.expert, self._times.norm(tokens, width)
            yield from self._experts(layers.expert, tokens)
            yield from self._all_reduce(layers.expert, tokens)
        # embedding, last norm and output head, which takes the last token of each request
        yield "embedding", 1, self._times.elementwise(BF16_BYTES * (2 * tokens * width))
        yield "norm", 1, self._times.norm(forward.requests, width)
        rows = local_vocabulary(self._model, self._tensor)
        head = LocalMatrix(n=rows, k=width)
        yield "head", 1, self._times.product(_HEAD_RECIPE, forward.requests, head)
        if self._tensor > 1:
            gathered = BF16_BYTES * forward.requests * rows * self._tensor
            yield "all-gather", 1, self._link.collective("all_gather", self._tensor, gathered)
        if self._stages > 1:
            yield "send", 1, self._link.send(BF16_BYTES * tokens * width)

    def _attention(self, forward: Pass) -> _Calls:
        count, tokens, latent = self._layers.count, forward.tokens, self._architecture.latent
        yield "norm", count, self._times.norm(tokens, self._width)
        for name in self._architecture.attention_inputs:
            if name != "kv_down":  # reads what q_down reads, or q
                yield from self._cast(count, tokens, self._local[name].k)
            yield name, count, self._times.product(self._recipe, tokens, self._local[name])
        # rotates queries and keys in place, writes keys and values to the cache
        if latent:
            rotated = (self._heads + 1) * latent.rope
        else:
            rotated = (self._heads + self._kv_heads) * self._architecture.head_dim
        moved = BF16_BYTES * (tokens * (2 * rotated + self._cached_bytes / BF16_BYTES))
        yield "rope and cache", count, self._times.elementwise(moved)
        yield "attention", count, self._times.attention(self._attention_work(forward))
        out = self._local["attention_out"]
        yield from self._cast(count, tokens, out.k)
        yield "attention_out", count, self._times.product(self._recipe, tokens, out)
        yield from self._all_reduce(count, tokens)

    def _attention_work(self, forward: Pass) -> AttentionWork:
        """The work of one layer.

        2 operations per head, pair of positions and element of query, key and value. In prefill
        the cache is read once: queries of a tile share it.
        """
        latent, decode = self._architecture.latent, forward.phase == "decode"
        heads, kv_heads = self._heads, self._kv_heads
        widths = 2 * self._architecture.head_dim  # of a key and a value
        if latent and decode:
            widths, kv_heads = 2 * latent.latent + latent.rope, 1
        elif latent:
            widths = self._architecture.head_dim + latent.rope + latent.value
            kv_heads = heads
        pairs = forward.tokens * forward.context
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
        read = self._cached_bytes * (pairs if decode else forward.tokens)
        return AttentionWork(flops=2 * heads * widths * pairs, read_bytes=read, shape=shape)

    def _feed_forward(self, kind: str, calls: int, tokens: float, experts: int = 1) -> _Calls:
        """kind: of its two matrices; those of shared experts are as large as the routed ones."""
        own = "expert_" if kind == "shared_" else kind
        up, down = self._local[f"{own}gate_up"], self._local[f"{own}down"]
        yield from self._cast(calls, tokens, up.k)
        yield f"{kind}gate_up", calls, self._times.product(self._recipe, tokens, up, experts)
        yield "activation", calls, self._times.activation(tokens, up.n, down.k)
        yield from self._cast(calls, tokens, down.k)
        yield f"{kind}down", calls, self._times.product(self._recipe, tokens, down, experts)

    def _experts(self, calls: int, tokens: float) -> _Calls:
        experts = self._architecture.experts
        assert experts is not None  # of a model with layers of them
        router = LocalMatrix(n=experts.count, k=self._width)
        yield "router", calls, self._times.product(_HEAD_RECIPE, tokens, router)
        visited = whole(distinct_experts(experts, tokens))
        rows = tokens * experts.per_token
        moving = self._times.elementwise(BF16_BYTES * ((tokens + rows) * self._width))
        yield "dispatch", calls, moving
        yield from self._feed_forward("expert_", calls, rows, visited)
        yield "combine", calls, moving
        if experts.shared:
            yield from self._feed_forward("shared_", calls * experts.shared, tokens)

    def _cast(self, calls: int, rows: float, cols: int) -> _Calls:
        """The cast of bf16 activations to fp8, under recipes that have one."""
        if recipe := CASTS.get(self._recipe):
            yield "cast", calls, self._times.cast(recipe, rows, cols)

    def _all_reduce(self, calls: int, tokens: float) -> _Calls:
        if self._tensor > 1:
            stream = BF16_BYTES * tokens * self._width
            yield "all-reduce", calls, self._link.collective("all_reduce", self._tensor, stream)
