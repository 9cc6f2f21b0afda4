"""What a calibrated device asks for a product, for bytes moved and for attention.

product      roofcal.models.calibrated, its default provider, with its interval
int4         weight-only: the bf16 product with the weights' bytes taken at 4.25 bit. No int4 kernel
             was measured: low is the roof (bytes at the read bandwidth or the datasheet's bf16
             math, whichever is longer), high is the bf16 model's own error above the value
grouped      one product per expert in one kernel: as one product whose N is experts * n, which has
             the same operations, weights, outputs and tiles. Its rows are read once per product in
             the value and once per expert in `high`
cast         the fastest provider that was calibrated; without one, as moved
moved        launch + bytes / copy bandwidth: norms, activations, embedding. No such kernel was
             measured but casts by row, which work alike: `high` is the time of the fastest
             calibrated cast that moves as many bytes
attention    the longer of operations at ATTENTION_SHARE of the datasheet's bf16 rate and bytes of
             the cache at the read bandwidth; `high` reads at CACHE_SHARE of it

ATTENTION_SHARE: FlashAttention-3 (2024-07) reaches up to 75 % of an H100's bf16 rate, its
predecessor 35 % (abstract of the paper); we take the middle, and the two as ends.
CACHE_SHARE: 0.8, what the notebook on MI300X inference assumes that streams attain.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from roofcal.ask.llm.architecture import RECIPES, Side, matrix_bytes
from roofcal.core.devices import DeviceSpec
from roofcal.core.recipes import GEMM_RECIPES
from roofcal.core.records import Calibration, Ceiling
from roofcal.core.times import Array, Times
from roofcal.models import calibrated
from roofcal.models.duration import Duration, Priced, Rate
from roofcal.models.errors import PredictError
from roofcal.models.sources import Sources
from roofcal.ops import BY_NAME
from roofcal.ops.gemm import predict as calibrated_products
from roofcal.ops.gemm.fitted import default_provider
from roofcal.ops.gemm.model import joined

ATTENTION_SHARE: Final = Rate(0.55, 0.35, 0.75)
CACHE_SHARE: Final = 0.8
_CAST_LIKE: Final = "fp8_rowwise_dim0"
_CAST_COLS: Final = 8192  # a usual width of rows
_CAST_BYTES: Final = 3  # per element: bf16 in, fp8 out
_NEEDED: Final = ("launch_graph_s", "dram_read_bytes_per_s", "dram_copy_bytes_per_s")


@dataclass(frozen=True, kw_only=True)
class Prices:
    """A device that was calibrated and has a datasheet."""

    calibration: Calibration
    spec: DeviceSpec

    def product(self, recipe: str, rows: float, side: Side) -> Priced:
        """rows x k activations times n x k weights."""
        m, n, k = (np.array([float(size)]) for size in (rows, side.n, side.k))
        if recipe == "int4":
            return self._int4(m, side)
        return _first(calibrated.product_times(self._sources, recipe, m, n, k))

    def grouped(self, recipe: str, rows: float, experts: int, side: Side) -> Priced:
        """`rows` rows in all, spread evenly over `experts` matrices of n x k."""
        each = rows / experts
        wide = Side(n=side.n * experts, k=side.k)
        priced = self.product(recipe, each, wide)
        width = 2 if recipe == "int4" else GEMM_RECIPES[recipe].a.nbytes(1, side.k) / side.k
        again = self._read.seconds(width * (rows - each) * side.k).high_s
        d = priced.duration
        longer = Duration(d.value_s, d.low_s, d.high_s + again)
        return Priced(duration=longer, bound_by=priced.bound_by)

    def cast(self, recipe: str, rows: float, cols: int) -> Priced:
        """rows x cols bf16 activations to fp8; recipes are those of op cast."""
        whole = max(1, round(rows))
        every = self._casts(recipe, whole, cols)
        if every:
            return _first(min(every, key=lambda times: float(times.total[0])))
        work = BY_NAME["cast"].work(recipe, {"rows": whole, "cols": cols})
        return self.moved(work.dram_bytes)

    def _casts(self, recipe: str, rows: int, cols: int) -> list[Times]:
        """Times of one cast by each provider that was calibrated."""
        sizes = (np.array([float(rows)]), np.array([float(cols)]))
        return [
            calibrated.cast_times(self._sources, provider, recipe, *sizes)
            for provider in calibrated.cast_providers(self.calibration, recipe)
        ]

    def moved(self, count_bytes: float) -> Priced:
        """A kernel that reads and writes so many bytes together."""
        stream = self._copy.seconds(count_bytes)
        bound = "dram" if stream.value_s >= self._launch.value_s else "launch"
        d = self._launch + stream
        high = max(d.high_s, self._like_a_cast(count_bytes))
        return Priced(duration=Duration(d.value_s, d.low_s, high), bound_by=bound)

    def _like_a_cast(self, count_bytes: float) -> float:
        """Seconds of the fastest calibrated cast by row of as many bytes; 0 without one."""
        rows = count_bytes / (_CAST_BYTES * _CAST_COLS)
        every = self._casts(_CAST_LIKE, max(1, round(rows)), _CAST_COLS)
        return min((float(times.total[0]) for times in every), default=0.0)

    def attention(self, flops: float, read_bytes: float) -> Priced:
        """Attention of so many operations over a cache of so many bytes."""
        peak = self.spec.peak_flops_per_s["bf16"]
        math = ATTENTION_SHARE.seconds(flops / peak)
        read = self._read.seconds(read_bytes)
        read = Duration(read.value_s, read.low_s, read.high_s / CACHE_SHARE)
        parts = {"launch": self._launch.value_s, "math": math.value_s, "dram": read.value_s}
        bound = max(parts, key=lambda name: parts[name])
        return Priced(duration=self._launch + math.longer(read), bound_by=bound)

    def _int4(self, m: Array, side: Side) -> Priced:
        n, k = np.array([float(side.n)]), np.array([float(side.k)])
        provider = default_provider(self.calibration.constants, "bf16")
        parts = calibrated_products.parts(self.calibration, provider, "bf16", (m, n, k))
        constants = self.calibration.constants
        rows = float(m[0])
        moved = matrix_bytes("int4", side) + 2 * rows * (side.k + side.n)
        dram = moved / constants[f"gemm.{provider}.bf16.dram_bytes_per_s"].value
        parts = joined(parts.launch, parts.tiles, np.full_like(m, dram), parts.power)
        launch, value = float(parts.launch[0]), float(parts.total[0])
        factors = calibrated_products.interval_factors(self.calibration, provider, "bf16", n, k)
        error = float(factors[0])
        roof = launch / error + max(self._read.seconds(moved).low_s, self._bf16_seconds(rows, side))
        return Priced(
            duration=Duration(value, min(value, roof), value * error),
            bound_by=parts.bound_by[0],
        )

    def _bf16_seconds(self, rows: float, side: Side) -> float:
        """The least time of a bf16 product's operations, by its datasheet."""
        return 2 * rows * side.n * side.k / self.spec.peak_flops_per_s["bf16"]

    @cached_property
    def _sources(self) -> Sources:
        return Sources(calibration=self.calibration, spec=self.spec)

    @cached_property
    def _launch(self) -> Duration:
        known = self.calibration.constants["launch_graph_s"]
        return Duration(known.value, known.ci95_low, known.ci95_high)

    @cached_property
    def _copy(self) -> Rate:
        return _rate(self.calibration.constants["dram_copy_bytes_per_s"])

    @cached_property
    def _read(self) -> Rate:
        return _rate(self.calibration.constants["dram_read_bytes_per_s"])


