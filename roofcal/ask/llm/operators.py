"""The operators of one forward pass on one GPU, each with its seconds and how often it runs.

A layer is  norm, [cast], qkv, rope and cache, attention, [cast], attention_out, all-reduce,
            norm, [cast], gate_up, activation, [cast], down, all-reduce
where [cast] takes activations to fp8 and exists under fp8 recipes alone. Latent attention replaces
qkv by q_down, q_up (or q alone), kv_down and kv_up; in decode kv_up is absorbed into queries and
outputs (DeepSeek-V2, 2024-05, section 2.1.2): the same products, and attention over the latent
vectors. Tensor parallelism divides experts like every other matrix; router, dispatch and combine
come with them.

Bytes are those of bf16 activations, each read and written once; norms read and write the residual
stream too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
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
from roofcal.ask.llm.operator_times import AttentionWork, Collectives, OperatorTimes
from roofcal.core.language_models import LanguageModel
from roofcal.core.times import NO_TIME, CallTime, Duration

Phase = Literal["prefill", "decode"]
CASTS: Final = {"fp8_tensorwise": "fp8_tensorwise", "fp8_axiswise": "fp8_rowwise_dim0"}
_HEAD_RECIPE: Final = "bf16"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """Calls of one operator in one pass: seconds of one call, and its longest part.

    provider, doublings, is_unprobed  as in CallTime; of several calls, of the one that takes
                                      longest and of those that lie farthest outside
    """

    name: str
    calls: float
    duration: Duration
    bound_by: str
    provider: str = ""
    doublings: float = 0.0
    is_unprobed: bool = False

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

    phase: Phase
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
        """Every operator of a pass, in the order of a layer; head and embedding last."""
        operators = [*self._attention(forward)]
        if self.layers.dense:
            kind = "dense_" if "dense_down" in self.model.matrices else ""
            operators += self._dense(forward, kind)
        if self.layers.expert:
            operators += self._experts(forward)
        return _joined_by_name([*operators, *self._ends(forward)])

    def residual_bytes(self, forward: Pass) -> float:
        """Bytes of the stream between layers, which an all-reduce and a send carry."""
        return BF16_BYTES * forward.tokens * hidden_size(self.model)

    def _attention(self, forward: Pass) -> Iterator[Operator]:
        count = self.layers.count
        yield self._norm(count, forward.tokens)
        local = local_matrices(self.model, self.tensor)
        for name in architecture_of(self.model).attention_inputs:
            if name != "kv_down":  # reads what q_down reads, or q
                yield from self._cast(count, forward.tokens, local[name].k)
            yield self._product(name, count, forward.tokens, local[name])
        yield self._rope(forward)
        attention = self.times.attention(self._attention_work(forward))
        yield self._operator("attention", count, attention)
        yield from self._cast(count, forward.tokens, local["attention_out"].k)
        yield self._product("attention_out", count, forward.tokens, local["attention_out"])
        yield from self._all_reduce(count, forward)

    def _attention_work(self, forward: Pass) -> AttentionWork:
        """The work of one layer.

        2 operations per head, pair of positions and element of query, key and value. In prefill
        the cache is read once: queries of a tile share it.
        """
        architecture = architecture_of(self.model)
        latent, decode = architecture.latent, forward.phase == "decode"
        heads, kv_heads = (
            architecture.heads // self.tensor,
            local_kv_heads(architecture, self.tensor),
        )
        widths = 2 * architecture.head_dim  # of a key and a value
        if latent and decode:
            widths, kv_heads = 2 * latent.latent + latent.rope, 1
        elif latent:
            widths, kv_heads = architecture.head_dim + latent.rope + latent.value, heads
        pairs = forward.tokens * forward.context
        cached = kv_bytes_per_token_and_layer(self.model, self.tensor)
        return AttentionWork(
            flops=2 * heads * widths * pairs,
            read_bytes=cached * (pairs if decode else forward.tokens),
            heads=heads,
            kv_heads=kv_heads,
            head_dim=widths // 2,
            requests=forward.tokens / forward.query,
            query_tokens=forward.query,
            # The mean token of a causal block has half of the block behind it.
            kv_tokens=forward.context + (forward.query - 1) / 2,
            shared_kv=latent is not None and decode,
        )

    def _rope(self, forward: Pass) -> Operator:
        """Rotates queries and keys in place, writes keys and values to the cache."""
        architecture = architecture_of(self.model)
        heads = architecture.heads // self.tensor
        if architecture.latent:
            rotated = (heads + 1) * architecture.latent.rope
        else:
            rotated = (heads + local_kv_heads(architecture, self.tensor)) * architecture.head_dim
        cached = kv_bytes_per_token_and_layer(self.model, self.tensor) / BF16_BYTES
        elements = forward.tokens * (2 * rotated + cached)
        return self._elementwise("rope and cache", self.layers.count, elements)

    def _dense(self, forward: Pass, kind: str) -> Iterator[Operator]:
        local = local_matrices(self.model, self.tensor)
        up, down = local[f"{kind}gate_up"], local[f"{kind}down"]
        calls, tokens = self.layers.dense, forward.tokens
        yield self._norm(calls, tokens)
        yield from self._feed_forward(kind, calls, tokens, up, down)
        yield from self._all_reduce(calls, forward)

    def _feed_forward(
        self, kind: str, calls: int, tokens: float, up: LocalMatrix, down: LocalMatrix
    ) -> Iterator[Operator]:
        yield from self._cast(calls, tokens, up.k)
        yield self._product(f"{kind}gate_up", calls, tokens, up)
        activation = self.times.activation(tokens, up.n, down.k)
        yield self._operator("activation", calls, activation)
        yield from self._cast(calls, tokens, down.k)
        yield self._product(f"{kind}down", calls, tokens, down)

    def _experts(self, forward: Pass) -> Iterator[Operator]:
        experts = architecture_of(self.model).experts
        if experts is None:
            return
        calls, tokens, width = self.layers.expert, forward.tokens, hidden_size(self.model)
        local = local_matrices(self.model, self.tensor)
        up, down = local["expert_gate_up"], local["expert_down"]
        yield self._norm(calls, tokens)
        router = self.times.product(_HEAD_RECIPE, tokens, LocalMatrix(n=experts.count, k=width))
        yield self._operator("router", calls, router)
        visited = max(1, round(distinct_experts(experts, tokens)))
        rows = tokens * experts.per_token
        yield self._elementwise("dispatch", calls, (tokens + rows) * width)
        yield from self._cast(calls, rows, up.k)
        yield self._grouped("expert_gate_up", calls, rows, visited, up)
        yield self._operator("activation", calls, self.times.activation(rows, up.n, down.k))
        yield from self._cast(calls, rows, down.k)
        yield self._grouped("expert_down", calls, rows, visited, down)
        yield self._elementwise("combine", calls, (rows + tokens) * width)
        if experts.shared:
            yield from self._feed_forward("shared_", calls * experts.shared, tokens, up, down)
        yield from self._all_reduce(calls, forward)

    def _ends(self, forward: Pass) -> Iterator[Operator]:
        """Embedding, last norm and output head, which takes the last token of each request."""
        width = hidden_size(self.model)
        yield self._elementwise("embedding", 1, 2 * forward.tokens * width)
        yield self._norm(1, forward.requests)
        rows = local_vocabulary(self.model, self.tensor)
        head = self.times.product(_HEAD_RECIPE, forward.requests, LocalMatrix(n=rows, k=width))
        yield self._operator("head", 1, head)
        if self.tensor > 1:
            gathered = BF16_BYTES * forward.requests * rows * self.tensor
            exchange = self.link.collective("all_gather", self.tensor, gathered)
            yield self._operator("all-gather", 1, exchange)

    def _product(self, name: str, calls: int, rows: float, matrix: LocalMatrix) -> Operator:
        return self._operator(name, calls, self.times.product(self.recipe, rows, matrix))

    def _grouped(
        self, name: str, calls: int, rows: float, experts: int, matrix: LocalMatrix
    ) -> Operator:
        product = self.times.grouped_product(self.recipe, rows, experts, matrix)
        return self._operator(name, calls, product)

    def _cast(self, calls: int, rows: float, cols: int) -> Iterator[Operator]:
        """The cast of bf16 activations to fp8, under recipes that have one."""
        recipe = CASTS.get(self.recipe)
        if recipe:
            yield self._operator("cast", calls, self.times.cast(recipe, rows, cols))

    def _all_reduce(self, calls: int, forward: Pass) -> Iterator[Operator]:
        if self.tensor > 1:
            exchange = self.link.collective("all_reduce", self.tensor, self.residual_bytes(forward))
            yield self._operator("all-reduce", calls, exchange)

    def _norm(self, calls: int, rows: float) -> Operator:
        norm = self.times.norm(rows, hidden_size(self.model))
        return self._operator("norm", calls, norm)

    def _elementwise(self, name: str, calls: int, elements: float) -> Operator:
        return self._operator(name, calls, self.times.elementwise(BF16_BYTES * elements))

    def _operator(self, name: str, calls: int, call: CallTime) -> Operator:
        return Operator(
            name=name,
            calls=calls,
            duration=call.duration,
            bound_by=call.bound_by,
            provider=call.provider,
            doublings=call.doublings,
            is_unprobed=call.is_unprobed,
        )


def _joined_by_name(operators: list[Operator]) -> list[Operator]:
    """One operator per name: seconds of the mean call, the bound of the longest in total."""
    groups: dict[str, list[Operator]] = {}
    for operator in operators:
        groups.setdefault(operator.name, []).append(operator)
    return [_joined(members) for members in groups.values()]


def _joined(members: list[Operator]) -> Operator:
    calls = sum(member.calls for member in members)
    total = sum((member.total for member in members), NO_TIME)
    longest = max(members, key=lambda member: member.total.value_s)
    return Operator(
        name=longest.name,
        calls=calls,
        duration=total * (1 / calls),
        bound_by=longest.bound_by,
        provider=longest.provider,
        doublings=max(member.doublings for member in members),
        is_unprobed=any(member.is_unprobed for member in members),
    )
