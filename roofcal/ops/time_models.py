"""What a model of time reads and answers. Ops that are made of others ask it for their parts.

The models are modules of roofcal.models, listed in roofcal.models.registry.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Protocol, runtime_checkable

import numpy as np

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration, PlanPoint, Prediction
from roofcal.core.times import Array, BeyondProbes, Times, Value
from roofcal.core.wave_device import WaveDevice
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
    def wave(self) -> WaveDevice | None:
        """What the wave model knows of the device; None where its file does not describe it."""
        return self.spec.wave if self.spec else None


class Model(Protocol):
    """What every model of time has; a module or an object. MODEL is its name."""

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


@runtime_checkable
class TimesProducts(Protocol):
    """A model that times products of a provider by vectors; others are asked through `predict`."""

    def products_by(
        self, sources: Sources, provider: str, recipe: str, m: Array, n: Array, k: Array, /
    ) -> Times:
        """Seconds of products; raises KeyError for those that it does not know."""
        ...


@runtime_checkable
class TimesCasts(Protocol):
    """A model that times casts by vectors; others are asked through `predict`."""

    def cast_times(
        self, sources: Sources, provider: str, recipe: str, rows: Array, cols: Array, /
    ) -> Times:
        """Seconds of casts of rows x cols; raises KeyError for one that it does not know."""
        ...


@runtime_checkable
class TimesBytesOfCasts(Protocol):
    """A model that knows which part of a cast goes with its bytes."""

    def moving_times(
        self, sources: Sources, provider: str, recipe: str, rows: Array, cols: Array, /
    ) -> Times:
        """As `cast_times` of TimesCasts, without the start of the kernels."""
        ...


@runtime_checkable
class KnowsLinks(Protocol):
    """A model that knows what joins the devices of one machine."""

    def fabrics(self, sources: Sources, world_size: int, /) -> Fabrics | None:
        """The link among so many devices; None where it knows none."""
        ...


def product_times(
    model: Model, sources: Sources, provider: str, recipe: str, sizes: Sequence[Array]
) -> Times:
    """Seconds of products of sizes (m, n, k) by any model.

    provider: "" is the one that the model means by default. Raises KeyError for a product that the
    model does not know.
    """
    m, n, k = sizes
    if not provider:
        return model.product_times(sources, recipe, m, n, k)
    if isinstance(model, TimesProducts):
        return model.products_by(sources, provider, recipe, m, n, k)
    sides = dict(zip("mnk", sizes, strict=True))
    return _predicted_times(model, sources, "gemm", (provider, recipe), sides)


def cast_times(
    model: Model, sources: Sources, provider: str, recipe: str, rows: Array, cols: Array
) -> Times:
    """Seconds of casts by any model; raises KeyError for one that it does not know."""
    if isinstance(model, TimesCasts):
        return model.cast_times(sources, provider, recipe, rows, cols)
    sides = {"rows": rows, "cols": cols}
    return _predicted_times(model, sources, "cast", (provider, recipe), sides)


def moving_times(
    model: Model, sources: Sources, provider: str, recipe: str, rows: Array, cols: Array
) -> Times:
    """Seconds that casts take to move their bytes, by any model.

    A model that does not tell them from the start of a kernel answers with the whole cast. Raises
    KeyError for a cast that it does not know.
    """
    if isinstance(model, TimesBytesOfCasts):
        return model.moving_times(sources, provider, recipe, rows, cols)
    return cast_times(model, sources, provider, recipe, rows, cols)


def scaled_times(times: Times, factor: Value) -> Times:
    """Times a factor, intervals too; factor: one number, or one for each point."""
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
    names = list(parts)
    totals = np.stack([part.total for part in parts.values()])
    lows = [part.low for part in parts.values() if part.low is not None]
    highs = [part.high for part in parts.values() if part.high is not None]
    has_interval = len(lows) == len(highs) == len(names)
    beyond = [part.beyond for part in parts.values() if part.beyond is not None]
    return Times(
        total=totals.sum(axis=0),
        low=np.stack(lows).sum(axis=0) if has_interval else None,
        high=np.stack(highs).sum(axis=0) if has_interval else None,
        bound_by=[names[index] for index in totals.argmax(axis=0)],
        beyond=reduce(BeyondProbes.farther, beyond) if beyond else None,
    )


def _predicted_times(
    model: Model, sources: Sources, op: str, pair: tuple[str, str], sides: Mapping[str, Array]
) -> Times:
    """Seconds by `predict`, one point per element of the vectors in `sides`, by axis."""
    provider, recipe = pair
    columns = [side.astype(int).tolist() for side in sides.values()]
    points = [
        PlanPoint(
            op=op,
            provider=provider,
            recipe=recipe,
            shape=dict(zip(sides, sizes, strict=True)),
            device="",  # models know the device by their sources
        )
        for sizes in zip(*columns, strict=True)
    ]
    predictions = model.predict(points, sources)
    if len(predictions) != len(points):
        raise KeyError(recipe)
    return Times(
        total=np.array([prediction.total_s for prediction in predictions], dtype=float),
        low=_vector_or_none([prediction.low_s for prediction in predictions]),
        high=_vector_or_none([prediction.high_s for prediction in predictions]),
        bound_by=[prediction.bound_by for prediction in predictions],
    )


def _vector_or_none(values: Sequence[float | None]) -> Array | None:
    stated = [value for value in values if value is not None]
    return np.array(stated, dtype=float) if len(stated) == len(values) else None
