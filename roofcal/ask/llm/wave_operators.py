"""Times of the operators of a language model by the wave model of a described device.

Every operator is the kernel of roofcal.models.wave of the same name. Casts, rotary embeddings and
the dispatch of experts are kernels that memory bounds. Products of int4 weights (4.25 bit) have the
tiles of bf16 and the bytes of the packed weights. Fractions of a row or request are rounded.
"""

from dataclasses import dataclass

import numpy as np

from roofcal.ask.llm.architecture import BF16_BYTES, LocalMatrix, matrix_bytes
from roofcal.ask.llm.operator_times import AttentionWork, certain, first_call, product_sizes
from roofcal.core.recipes import GEMM_RECIPES
from roofcal.core.times import CallTime, Times
from roofcal.core.wave_device import WaveDevice
from roofcal.models.link import Source
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveLink:
    """The described links of a device."""

    device: WaveDevice
    provenance: str | None

    def collective(self, name: str, world_size: int, count_bytes: float) -> CallTime:
        """all_reduce or all_gather of so many bytes among `world_size` GPUs."""
        exchange = {"all_reduce": all_reduce, "all_gather": all_gather}
        return _exchange(exchange[name](self.device, _whole(count_bytes), world_size))

    def send(self, count_bytes: float) -> CallTime:
        """So many bytes from one GPU to another."""
        return _exchange(send(self.device, _whole(count_bytes)))


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveOperators:
    """Operators of a described device."""

    device: WaveDevice

    def product(self, recipe: str, rows: float, matrix: LocalMatrix) -> CallTime:
        """rows x k activations times n x k weights."""
        sizes = product_sizes(rows, matrix)
        if recipe == "int4":
            moved = matrix_bytes("int4", matrix) + BF16_BYTES * rows * (matrix.k + matrix.n)
            times = narrow_product_times(self.device, np.array([moved]), *sizes)
        else:
            times = product_times(self.device, GEMM_RECIPES[recipe], *sizes)
        return first_call(Times(total=times.total, bound_by=times.bound_by))

    def grouped_product(
        self, recipe: str, rows: float, experts: int, matrix: LocalMatrix
    ) -> CallTime:
        """One product whose N is experts * n: the same operations, weights and tiles."""
        wide = LocalMatrix(n=matrix.n * experts, k=matrix.k)
        return self.product(recipe, rows / experts, wide)

    def cast(self, recipe: str, rows: float, cols: int) -> CallTime:
        """rows x cols bf16 activations to fp8."""
        return self.elementwise(
            BY_NAME["cast"].work(recipe, {"rows": _whole(rows), "cols": cols}).dram_bytes
        )

    def norm(self, rows: float, cols: int) -> CallTime:
        """A norm that also adds to the residual stream."""
        return _kernel(normalisation(self.device, _whole(rows), cols, residual=True))

    def activation(self, rows: float, inputs: int, outputs: int) -> CallTime:
        """SiLU times a second input, or of one input where there are as many inputs as outputs."""
        elements = _whole(rows * outputs)
        return _kernel(activation(self.device, elements, gated=inputs > outputs))

    def elementwise(self, count_bytes: float) -> CallTime:
        """A kernel that memory bounds."""
        return _kernel(kernel_time(self.device, {"dram": stream_seconds(self.device, count_bytes)}))

    def attention(self, work: AttentionWork) -> CallTime:
        """Flash attention, causal."""
        query = _whole(work.query_tokens)
        shape = Attention(
            heads=work.heads,
            kv_heads=work.kv_heads,
            head_dim=work.head_dim,
            query_tokens=query,
            kv_tokens=max(query, _whole(work.kv_tokens)),
            sequences=_whole(work.requests),
            shared_kv=work.shared_kv,
        )
        return _kernel(flash_attention(self.device, shape))

    def link(self, source: Source, tensor: int, pipeline: int) -> WaveLink:  # noqa: ARG002
        """The described link; a calibrated one is no part of the wave model."""
        device = self.device
        described = (
            f"link: by its wave description, {device.link_fraction:g} of "
            f"{device.link_bytes_per_s / 1e9:.0f} GB/s one way, "
            f"{device.link_latency_s * 1e6:g} us a step"
        )
        return WaveLink(device=device, provenance=described if tensor * pipeline > 1 else None)

    def assumptions(self, recipe: str) -> list[str]:
        """What this model assumes, one line each."""
        lines = [
            f"wave: section `wave` of config/devices/{self.device.device}.yaml, nothing fitted"
        ]
        if recipe == "int4":
            lines.append("int4: weights of 4.25 bit (groups of 128), tiles and math of bf16")
        return lines


def _whole(amount: float) -> int:
    return max(1, round(amount))


def _kernel(time: OperatorTime) -> CallTime:
    return certain(time.total_s, time.bound_by)


def _exchange(time: OperatorTime) -> CallTime:
    bound = {"latency": "link latency"}.get(time.bound_by, time.bound_by)
    return certain(time.total_s, bound)
