"""What a model of time reads and answers. Ops that are made of others ask it for their parts.

The models are modules of roofcal.models, listed in roofcal.models.registry.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Protocol

import numpy as np

from roofcal.core.devices import DeviceSpec, WaveDevice
from roofcal.core.records import Calibration, PlanPoint, Prediction
from roofcal.core.times import Array, BeyondProbes, Times, Value
from roofcal.ops import BY_NAME
from roofcal.ops.probe_link.model import Fabrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """A device as the models know it; each of its files may be missing.

    calibration   constants fitted on its probes in one environment
    spec          its file config/devices/<device>.yaml: datasheet and, for some, `wave`
    """

    calibration: Calibration | None = None
    spec: DeviceSpec | None = None

    @property
    def device(self) -> str:
        """The device's id; "" where nothing is known of it."""
        return next((s.device for s in (self.calibration, self.spec) if s is not None), "")

    @property
    def environment(self) -> str | None:
        """The environment that was calibrated; None without a calibration."""
        return None if self.calibration is None else self.calibration.environment_id

    @property
    def wave(self) -> WaveDevice | None:
        """What the wave model knows of the device; None where its file does not describe it."""
        return self.spec.wave if self.spec else None


class Model(Protocol):
    """What every model of time has; a module or an object. MODEL is its name.

    A model may have more, and is asked through `predict` where it has not:

    products_by(sources, provider, recipe, m, n, k)         products of a provider, by vectors
    narrow_times(sources, provider, recipe, m, n, k)        products of op mixed_gemm
    cast_times(sources, provider, recipe, rows, cols)       casts by vectors
    moving_times(sources, provider, recipe, rows, cols)     as cast_times, without the start of the
                                                            kernels: what goes with their bytes
    fabrics(sources, world_size)                            what joins the devices of a machine

    PARTS_ALONE                                             True: its products and casts take what
                                                            such calls take one after the other, and
                                                            less between the parts of a linear

    The functions but the last return Times and raise KeyError for what the model does not know.
    """

    MODEL: str

    def product_recipes(self, sources: Sources, /) -> tuple[str, ...]:
        """Recipes of op gemm it can answer from these sources."""
        ...

    def product_times(
        self, sources: Sources, recipe: str, m: Array, n: Array, k: Array, /
    ) -> Times:
        """Seconds of C[M,N] = A[M,K] @ B[N,K].T; raises KeyError for a recipe it cannot answer."""
        ...

    def predict(self, points: Sequence[PlanPoint], sources: Sources, /) -> list[Prediction]:
        """A prediction per point it can answer by itself, of any op."""
        ...


def product_times(
    model: Model,
    sources: Sources,
    provider: str,
    recipe: str,
    sizes: Sequence[Array],
    op: str = "gemm",
) -> Times:
    """Seconds of products of sizes (m, n, k) by any model.

    provider: "" is the one that the model means by default. op: gemm or mixed_gemm. Raises KeyError
    for a product that the model does not know.
    """
    m, n, k = sizes
    if op == "gemm" and not provider:
        return model.product_times(sources, recipe, m, n, k)
    function = "products_by" if op == "gemm" else "narrow_times"
    return _times_by(model, function, sources, (op, provider, recipe), sizes)


def cast_times(
    model: Model, sources: Sources, provider: str, recipe: str, rows: Array, cols: Array
) -> Times:
    """Seconds of casts by any model; raises KeyError for one that it does not know."""
    return _times_by(model, "cast_times", sources, ("cast", provider, recipe), (rows, cols))


def moving_times(
    model: Model, sources: Sources, provider: str, recipe: str, rows: Array, cols: Array
) -> Times:
    """Seconds that casts take to move their bytes, by any model.

    A model that does not tell them from the start of a kernel answers with the whole cast. Raises
    KeyError for a cast that it does not know.
    """
    name = "moving_times" if hasattr(model, "moving_times") else "cast_times"
    return _times_by(model, name, sources, ("cast", provider, recipe), (rows, cols))


def fabrics_of(model: Model, sources: Sources, world_size: int) -> Fabrics | None:
    """What joins so many devices, by any model; None where it knows no link."""
    model_fabrics = getattr(model, "fabrics", None)
    fabrics: Fabrics | None = model_fabrics(sources, world_size) if model_fabrics else None
    return fabrics


def scaled_times(times: Times, factor: Value) -> Times:
    """Times a factor, intervals too; factor: one, or one per point."""
    return replace(
        times,
        total=times.total * factor,
        low=None if times.low is None else times.low * factor,
        high=None if times.high is None else times.high * factor,
    )


def sum_of_times(parts: Mapping[str, Times]) -> Times:
    """The sum of named parts, bound by the largest.

    Lows and highs are added, see roofcal.core.times. They are None where a part has none. A sum
    lies as far beyond the probes as the part that is farthest.
    """
    names, times = list(parts), list(parts.values())
    totals = np.stack([part.total for part in times])
    lows = [part.low for part in times if part.low is not None]
    highs = [part.high for part in times if part.high is not None]
    has_interval = len(lows) == len(highs) == len(names)
    beyond = [part.beyond for part in times if part.beyond is not None]
    return Times(
        total=totals.sum(axis=0),
        low=np.stack(lows).sum(axis=0) if has_interval else None,
        high=np.stack(highs).sum(axis=0) if has_interval else None,
        bound_by=[names[index] for index in totals.argmax(axis=0)],
        beyond=reduce(BeyondProbes.farther, beyond) if beyond else None,
    )


def _times_by(
    model: Model,
    function: str,
    sources: Sources,
    contender: tuple[str, str, str],
    sizes: Sequence[Array],
) -> Times:
    """Seconds by a function that the model may have, else by `predict`, a point per element.

    contender: op, provider and recipe. sizes: vectors along the axes of the op.
    """
    op, provider, recipe = contender
    if by_vectors := getattr(model, function, None):
        times: Times = by_vectors(sources, provider, recipe, *sizes)
        return times
    columns = [size.astype(int).tolist() for size in sizes]
    points = [
        PlanPoint(
            op=op,
            provider=provider,
            recipe=recipe,
            shape=dict(zip(BY_NAME[op].axes, shape, strict=True)),
            device="",  # models know the device by their sources
        )
        for shape in zip(*columns, strict=True)
    ]
    predictions = model.predict(points, sources)
    if len(predictions) != len(points):
        raise KeyError(recipe)
    ends = ([p.low_s for p in predictions], [p.high_s for p in predictions])
    low, high = (None if None in end else np.array(end, dtype=float) for end in ends)
    return Times(
        total=np.array([prediction.total_s for prediction in predictions], dtype=float),
        low=low,
        high=high,
        bound_by=[prediction.bound_by for prediction in predictions],
    )
