"""A model of time whose every answer a test can work out by hand."""

# ruff: noqa: ARG002 (every model is handed sources; this one needs none)

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from roofcal.core.records import PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.ops.time_models import Sources

Seconds = Callable[[Array], Array]  # of the rows m, n, k of one array


@dataclass(kw_only=True)
class StandIn:
    """products: recipe -> seconds; factor: of the interval, None for no interval.

    predict answers casts: one second each, for the providers in `casts`; `timed_casts` keeps them.
    """

    products: dict[str, Seconds]
    factor: float | None = None
    casts: tuple[str, ...] = ()
    MODEL: str = "stand_in"
    timed_casts: list[tuple[str, int, int]] = field(default_factory=list)

    def product_recipes(self, sources: Sources, /) -> tuple[str, ...]:
        return tuple(self.products)

    def product_times(
        self, sources: Sources, recipe: str, m: Array, n: Array, k: Array, /
    ) -> Times:
        return self.times(self.products[recipe](np.stack([m, n, k])))

    def times(self, total: Array) -> Times:
        ends = (None, None) if self.factor is None else (total / self.factor, total * self.factor)
        return Times(total=total, low=ends[0], high=ends[1], bound_by=["math"] * len(total))

    def predict(self, points: Sequence[PlanPoint], sources: Sources, /) -> list[Prediction]:
        answered = [point for point in points if point.provider in self.casts]
        self.timed_casts += [(p.recipe, p.shape["rows"], p.shape["cols"]) for p in answered]
        spread = self.factor
        return [
            Prediction(
                point_id=point.point_id,
                model=self.MODEL,
                math_s=None,
                dram_s=1.0,
                link_s=None,
                launch_s=None,
                total_s=1.0,
                low_s=None if spread is None else 1 / spread,
                high_s=None if spread is None else spread,
                bound_by="dram",
            )
            for point in answered
        ]


class TimesItsCasts(StandIn):
    """Answers casts by vectors: 1e-3 seconds per element, of fp8_rowwise_dim0 by torch_compile."""

    def cast_times(
        self, sources: Sources, provider: str, recipe: str, rows: Array, cols: Array, /
    ) -> Times:
        if (provider, recipe) != ("torch_compile", "fp8_rowwise_dim0"):
            raise KeyError(recipe)
        return self.times(1e-3 * rows * cols)


def sizes(*values: float) -> list[Array]:
    """One-element vectors."""
    return [np.array([value]) for value in values]
