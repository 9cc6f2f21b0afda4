"""Models of time of the operators of a language model: the calibrated one, and which there are.

docs/models.md has the time of each operator, and where the shares that attention reaches are from.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal

import numpy as np

from roofcal.ask.linear_options import FARTHEST
from roofcal.ask.llm.deployment import INT4_RECIPE, RECIPES, LocalMatrix
from roofcal.ask.llm.operator_times import (
    AttentionWork,
    OperatorTimes,
    RoofOperators,
    WaveOperators,
    calls_of,
    int4_bytes,
    vectors,
    whole,
)
from roofcal.ask.llm.operators import CASTS
from roofcal.ask.shape_limits import joined_refusals, refusal, refusals
from roofcal.core.devices import DeviceSpec
from roofcal.core.recipes import GEMM_RECIPES
from roofcal.core.records import Calibration
from roofcal.core.times import CallTime, Duration, Rate
from roofcal.models import calibrated, datasheet, torchao
from roofcal.models.errors import PredictError
from roofcal.models.link import Link, Source, link_of
from roofcal.models.registry import model_named
from roofcal.ops import BY_NAME
from roofcal.ops.constants import calibrated_providers
from roofcal.ops.gemm import model as gemm
from roofcal.ops.predictions import parts_of_pair
from roofcal.ops.time_models import Sources

ATTENTION_SHARE: Final = Rate(0.55, 0.35, 0.75)
CACHE_SHARE: Final = 0.8
_ELEMENTWISE_CAST: Final = "fp8_rowwise_dim0"
_CAST_COLS: Final = 8192  # a usual width of rows
_CAST_BYTES: Final = 3  # per element: bf16 in, fp8 out
_Pair = tuple[str, str, str]  # op, provider, recipe
_Sizes = tuple[float, ...]  # along the axes of the op
_NEEDED: Final = ("launch_graph_s", "dram_read_bytes_per_s", "dram_copy_bytes_per_s")


@dataclass(frozen=True, kw_only=True)
class CalibratedOperators(OperatorTimes):
    """Operators of a device that was calibrated and has a datasheet.

    Products and casts are computed once: cuts and batches of a sweep share two thirds of them.

    _products  by the arguments of `product`, of one expert's rows
    _calls     what single providers take, by op, provider and recipe, and by sizes
    _awaited   while `prepare` asks: the sizes to compute; else None
    """

    calibration: Calibration
    spec: DeviceSpec
    _products: dict[tuple[str, float, int, LocalMatrix], CallTime] = field(
        default_factory=dict, compare=False
    )
    _calls: dict[_Pair, dict[_Sizes, CallTime]] = field(
        default_factory=lambda: defaultdict(dict), compare=False
    )
    _awaited: dict[_Pair, dict[_Sizes, None]] | None = field(default=None, compare=False)

    def prepare(self, ask: Callable[[OperatorTimes], object]) -> None:
        """Have `ask` meet stand-ins for what is unknown, and compute that in vectors."""
        asked: dict[_Pair, dict[_Sizes, None]] = defaultdict(dict)
        ask(replace(self, _products=dict(self._products), _awaited=asked))
        for pair, sizes in asked.items():
            self._compute(pair, list(sizes))

    def product(self, recipe: str, rows: float, matrix: LocalMatrix, experts: int = 1) -> CallTime:
        """By the default provider if it takes the sides of one expert, else another that does.

        Raises PredictError where none does.
        """
        rows_of_one, key = rows / experts, (recipe, rows / experts, experts, matrix)
        if key not in self._products:
            wide = LocalMatrix(n=matrix.n * experts, k=matrix.k)
            if recipe == "int4":
                self._products[key] = self._int4(rows_of_one, matrix, wide)
            else:
                constants = self.calibration.constants
                names = [gemm.default_provider(constants, recipe)]
                names += calibrated_providers(constants, "gemm", recipe)
                refused = refusals(BY_NAME["gemm"], names, recipe, matrix.shape)
                provider = next((name for name in names if name not in refused), None)
                if provider is None:
                    raise PredictError("; ".join(joined_refusals(refused)))
                self._products[key] = self._call("gemm", provider, recipe, rows_of_one, *wide)
        width = 2 if recipe == "int4" else GEMM_RECIPES[recipe].a.nbytes(1, matrix.k) / matrix.k
        reread = self._rate("read").seconds(width * (rows - rows_of_one) * matrix.k).high_s
        d = self._products[key].duration
        longer = Duration(d.value_s, d.low_s, d.high_s + reread)
        return replace(self._products[key], duration=longer)

    def cast(self, recipe: str, rows: float, cols: int) -> CallTime:
        """By the fastest provider that was calibrated; without one, its least bytes."""
        whole_rows = whole(rows)
        by_provider = self._cast_times(recipe, whole_rows, cols)
        if by_provider:
            return min(by_provider, key=lambda call: call.duration.value_s)
        work = BY_NAME["cast"].work(recipe, {"rows": whole_rows, "cols": cols})
        return self.elementwise(work.dram_bytes)

    def _cast_times(self, recipe: str, rows: int, cols: int) -> list[CallTime]:
        """Times of one cast by each provider that was calibrated."""
        return [
            self._call("cast", provider, recipe, rows, cols)
            for provider in calibrated.cast_providers(self.calibration, recipe)
        ]

    def _call(self, op: str, provider: str, recipe: str, *sizes: float) -> CallTime:
        """What a provider takes, of sizes along the axes of an op."""
        pair = op, provider, recipe
        if sizes not in self._calls[pair]:
            if self._awaited is not None:
                self._awaited[pair][sizes] = None
                return CallTime(duration=Duration(1.0, 1.0, 1.0), bound_by="", provider=provider)
            self._compute(pair, [sizes])
        return self._calls[pair][sizes]

    def _compute(self, pair: _Pair, calls: Sequence[_Sizes]) -> None:
        op, provider, recipe = pair
        sizes = [np.array(axis, dtype=float) for axis in zip(*calls, strict=True)]
        times = calibrated.times_of(op, self._sources, provider, recipe, *sizes)
        whose = "" if op == "cast" else provider  # a phase names the providers of its products
        self._calls[pair].update(zip(calls, calls_of(times, whose), strict=True))

    def elementwise(self, count_bytes: float) -> CallTime:
        """A launch and its bytes; at most what the fastest cast by row of as many bytes takes."""
        moving = self._rate("copy").seconds(count_bytes)
        bound = "dram" if moving.value_s >= self._launch.value_s else "launch"
        d, rows = self._launch + moving, whole(count_bytes / (_CAST_BYTES * _CAST_COLS))
        casts = self._cast_times(_ELEMENTWISE_CAST, rows, _CAST_COLS)
        high = max(d.high_s, min((call.duration.value_s for call in casts), default=0.0))
        return CallTime(duration=Duration(d.value_s, d.low_s, high), bound_by=bound)

    def attention(self, work: AttentionWork) -> CallTime:
        """Attention by its operations and the bytes of its cache."""
        peak = self.spec.peak_flops_per_s["bf16"]
        math = ATTENTION_SHARE.seconds(work.flops / peak)
        read = self._rate("read").seconds(work.read_bytes)
        read = Duration(read.value_s, read.low_s, read.high_s / CACHE_SHARE)
        parts = {"launch": self._launch.value_s, "math": math.value_s, "dram": read.value_s}
        bound = max(parts, key=lambda name: parts[name])
        return CallTime(duration=self._launch + math.longer(read), bound_by=bound)

    def link(self, source: Source, tensor: int, pipeline: int) -> Link:
        """As roofcal.models.link.link_of."""
        return link_of(self.calibration, self.spec, source, tensor, pipeline)

    def assumptions(self, recipe: str) -> list[str]:
        """What was assumed rather than calibrated, one line each."""
        share = ATTENTION_SHARE
        cast_recipe, lines = CASTS.get(recipe), list[str]()
        if cast_recipe and calibrated.cast_providers(self.calibration, cast_recipe):
            lines.append("casts by the fastest provider that was calibrated")
        elif cast_recipe:
            lines.append("casts: not calibrated, timed as their least bytes at the copy bandwidth")
        lines.append(
            f"attention: assumed {share.value:g} ({share.low:g} to {share.high:g}) of the "
            "datasheet's bf16 rate; KV cache in bf16 at the calibrated read bandwidth"
        )
        if recipe == "int4":
            library = gemm.default_provider(self.calibration.constants, "bf16")
            stands_in = f"{library} (bf16) is its bf16 product with the bytes of int4"
            whose = f"no int4 kernel was calibrated: {stands_in}"
            if providers := self._int4_providers:
                whose = (
                    f"products by the fastest calibrated kernel of {INT4_RECIPE} "
                    f"({', '.join(providers)}); {stands_in}, used where "
                    f"a size lies more than {FARTHEST:g} doublings outside the probes of int4"
                )
            lines.append(f"int4: weights of 4.25 bit (groups of 128), math in bf16; {whose}")
        return lines

    @property
    def _int4_providers(self) -> list[str]:
        return calibrated_providers(self.calibration.constants, "mixed_gemm", INT4_RECIPE)

    def _int4(self, rows: float, matrix: LocalMatrix, wide: LocalMatrix) -> CallTime:
        """matrix: one expert, by whose sides kernels refuse; wide: all of them, or the same."""
        op, shape = BY_NAME["mixed_gemm"], {"m": int(rows), "n": matrix.n, "k": matrix.k}
        kernels = [
            self._call(op.name, name, INT4_RECIPE, rows, *wide)
            for name in self._int4_providers
            if refusal(op, name, INT4_RECIPE, shape) is None
        ]
        near = [kernel for kernel in kernels if kernel.doublings <= FARTHEST]
        if near:
            return min(near, key=lambda kernel: kernel.duration.value_s)
        # the bf16 product with the bytes of int4, of no measured kernel
        constants, (m, n, k) = self.calibration.constants, vectors(rows, *wide)
        provider = gemm.default_provider(constants, "bf16")
        parts = parts_of_pair(gemm, self.calibration, provider, "bf16", (m, n, k))
        moved = int4_bytes(rows, wide)
        dram = moved / constants[f"gemm.{provider}.bf16.dram_bytes_per_s"].value
        parts = gemm.joined(
            launch=parts.launch,
            tiles=parts.tiles,
            sums=parts.sums,
            dram=np.full_like(m, dram),
            power=parts.power,
        )
        launch, value = float(parts.launch[0]), float(parts.total[0])
        product = self._call("gemm", provider, "bf16", rows, *wide)
        error = product.duration.high_s / product.duration.value_s
        reading = self._rate("read").seconds(moved).low_s
        computing = 2 * rows * wide.n * wide.k / self.spec.peak_flops_per_s["bf16"]
        roof = launch / error + max(reading, computing)
        duration = Duration(value, min(value, roof), value * error)
        bound, whose = parts.bound_by[0], f"{provider} (bf16)"
        return replace(product, duration=duration, bound_by=bound, provider=whose)

    @cached_property
    def _sources(self) -> Sources:
        return Sources(calibration=self.calibration, spec=self.spec)

    @cached_property
    def _launch(self) -> Duration:
        launch = self.calibration.constants["launch_graph_s"]
        return Duration(launch.value, launch.ci95_low, launch.ci95_high)

    def _rate(self, kind: Literal["read", "copy"]) -> Rate:
        """The bandwidth of the memory."""
        bandwidth = self.calibration.constants[f"dram_{kind}_bytes_per_s"]
        return Rate(bandwidth.value, bandwidth.ci95_low, bandwidth.ci95_high)


def operator_times(sources: Sources, recipe: str, by: str = calibrated.MODEL) -> OperatorTimes:
    """The times by a model of time, one of MODELS.

    Raises PredictError where what the model reads of the device is missing, or where the model has
    no rate or constant of the recipe.
    """
    calibration = sources.calibration if by == calibrated.MODEL else None
    spec, is_calibrated = sources.spec, by == calibrated.MODEL
    if spec is None:
        device = sources.device or "the device"
        raise PredictError(
            f"{device} has no file in config/devices, which says its memory and rates: a language "
            "model can be asked about the GPUs that `roofcal devices` lists"
        )
    if is_calibrated and calibration is None:
        raise PredictError(f"{spec.device} has no calibration; another model of time needs none")
    if calibration is not None:
        missing = [name for name in _NEEDED if name not in calibration.constants]
        if missing:
            raise PredictError(
                f"the calibration of {calibration.device} has no {', '.join(missing)}; "
                "run `make study` again: probe_launch and probe_copy measure them"
            )
    if by == "wave" and spec.wave is None:
        raise PredictError(f"config/devices/{spec.device}.yaml has no section 'wave'")
    recipes = estimable_recipes(sources, by)
    if recipe not in recipes:
        what = "the calibration" if is_calibrated else f"model '{by}'"
        raise PredictError(
            f"{what} of {spec.device} does not know recipe '{recipe}' of `llm`; "
            f"it knows {', '.join(recipes) or 'none'}"
        )
    if calibration is not None:
        return CalibratedOperators(calibration=calibration, spec=spec)
    waves = WaveOperators(device=spec.wave) if spec.wave else None
    if by == "wave" and waves is not None:
        return waves
    if by == "datasheet":
        return RoofOperators(model=datasheet, spec=spec)
    fractions = torchao.from_datasheet(spec)
    return RoofOperators(
        model=torchao,
        spec=spec,
        math_fraction=fractions.math_fraction,
        dram_fraction=fractions.dram_fraction,
        shortest_s=fractions.launch_s,
        described=waves,
    )


def estimable_recipes(sources: Sources, by: str = calibrated.MODEL) -> tuple[str, ...]:
    """Recipes of `llm` that a model can time, none where what it reads of the device is missing.

    All need bf16, because head and router run in it.
    """
    constants = sources.calibration.constants if sources.calibration else {}
    if sources.spec is None or (by == calibrated.MODEL and not constants.keys() >= {*_NEEDED}):
        return ()
    model, timed = model_named(by), ["int4"]
    for recipe in set(model.product_recipes(sources)) & set(RECIPES):
        try:  # a part of the constants of a recipe may have been fitted
            model.product_times(sources, recipe, *vectors(1024, 1024, 1024))
        except KeyError:
            continue
        timed.append(recipe)
    return tuple(name for name in RECIPES if name in timed) if "bf16" in timed else ()