def prices_of(sources: Sources, recipe: str) -> Prices:
    """Prices from a calibration and a datasheet.

    Raises PredictError where one of them is missing, or was not made for the recipe.
    """
    calibration, spec = sources.calibration, sources.spec
    if calibration is None or spec is None:
        device = calibration.device if calibration else "the device"
        raise PredictError(f"{device} needs a calibration and a file in config/devices")
    missing = [name for name in _NEEDED if name not in calibration.constants]
    if missing:
        raise PredictError(
            f"the calibration of {calibration.device} has no {', '.join(missing)}; "
            "run `make study` again: probe_launch and probe_copy measure them"
        )
    known = recipes_of(sources)
    if recipe not in known:
        raise PredictError(
            f"the calibration of {calibration.device} does not know recipe '{recipe}' of `llm`; "
            f"it knows {', '.join(known) or 'none'}"
        )
    return Prices(calibration=calibration, spec=spec)


def can_price(sources: Sources) -> bool:
    """Whether prices_of has what it needs for at least one recipe."""
    known = sources.calibration.constants if sources.calibration else {}
    return (
        sources.spec is not None
        and all(name in known for name in _NEEDED)
        and bool(recipes_of(sources))
    )


def recipes_of(sources: Sources) -> tuple[str, ...]:
    """Recipes that can be priced: bf16 must be calibrated for all, as head and router run in it."""
    found = calibrated.product_recipes(sources)
    if "bf16" not in found:
        return ()
    return tuple(name for name in RECIPES if name in found or name == "int4")


def _first(times: Times) -> Priced:
    """The first of many points; a model that states no interval has none."""
    value = float(times.total[0])
    low = value if times.low is None else float(times.low[0])
    high = value if times.high is None else float(times.high[0])
    return Priced(duration=Duration(value, low, high), bound_by=times.bound_by[0])


def _rate(constant: Ceiling) -> Rate:
    return Rate(constant.value, constant.ci95_low, constant.ci95_high)
