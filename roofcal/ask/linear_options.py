"""How a linear may be run: recipes, whose products and whose casts; and the fastest way by M.

This is the one definition of the set that `advise` ranks, `breakeven` compares, and the break-even
map of a run is made of: every provider of products with every provider of casts that a model of
time knows, but for options too far outside of their probes (FARTHEST).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final

import numpy as np

from roofcal.ask.shape_limits import whole_providers
from roofcal.core.recipes import WEIGHT_ONLY_RECIPES
from roofcal.core.records import PlanPoint
from roofcal.core.times import Array, BeyondProbes, Times
from roofcal.models import calibrated
from roofcal.models.registry import predict_points
from roofcal.ops import BY_NAME
from roofcal.ops.constants import calibrated_providers
from roofcal.ops.gemm.model import LIBRARIES
from roofcal.ops.linear.model import (
    BF16_GRAD_WEIGHT,
    FASTEST,
    PRODUCTS,
    TENSORS,
    UNCAST,
    Linear,
    Passes,
    cast_providers,
    cast_recipes,
    has_casts,
    product_recipes,
    product_sides,
    share_beside_others,
    with_independent_ends,
)
from roofcal.ops.predictions import doublings_outside
from roofcal.ops.time_models import (
    Model,
    Sources,
    cast_times,
    product_times,
    scaled_times,
    sum_of_times,
)

FARTHEST: Final = 2.0  # doublings outside of the probes
BASELINE: Final = str(BY_NAME["gemm"].baseline_recipe)
NO_CASTS: Final = "only its products are known, not the casts that a linear needs beside them"


@dataclass(frozen=True, slots=True)
class Part:
    """A product or cast of a linear; `sides` are its sizes in terms of M, N and K of the linear.

    role  output, grad_input, grad_weight, or the tensor that is cast
    """

    op: str
    provider: str
    recipe: str
    role: str
    sides: str

    @property
    def name(self) -> str:
        """Which product, or which tensor is cast."""
        if self.op == "cast":
            return f"cast of {self.role}"
        return "product" if self.role == "output" else self.role

    @property
    def error_name(self) -> str:
        """Parts with equal constants err alike, whatever their shapes."""
        return f"{self.op}.{self.provider}.{self.recipe}"

    def shape(self, sizes: Mapping[str, Any]) -> dict[str, Any]:
        """The sizes of the part by its axes; sizes: of the linear by m, n and k, or vectors."""
        axes = BY_NAME[self.op].axes
        return {axis: sizes[side] for axis, side in zip(axes, self.sides, strict=True)}

    def in_linear(self, reason: str) -> str:
        """A reason about the axes of the part, with their names in the linear."""
        if self.role == "output":
            return reason
        axes = zip(BY_NAME[self.op].axes, self.sides, strict=True)
        return f"{self.role}: {reason} ({', '.join(f'{a} is {s} here' for a, s in axes)})"

    def providers(self, sources: Sources) -> list[str]:
        """Its provider, or all that may run it for a model that knows none."""
        if self.provider:
            return [self.provider]
        device = sources.spec.device if sources.spec else ""
        return whole_providers(BY_NAME[self.op], self.recipe, device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A recipe, whose products and whose casts. "any": the model knows no providers."""

    recipe: str
    products_by: str
    casts_by: str
    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        """The recipe and its providers in one line."""
        casts = "" if self.casts_by == "none" else f", casts by {self.casts_by}"
        return f"{self.recipe} by {self.products_by}{casts}"


