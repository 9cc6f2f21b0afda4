"""Times of the operators of a language model by a datasheet, and by torchao's fractions of it.

    t = max(operations / peak / f_math, bytes / bandwidth / f_dram, shortest kernel)

The datasheet has fractions of 1 and no shortest kernel, so no program is faster. torchao has its
own fractions and 2 us, and nothing of attention, norms, activations and links: on a device that the
wave model describes they are the wave model's. int4 is weight-only, 4.25 bit, with math in bf16.
"""

from dataclasses import dataclass

import numpy as np

from roofcal.ask.llm.architecture import BF16_BYTES, LocalMatrix, matrix_bytes
from roofcal.ask.llm.operator_times import (
    AttentionWork,
    Collectives,
    certain,
    first_call,
    product_sizes,
)
from roofcal.ask.llm.wave_operators import WaveOperators
from roofcal.core.devices import DeviceSpec
from roofcal.core.times import CallTime, Duration, Rate
from roofcal.core.units import GB
from roofcal.models import datasheet, torchao
from roofcal.models.link import Link, Source, assumed_link, joined_pairs, link_rate
from roofcal.models.torchao import from_datasheet
from roofcal.ops.probe_link.model import UncertainLine
from roofcal.ops.time_models import Model, Sources, cast_times


@dataclass(frozen=True, slots=True, kw_only=True)
class RoofOperators:
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

    def product(self, recipe: str, rows: float, matrix: LocalMatrix) -> CallTime:
        """rows x k activations times n x k weights."""
        if recipe == "int4":
            moved = matrix_bytes("int4", matrix) + BF16_BYTES * rows * (matrix.k + matrix.n)
            return self._longest(2 * rows * matrix.n * matrix.k, moved)
        sizes = product_sizes(rows, matrix)
        return first_call(self.model.product_times(Sources(spec=self.spec), recipe, *sizes))

    def grouped_product(
        self, recipe: str, rows: float, experts: int, matrix: LocalMatrix
    ) -> CallTime:
        """One product whose N is experts * n: the same operations and weights."""
        wide = LocalMatrix(n=matrix.n * experts, k=matrix.k)
        return self.product(recipe, rows / experts, wide)

    def cast(self, recipe: str, rows: float, cols: int) -> CallTime:
        """rows x cols bf16 activations to fp8."""
        sides = np.array([float(max(1, round(rows)))]), np.array([float(cols)])
        return first_call(cast_times(self.model, Sources(spec=self.spec), "", recipe, *sides))

    def norm(self, rows: float, cols: int) -> CallTime:
        """A norm that also adds to the residual stream."""
        if self.described:
            return self.described.norm(rows, cols)
        return self.elementwise(BF16_BYTES * 4 * rows * cols)

    def activation(self, rows: float, inputs: int, outputs: int) -> CallTime:
        """The gated function between two products."""
        if self.described:
            return self.described.activation(rows, inputs, outputs)
        return self.elementwise(BF16_BYTES * rows * (inputs + outputs))

    def elementwise(self, count_bytes: float) -> CallTime:
        """A kernel that reads and writes `count_bytes` in all."""
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
        """What this model assumes, one line each."""
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
        return certain(parts[longest], longest)


def datasheet_operators(spec: DeviceSpec) -> RoofOperators:
    """Bounds by the datasheet alone."""
    return RoofOperators(model=datasheet, spec=spec)


def torchao_operators(spec: DeviceSpec) -> RoofOperators:
    """torchao's fractions of the datasheet, and the wave model beside them where described."""
    constants = from_datasheet(spec)
    return RoofOperators(
        model=torchao,
        spec=spec,
        math_fraction=constants.math_fraction,
        dram_fraction=constants.dram_fraction,
        shortest_s=constants.launch_s,
        described=WaveOperators(device=spec.wave) if spec.wave else None,
    )
