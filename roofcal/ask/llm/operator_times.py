"""Times of the operators of a language model on one GPU: what every model of time answers.

Here are those that read a file of config/devices alone, and state no interval: roofs and waves, as
docs/models.md has them. CalibratedOperators is in roofcal.ask.llm.operator_models.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from roofcal.ask.llm.deployment import BF16_BYTES, LocalMatrix, matrix_bytes
from roofcal.core.devices import DeviceSpec, WaveDevice
from roofcal.core.recipes import GEMM_RECIPES
from roofcal.core.times import Array, CallTime, Duration, Rate, Times
from roofcal.core.units import GB
from roofcal.models.link import Link, Source, assumed_link, joined_pairs, link_rate
from roofcal.models.wave.attention import Attention, flash_attention
from roofcal.models.wave.gemm import narrow_product_times, product_times
from roofcal.models.wave.operators import (
    OperatorTime,
    activation,
    all_gather,
    all_reduce,
    kernel_time,
    normalisation,
    send,
    stream_seconds,
)
from roofcal.ops import BY_NAME
from roofcal.ops.probe_link.model import UncertainLine
from roofcal.ops.time_models import Model, Sources, cast_times


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionWork:
    """Attention of one layer on one GPU: its work for rooflines, its shape for the wave model.

    flops, read_bytes  of all requests; read_bytes are those of the cache
    """

    flops: float
    read_bytes: float
    shape: Attention


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveLink:
    """As roofcal.models.link.Link, by the wave model."""

    device: WaveDevice
    provenance: str | None

    def collective(self, name: str, world_size: int, count_bytes: float) -> CallTime:
        """all_reduce or all_gather of so many bytes among `world_size` GPUs."""
        exchange = {"all_reduce": all_reduce, "all_gather": all_gather}
        return _wave(exchange[name](self.device, whole(count_bytes), world_size))

    def send(self, count_bytes: float) -> CallTime:
        """So many bytes from one GPU to another."""
        return _wave(send(self.device, whole(count_bytes)))


Collectives = Link | WaveLink


class OperatorTimes(ABC):
    """Seconds of single operators by one model of time."""

    def prepare(self, ask: Callable[["OperatorTimes"], object]) -> None:  # noqa: B027
        """Be ready for what `ask` asks of its argument: models whose answers are slow compute it.

        The answers that `ask` gets may be any.
        """

    @abstractmethod
    def product(self, recipe: str, rows: float, matrix: LocalMatrix, experts: int = 1) -> CallTime:
        """`rows` rows in all, spread evenly over `experts` matrices of n x k."""

    @abstractmethod
    def cast(self, recipe: str, rows: float, cols: int) -> CallTime:
        """rows x cols bf16 activations to fp8; recipes are those of op cast."""

    @abstractmethod
    def elementwise(self, count_bytes: float) -> CallTime:
        """A kernel that reads and writes `count_bytes` in all."""

    def norm(self, rows: float, cols: int) -> CallTime:
        """A norm that also adds to the residual stream: bf16 read and written twice."""
        return self.elementwise(BF16_BYTES * 4 * rows * cols)

    def activation(self, rows: float, inputs: int, outputs: int) -> CallTime:
        """The gated function between two products, in bf16."""
        return self.elementwise(BF16_BYTES * rows * (inputs + outputs))

    @abstractmethod
    def attention(self, work: AttentionWork) -> CallTime:
        """Scores, softmax and weighted values of one layer."""

    @abstractmethod
    def link(self, source: Source, tensor: int, pipeline: int) -> Collectives:
        """The link of tensor x pipeline GPUs; raises PredictError where it is not known."""

    @abstractmethod
    def assumptions(self, recipe: str) -> list[str]:
        """What this model assumes of operators under a recipe, one line each."""


def calls_of(times: Times, provider: str = "") -> list[CallTime]:
    """Each of many points; without an interval, its ends are the value."""
    values, beyond = times.total.tolist(), times.beyond
    lows = values if times.low is None else times.low.tolist()
    highs = values if times.high is None else times.high.tolist()
    doublings = [0.0] * len(values) if beyond is None else beyond.doublings.tolist()
    unprobed = [False] * len(values) if beyond is None else beyond.is_unprobed.tolist()
    return [
        CallTime(
            duration=Duration(*ends),
            bound_by=bound_by,
            provider=provider,
            doublings=far,
            is_unprobed=is_unprobed,
        )
        for *ends, bound_by, far, is_unprobed in zip(
            values, lows, highs, times.bound_by, doublings, unprobed, strict=True
        )
    ]


def vectors(*sizes: float) -> list[Array]:
    """Sizes as vectors of one element."""
    return [np.array([float(size)]) for size in sizes]


def int4_bytes(rows: float, matrix: LocalMatrix) -> float:
    """What a product of packed weights moves."""
    return matrix_bytes("int4", matrix) + BF16_BYTES * rows * (matrix.k + matrix.n)


def _certain(seconds: float, bound_by: str) -> CallTime:
    return CallTime(duration=Duration(seconds, seconds, seconds), bound_by=bound_by)


def _wave(time: OperatorTime) -> CallTime:
    return _certain(time.total_s, {"latency": "link latency"}.get(time.bound_by, time.bound_by))


def whole(amount: float) -> int:
    """The nearest number of rows, bytes or experts above zero."""
    return max(1, round(amount))


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveOperators(OperatorTimes):
    """Operators of a device that the wave model describes."""

    device: WaveDevice

    def product(self, recipe: str, rows: float, matrix: LocalMatrix, experts: int = 1) -> CallTime:
        """As one product whose N is experts * n: the same operations, weights and tiles."""
        rows, wide = rows / experts, LocalMatrix(n=matrix.n * experts, k=matrix.k)
        sizes = vectors(rows, *wide)
        if recipe == "int4":
            moved = np.array([int4_bytes(rows, wide)])
            times = narrow_product_times(self.device, moved, *sizes)
        else:
            times = product_times(self.device, GEMM_RECIPES[recipe], *sizes)
        return calls_of(Times(total=times.total, bound_by=times.bound_by))[0]

    def cast(self, recipe: str, rows: float, cols: int) -> CallTime:
        """Its bytes alone."""
        work = BY_NAME["cast"].work(recipe, {"rows": whole(rows), "cols": cols})
        return self.elementwise(work.dram_bytes)

    def norm(self, rows: float, cols: int) -> CallTime:
        """With the residual stream."""
        return _wave(normalisation(self.device, whole(rows), cols, residual=True))

    def activation(self, rows: float, inputs: int, outputs: int) -> CallTime:
        """SiLU times a second input, or of one input where there are as many inputs as outputs."""
        return _wave(activation(self.device, whole(rows * outputs), gated=inputs > outputs))

    def elementwise(self, count_bytes: float) -> CallTime:
        """A kernel that memory bounds."""
        return _wave(kernel_time(self.device, {"dram": stream_seconds(self.device, count_bytes)}))

    def attention(self, work: AttentionWork) -> CallTime:
        """Flash attention, causal."""
        return _wave(flash_attention(self.device, work.shape))

    def link(self, source: Source, tensor: int, pipeline: int) -> Collectives:  # noqa: ARG002
        """The described link; a calibrated one is no part of the wave model."""
        device = self.device
        described = (
            f"link: by its wave description, {device.link_fraction:g} of "
            f"{device.link_bytes_per_s / 1e9:.0f} GB/s one way, "
            f"{device.link_latency_s * 1e6:g} us a step"
        )
        return WaveLink(device=device, provenance=described if tensor * pipeline > 1 else None)

    def assumptions(self, recipe: str) -> list[str]:
        """That nothing is fitted, and what stands for int4."""
        lines = [
            f"wave: section `wave` of config/devices/{self.device.device}.yaml, nothing fitted"
        ]
        if recipe == "int4":
            lines.append("int4: weights of 4.25 bit (groups of 128), tiles and math of bf16")
        return lines


@dataclass(frozen=True, kw_only=True)
class RoofOperators(OperatorTimes):
    """Rooflines of a device.

    model      products and casts: datasheet or torchao
    described  the wave model's operators, where the other operators are its
    """

    model: Model
    spec: DeviceSpec
    math_fraction: float = 1.0
    dram_fraction: float = 1.0
    shortest_s: float = 0.0
    described: WaveOperators | None = None

    def product(self, recipe: str, rows: float, matrix: LocalMatrix, experts: int = 1) -> CallTime:
        """As one product whose N is experts * n: the same operations and weights."""
        rows, wide = rows / experts, LocalMatrix(n=matrix.n * experts, k=matrix.k)
        if recipe == "int4":
            return self._longest(2 * rows * wide.n * wide.k, int4_bytes(rows, wide))
        sources, sizes = Sources(spec=self.spec), vectors(rows, *wide)
        return calls_of(self.model.product_times(sources, recipe, *sizes))[0]

    def cast(self, recipe: str, rows: float, cols: int) -> CallTime:
        """By the model of products."""
        sides = vectors(whole(rows), cols)
        return calls_of(cast_times(self.model, Sources(spec=self.spec), "", recipe, *sides))[0]

    def norm(self, rows: float, cols: int) -> CallTime:
        """The wave model's where it describes the device; so are activation and attention."""
        return self.described.norm(rows, cols) if self.described else super().norm(rows, cols)

    def activation(self, rows: float, inputs: int, outputs: int) -> CallTime:
        """The gated function between two products."""
        if self.described:
            return self.described.activation(rows, inputs, outputs)
        return super().activation(rows, inputs, outputs)

    def elementwise(self, count_bytes: float) -> CallTime:
        """Its bytes at the bandwidth."""
        return self._longest(0.0, count_bytes)

    def attention(self, work: AttentionWork) -> CallTime:
        """Operations at the bf16 rate over the bytes of the cache."""
        if self.described:
            return self.described.attention(work)
        return self._longest(work.flops, work.read_bytes)

    def link(self, source: Source, tensor: int, pipeline: int) -> Collectives:
        """The wave model's; else the datasheet's own rate, of which torchao's gets a share."""
        if self.described:
            return self.described.link(source, tensor, pipeline)
        pairs = joined_pairs(tensor, pipeline)
        if not pairs:
            return Link(lines={}, provenance=None)
        if self.shortest_s:
            return assumed_link(self.spec, pairs)
        peak = link_rate(self.spec)
        line = UncertainLine(rate=Rate(peak, peak, peak), latency=Duration(0.0, 0.0, 0.0))
        provenance = f"link: the datasheet's {peak / GB:.0f} GB/s one way, without latency"
        return Link(lines=dict.fromkeys(pairs, line), provenance=provenance)

    def assumptions(self, recipe: str) -> list[str]:
        """The roofs, and whose the other operators are."""
        lines = [
            "roofs: the datasheet's rates and bandwidth in full, no launches; no program is faster"
        ]
        if self.shortest_s:
            rest = "by the wave model of the device" if self.described else "by the same roofs"
            lines = [
                f"roofs: {self.math_fraction:g} of the peak, {self.dram_fraction:g} of the "
                f"bandwidth, no kernel below {self.shortest_s * 1e6:g} us",
                f"attention, norms, activations and links: {rest}",
            ]
        if recipe == "int4":
            lines.append("int4: weights of 4.25 bit (groups of 128), math at the bf16 rate")
        return lines

    def _longest(self, flops: float, moved: float) -> CallTime:
        peak, bandwidth = self.spec.peak_flops_per_s["bf16"], self.spec.dram_bytes_per_s
        parts = {
            "math": flops / peak / self.math_fraction,
            "dram": moved / bandwidth / self.dram_fraction,
            "launch": self.shortest_s,
        }
        longest = max(parts, key=lambda name: parts[name])
        return _certain(parts[longest], longest)