class LinearTimes:
    """Times of linears by a model of time; what they share is computed once.

    The map of a run asks 9,000 times for the options of 40 linears.
    """

    def __init__(self, model: Model, sources: Sources) -> None:
        self.model, self.sources = model, sources
        self._of_parts: dict[tuple[Any, ...], Times] = {}
        self._outside: dict[tuple[Any, ...], Array] = {}
        self._options: dict[Linear, list[Option]] = {}

    def recipes(self, passes: Passes) -> list[str]:
        """Recipes of op gemm that the model knows, and BF16_GRAD_WEIGHT where it differs."""
        recipes = list(self.model.product_recipes(self.sources))
        if passes == "forward_backward" and {"fp8_axiswise", BASELINE} <= set(recipes):
            recipes.append(BF16_GRAD_WEIGHT)
        return recipes

    def options(self, linear: Linear) -> list[Option]:
        """Every way to run a linear of one recipe that can be timed; none without its casts.

        linear.casts: FASTEST is every provider of casts; another restricts them to it.
        """
        if linear not in self._options:
            self._options[linear] = list(self._options_of(linear))
        return self._options[linear]

    def _options_of(self, linear: Linear) -> Iterator[Option]:
        casters = [linear.casts]
        if linear.recipe in UNCAST:
            casters = ["none"]
        elif linear.casts != "none":
            known = has_casts(linear.recipe)
            providers = cast_providers(self.model, self.sources, linear) if known else []
            casters = [caster for caster in providers if linear.casts in (FASTEST, caster)]
        products = product_recipes(linear.recipe, linear.passes)
        by_recipe = {name: self._providers("gemm", name) for name in products.values()}
        for provider in by_recipe[products["output"]]:
            for caster in casters[: 1 if provider == "" else None]:
                parts = []
                for role, name in products.items():
                    others = by_recipe[name]  # the library, where the provider has none of them
                    library = next((one for one in LIBRARIES if one in others), others[0])
                    multiplier = provider if provider in others else library
                    parts.append(Part("gemm", multiplier, name, role, PRODUCTS[role]))
                parts += [
                    Part("cast", caster, name, tensor, TENSORS[tensor])
                    for tensor, name in cast_recipes(replace(linear, casts=caster))
                ]
                yield Option(
                    recipe=linear.recipe,
                    products_by=provider or "any",
                    casts_by=caster if provider or caster == "none" else "any",
                    parts=tuple(parts),
                )

    def all_options(self, linear: Linear) -> Iterator[Option]:
        """Every way to run a linear in any recipe, its own or another.

        One product of packed weights serves inference (forward, cached weights) alone.
        """
        for recipe in self.recipes(linear.passes):
            yield from self.options(replace(linear, recipe=recipe))
        is_inference = (linear.passes, linear.weights) == ("forward", "cached")
        for recipe in WEIGHT_ONLY_RECIPES if is_inference else ():
            for provider in self._providers("mixed_gemm", recipe):
                yield Option(
                    recipe=recipe,
                    products_by=provider or "any",
                    casts_by="none",
                    parts=(Part("mixed_gemm", provider, recipe, "output", "mnk"),),
                )

    def _providers(self, op: str, recipe: str) -> list[str]:
        """Those calibrated; [""] of a model that knows none and answers for the recipe."""
        calibration = self.sources.calibration
        if self.model.MODEL == calibrated.MODEL and calibration is not None:
            return calibrated_providers(calibration.constants, op, recipe)
        if op == "gemm":
            return [""] if recipe in self.model.product_recipes(self.sources) else []
        shape = dict.fromkeys("mnk", 128)
        point = PlanPoint(op=op, provider="", recipe=recipe, shape=shape, device="")
        return [""] if predict_points(self.model, [point], self.sources) else []

    def of_part(self, part: Part, sizes: Mapping[str, Array], passes: Passes) -> Times:
        """Times that a product or cast takes as a part of linears, between the other parts.

        sizes: of the linears, vectors of m, n and k. passes: forward and backward together make
        parts shorter than they are alone (roofcal.ops.linear.model.share_beside_others).
        Shapes that its provider refuses have one, too. Raises KeyError for what the model does not
        know.
        """
        if part.op == "cast":
            sides = list(part.shape(sizes).values())
        else:
            of_linear = (sizes["m"], sizes["n"], sizes["k"])
            sides = product_sides(part.role, part.recipe, of_linear)
        key = (part.op, part.provider, part.recipe, *(side.tobytes() for side in sides))
        if key not in self._of_parts:
            own = self.model, self.sources, part.provider, part.recipe
            self._of_parts[key] = (
                cast_times(*own, sides[0], sides[1])
                if part.op == "cast"
                else product_times(*own, sides, op=part.op)
            )
        return scaled_times(self._of_parts[key], share_beside_others(self.model, passes))

    def outside(self, part: Part, sizes: Mapping[str, Array]) -> Array:
        """Doublings from each shape to the probes of a part; infinite where it is refused."""
        key = (part, *(sizes[axis].tobytes() for axis in "mnk"))
        if key in self._outside:
            return self._outside[key]
        op, shape = BY_NAME[part.op], part.shape(sizes)
        outside = np.zeros_like(sizes["m"])
        if self.sources.calibration is not None:
            own = doublings_outside(self.sources.calibration, op, part.provider, part.recipe, shape)
            outside = outside if own is None else own
        providers = part.providers(self.sources)
        limits = [op.refused_axes(name, part.recipe, shape).values() for name in providers]
        is_refused = [reduce(np.logical_or, own, np.zeros_like(outside, bool)) for own in limits]
        self._outside[key] = np.where(np.logical_and.reduce(is_refused), np.inf, outside)
        return self._outside[key]

    def fastest(self, linear: Linear, sizes: Mapping[str, Array]) -> tuple[Times, list[Option]]:
        """Times of a linear by the option that is the fastest of its recipe, and which that is.

        sizes: vectors of m, n and k. A shape that every option of the recipe refuses has no time,
        NaN. Where the recipe lies too far outside of its probes to be ranked, the nearest option
        answers. Raises KeyError for a recipe without options.
        """
        options = self.options(linear)
        if not options:
            raise KeyError(linear.recipe)
        rivals = [*self.all_options(linear), *options]
        parts = {part for option in rivals for part in option.parts}
        of_part = {part: self.outside(part, sizes) for part in parts}
        outside, nearest = (
            np.stack([reduce(np.maximum, (of_part[part] for part in one.parts)) for one in some])
            for some in (options, rivals)
        )
        is_ranked = outside <= np.maximum(nearest.min(axis=0) + FARTHEST, outside.min(axis=0))
        times = []
        for one in options:
            own = [self.of_part(part, sizes, linear.passes) for part in one.parts]
            roles = (f"{i} {part.role}" for i, part in enumerate(one.parts))
            whole = sum_of_times(dict(zip(roles, own, strict=True)))
            times.append(with_independent_ends(self.model, linear.passes, whole, own))
        totals = np.stack([own.total for own in times])
        place = np.where(is_ranked & np.isfinite(outside), totals, np.inf).argmin(axis=0)
        chosen = (place, np.arange(totals.shape[1]))
        runs = np.isfinite(outside[chosen])

        def of_chosen(ends: Sequence[Array | None]) -> Array | None:
            stated = [end for end in ends if end is not None]
            if len(stated) < len(ends):
                return None
            return np.where(runs, np.stack(stated)[chosen], np.nan)

        beyond = [own.beyond for own in times if own.beyond is not None]
        fastest = Times(
            total=np.where(runs, totals[chosen], np.nan),
            low=of_chosen([own.low for own in times]),
            high=of_chosen([own.high for own in times]),
            bound_by=[times[one].bound_by[column] for column, one in enumerate(place)],
            beyond=BeyondProbes(
                doublings=np.stack([own.doublings for own in beyond])[chosen],
                is_unprobed=np.stack([own.is_unprobed for own in beyond])[chosen],
            )
            if len(beyond) == len(times)
            else None,
        )
        return fastest, [options[one] for one in place]
