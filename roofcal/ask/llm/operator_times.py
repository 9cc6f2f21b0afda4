"""What a model of time answers of the operators of a language model on one GPU."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from roofcal.ask.llm.architecture import LocalMatrix
from roofcal.core.times import Array, CallTime, Duration, Times
from roofcal.models.link import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionWork:
    """Attention of one layer on one GPU: its work for rooflines, its shape for the wave model.

    flops, read_bytes  of all requests; read_bytes are those of the cache
    head_dim           mean width of a key and a value
    query_tokens       new tokens of one request; kv_tokens are all tokens it attends to
    shared_kv          keys and values are one vector (latent attention in decode)
    """

    flops: float
    read_bytes: float
    heads: int
    kv_heads: int
    head_dim: int
    requests: float
    query_tokens: float
    kv_tokens: float
    shared_kv: bool


class Collectives(Protocol):
    """How the GPUs of a model are joined; `provenance` says where its figures come from."""

    @property
    def provenance(self) -> str | None:
        """One line; None where no GPUs are joined."""
        ...

    def collective(self, name: str, world_size: int, count_bytes: float) -> CallTime:
        """all_reduce or all_gather of so many bytes among `world_size` GPUs."""
        ...

    def send(self, count_bytes: float) -> CallTime:
        """So many bytes from one GPU to another."""
        ...


class OperatorTimes(Protocol):
    """Seconds of single operators by one model of time."""

    def product(self, recipe: str, rows: float, matrix: LocalMatrix) -> CallTime:
        """rows x k activations times n x k weights."""
        ...

    def grouped_product(
        self, recipe: str, rows: float, experts: int, matrix: LocalMatrix
    ) -> CallTime:
        """`rows` rows in all, spread evenly over `experts` matrices of n x k."""
        ...

    def cast(self, recipe: str, rows: float, cols: int) -> CallTime:
        """rows x cols bf16 activations to fp8; recipes are those of op cast."""
        ...

    def norm(self, rows: float, cols: int) -> CallTime:
        """A norm that also adds to the residual stream: bf16 read and written twice."""
        ...

    def activation(self, rows: float, inputs: int, outputs: int) -> CallTime:
        """The gated function between two products, in bf16."""
        ...

    def elementwise(self, count_bytes: float) -> CallTime:
        """Another kernel that reads and writes `count_bytes` in all."""
        ...

    def attention(self, work: AttentionWork) -> CallTime:
        """Scores, softmax and weighted values of one layer."""
        ...

    def link(self, source: Source, tensor: int, pipeline: int) -> Collectives:
        """The link of tensor x pipeline GPUs; raises PredictError where it is not known."""
        ...

    def assumptions(self, recipe: str) -> list[str]:
        """What this model assumes of operators under a recipe, one line each."""
        ...


def first_call(times: Times, provider: str = "") -> CallTime:
    """The first of many points; without an interval, its ends are the value."""
    beyond = times.beyond
    value = float(times.total[0])
    low = value if times.low is None else float(times.low[0])
    high = value if times.high is None else float(times.high[0])
    return CallTime(
        duration=Duration(value, low, high),
        bound_by=times.bound_by[0],
        provider=provider,
        doublings=0.0 if beyond is None else float(beyond.doublings[0]),
        is_unprobed=beyond is not None and bool(beyond.is_unprobed[0]),
    )


def product_sizes(rows: float, matrix: LocalMatrix) -> tuple[Array, Array, Array]:
    """M, N and K of one product, as vectors of one element."""
    return np.array([float(rows)]), np.array([float(matrix.n)]), np.array([float(matrix.k)])


def certain(seconds: float, bound_by: str) -> CallTime:
    """A time by a model that states no interval."""
    return CallTime(duration=Duration(seconds, seconds, seconds), bound_by=bound_by)
