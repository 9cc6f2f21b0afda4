"""Times of the operators of a language model on a calibrated device.

product          roofcal.models.calibrated with its interval, for the default provider
int4             weight-only: the bf16 product with weights of 4.25 bit, by no measured kernel: low
                 is the roof (bytes at the read bandwidth or the datasheet's bf16 math, whichever
                 takes longer), high adds the error of the bf16 model to the value
grouped_product  one product per expert in one kernel: as one product whose N is experts * n, which
                 has the same operations, weights, outputs and tiles. The value reads its rows once
                 per product, `high` once per expert
cast             the fastest provider that was calibrated; without one, as elementwise
elementwise      launch + bytes / copy bandwidth: norms, activations, embedding. Only casts by row
                 were measured, which work alike: `high` is the time of the fastest calibrated cast
                 that moves as many bytes
attention        the longer of operations at ATTENTION_SHARE of the datasheet's bf16 rate and bytes
                 of the cache at the read bandwidth; `high` reads at CACHE_SHARE of it

ATTENTION_SHARE: FlashAttention-3 (2024-07) reaches up to 75 % of an H100's bf16 rate and its
predecessor 35 % (abstract of the paper); we take the middle, and the two as ends.
CACHE_SHARE: the notebook on MI300X inference assumes that streams attain 0.8 of the bandwidth.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from roofcal.ask.llm.architecture import BF16_BYTES, LocalMatrix, matrix_bytes
from roofcal.ask.llm.operator_times import AttentionWork, first_call, product_sizes
from roofcal.core.devices import DeviceSpec
from roofcal.core.recipes import GEMM_RECIPES
from roofcal.core.records import Calibration, Ceiling
from roofcal.core.times import Array, CallTime, Duration, Rate, Times
from roofcal.models import calibrated
from roofcal.models.link import Link, Source, link_of
from roofcal.ops import BY_NAME
from roofcal.ops.gemm import predict as calibrated_products
from roofcal.ops.gemm.model import joined
from roofcal.ops.gemm.predict import default_provider
from roofcal.ops.time_models import Sources

ATTENTION_SHARE: Final = Rate(0.55, 0.35, 0.75)
CACHE_SHARE: Final = 0.8
_ELEMENTWISE_CAST: Final = "fp8_rowwise_dim0"
_CAST_COLS: Final = 8192  # a usual width of rows
_CAST_BYTES: Final = 3  # per element: bf16 in, fp8 out
NEEDED: Final = ("launch_graph_s", "dram_read_bytes_per_s", "dram_copy_bytes_per_s")


@dataclass(frozen=True, kw_only=True)
class CalibratedOperators:
    """Operators of a device that was calibrated and has a datasheet."""

    calibration: Calibration
    spec: DeviceSpec

    def product(self, recipe: str, rows: float, matrix: LocalMatrix) -> CallTime:
        """rows x k activations times n x k weights."""
        m, n, k = product_sizes(rows, matrix)
        if recipe == "int4":
            return self._int4(m, matrix)
        return first_call(calibrated.product_times(self._sources, recipe, m, n, k))

    def grouped_product(
        self, recipe: str, rows: float, experts: int, matrix: LocalMatrix
    ) -> CallTime:
        """`rows` rows in all, spread evenly over `experts` matrices of n x k."""
        rows_per_expert = rows / experts
        wide = LocalMatrix(n=matrix.n * experts, k=matrix.k)
        product = self.product(recipe, rows_per_expert, wide)
        width = 2 if recipe == "int4" else GEMM_RECIPES[recipe].a.nbytes(1, matrix.k) / matrix.k
        reread = self._read.seconds(width * (rows - rows_per_expert) * matrix.k).high_s
        d = product.duration
        longer = Duration(d.value_s, d.low_s, d.high_s + reread)
        return CallTime(duration=longer, bound_by=product.bound_by)

    def cast(self, recipe: str, rows: float, cols: int) -> CallTime:
        """rows x cols bf16 activations to fp8; recipes are those of op cast."""
        whole_rows = max(1, round(rows))
        by_provider = self._cast_times(recipe, whole_rows, cols)
        if by_provider:
            return first_call(min(by_provider, key=lambda times: float(times.total[0])))
        work = BY_NAME["cast"].work(recipe, {"rows": whole_rows, "cols": cols})
        return self.elementwise(work.dram_bytes)

    def _cast_times(self, recipe: str, rows: int, cols: int) -> list[Times]:
        """Times of one cast by each provider that was calibrated."""
        sizes = (np.array([float(rows)]), np.array([float(cols)]))
        return [
            calibrated.cast_times(self._sources, provider, recipe, *sizes)
            for provider in calibrated.cast_providers(self.calibration, recipe)
        ]

    def elementwise(self, count_bytes: float) -> CallTime:
        """A kernel that reads and writes `count_bytes` in all."""
        moving = self._copy.seconds(count_bytes)
        bound = "dram" if moving.value_s >= self._launch.value_s else "launch"
        d = self._launch + moving
        high = max(d.high_s, self._cast_seconds(count_bytes))
        return CallTime(duration=Duration(d.value_s, d.low_s, high), bound_by=bound)

    def _cast_seconds(self, count_bytes: float) -> float:
        """Seconds of the fastest calibrated cast by row of as many bytes; 0 without one."""
        rows = count_bytes / (_CAST_BYTES * _CAST_COLS)
        by_provider = self._cast_times(_ELEMENTWISE_CAST, max(1, round(rows)), _CAST_COLS)
        return min((float(times.total[0]) for times in by_provider), default=0.0)

    def norm(self, rows: float, cols: int) -> CallTime:
        """A norm that also adds to the residual stream."""
        return self.elementwise(BF16_BYTES * 4 * rows * cols)

    def activation(self, rows: float, inputs: int, outputs: int) -> CallTime:
        """The gated function between two products."""
        return self.elementwise(BF16_BYTES * rows * (inputs + outputs))

    def attention(self, work: AttentionWork) -> CallTime:
        """Attention by its operations and the bytes of its cache."""
        peak = self.spec.peak_flops_per_s["bf16"]
        math = ATTENTION_SHARE.seconds(work.flops / peak)
        read = self._read.seconds(work.read_bytes)
        read = Duration(read.value_s, read.low_s, read.high_s / CACHE_SHARE)
        parts = {"launch": self._launch.value_s, "math": math.value_s, "dram": read.value_s}
        bound = max(parts, key=lambda name: parts[name])
        return CallTime(duration=self._launch + math.longer(read), bound_by=bound)

    def link(self, source: Source, tensor: int, pipeline: int) -> Link:
        """See roofcal.models.link.link_of."""
        return link_of(self.calibration, self.spec, source, tensor, pipeline)

    def products_by(self, recipe: str) -> str:
        """The library; int4 is priced by its bf16 products."""
        math = "bf16" if recipe == "int4" else recipe
        return default_provider(self.calibration.constants, math)

    def assumptions(self, recipe: str) -> list[str]:
        """What was assumed rather than calibrated, one line each."""
        share = ATTENTION_SHARE
        lines = [
            f"products by {self.products_by(recipe)}; "
            "casts by the fastest provider that was calibrated",
            f"attention: assumed {share.value:g} ({share.low:g} to {share.high:g}) of the "
            "datasheet's bf16 rate; KV cache in bf16 at the calibrated read bandwidth",
        ]
        if recipe == "int4":
            lines.append(
                "int4: weights of 4.25 bit (groups of 128), math in bf16; priced by memory "
                "bandwidth and the bf16 model; measured int4 kernels (op mixed_gemm) are not used"
            )
        return lines

    def _int4(self, m: Array, matrix: LocalMatrix) -> CallTime:
        n, k = np.array([float(matrix.n)]), np.array([float(matrix.k)])
        provider = default_provider(self.calibration.constants, "bf16")
        parts = calibrated_products.product_parts(self.calibration, provider, "bf16", (m, n, k))
        constants = self.calibration.constants
        rows = float(m[0])
        moved = matrix_bytes("int4", matrix) + 2 * rows * (matrix.k + matrix.n)
        dram = moved / constants[f"gemm.{provider}.bf16.dram_bytes_per_s"].value
        parts = joined(parts.launch, np.full_like(m, dram), parts.tiles, parts.power)
        launch, value = float(parts.launch[0]), float(parts.total[0])
        factors = calibrated_products.product_factors(self.calibration, provider, "bf16", (m, n, k))
        error = float(factors[0])
        reading, computing = self._read.seconds(moved).low_s, self._least_math_s(rows, matrix)
        roof = launch / error + max(reading, computing)
        return CallTime(
            duration=Duration(value, min(value, roof), value * error),
            bound_by=parts.bound_by[0],
        )

    def _least_math_s(self, rows: float, matrix: LocalMatrix) -> float:
        """The least time of a bf16 product's operations, by its datasheet."""
        return 2 * rows * matrix.n * matrix.k / self.spec.peak_flops_per_s["bf16"]

    @cached_property
    def _sources(self) -> Sources:
        return Sources(calibration=self.calibration, spec=self.spec)

    @cached_property
    def _launch(self) -> Duration:
        launch = self.calibration.constants["launch_graph_s"]
        return Duration(launch.value, launch.ci95_low, launch.ci95_high)

    @cached_property
    def _copy(self) -> Rate:
        return _rate(self.calibration.constants["dram_copy_bytes_per_s"])

    @cached_property
    def _read(self) -> Rate:
        return _rate(self.calibration.constants["dram_read_bytes_per_s"])


def _rate(constant: Ceiling) -> Rate:
    return Rate(constant.value, constant.ci95_low, constant.ci95_high)
