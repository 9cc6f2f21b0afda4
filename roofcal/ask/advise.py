"""Which recipe, and whose kernels, for a linear: all that a model of time knows, ranked.

The time of an option (ask.linear_options) is the sum of its parts, as in ops.linear. A part that
was measured at this very shape takes what was measured, with its interval; so does a linear that
was measured as a whole. Which is the fastest is drawn with the errors of the parts (ask.measured).
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from roofcal.ask.linear_options import BASELINE, FARTHEST, NO_CASTS, LinearTimes, Option, Part
from roofcal.ask.measured import (
    ChoiceRecord,
    MeasuredPoint,
    PointKey,
    choice_record,
    distance,
    fastest_probabilities,
    nearest,
    point_key,
)
from roofcal.ask.points import recipe_named
from roofcal.ask.shape_limits import memory_refusal, too_small, unprobed_kind, why_all_refuse
from roofcal.core.names import did_you_mean_or_all, names_with_part
from roofcal.core.recipes import RECIPES, WEIGHT_ONLY_RECIPES
from roofcal.core.records import PlanPoint
from roofcal.core.times import Times
from roofcal.models import calibrated
from roofcal.models.errors import PredictError
from roofcal.ops import BY_NAME
from roofcal.ops.linear.model import (
    FASTEST,
    Linear,
    Passes,
    Weights,
    product_recipes,
    share_beside_others,
    with_independent_ends,
)
from roofcal.ops.spec import Shape
from roofcal.ops.time_models import Model, Sources, sum_of_times

_NOT_ASKED: Final = "not asked for"
_FAR_OUT: Final = " doublings outside the probed range"
_TOO_FAR: Final = (
    f"over {FARTHEST:g} doublings farther outside the probes than another (doublings in brackets)"
)
# (products by, casts by) -> provider of op linear
_LINEARS: Final = {
    ("cublaslt", "triton"): "triton",
    ("triton", "triton"): "triton_products",
    ("cublaslt", "torch_compile"): "torchao",
    ("cublaslt", "none"): "bf16_compile",
}


@dataclass(frozen=True, kw_only=True)
class RecipeTime:
    """A linear in one recipe by one pair of providers; times in seconds, as in PredictedTime.

    Attributes:
        seconds, low_s, high_s: the time: measured where this very shape was measured, else
            predicted.
        source: measured, predicted, or which parts of the sum are measured.
        predicted_s, predicted_low_s, predicted_high_s: by the model of time.
        measured: the parts whose time is measured.
        probability: that it is the fastest of all options; None for a model without intervals.
        recipe_probability: that an option of its recipe is; of the fastest recipe, lower where the
            choices of a recipe were mostly wrong (ChoiceRecord.chance).
        nearest_measured: the nearest points that were measured of the same recipe and providers.
        output_db: signal to noise measured at the nearest point; None where nobody measured it.
    """

    recipe: str
    products_by: str
    casts_by: str
    seconds: float
    low_s: float | None
    high_s: float | None
    source: str
    measured: tuple[str, ...]
    predicted_s: float
    predicted_low_s: float | None
    predicted_high_s: float | None
    bound_by: str
    probability: float | None = None
    recipe_probability: float | None = None
    speedup_over_bf16: float | None = None
    output_db: float | None = None
    extrapolated_doublings: float
    unprobed: tuple[str, ...]
    nearest_measured: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The ranked options, the fastest first, and why others are not ranked.

    Attributes:
        options: the ranked options.
        refused: name of another option -> the reason; options that only take larger shapes are in
            neither, as in roofcal.ask.points.
        unranked: recipe without a ranked option -> the reason, of every recipe but those left out.
        left_out: recipe that is less accurate than asked for -> its signal to noise in dB, None
            where it is unknown.
    """

    options: tuple[RecipeTime, ...]
    refused: Mapping[str, str]
    unranked: Mapping[str, str]
    left_out: Mapping[str, float | None]

    @property
    def best(self) -> RecipeTime:
        """The fastest option."""
        return self.options[0]

    @property
    def best_by_recipe(self) -> dict[str, RecipeTime]:
        """Recipe -> its fastest option, the fastest recipe first."""
        best: dict[str, RecipeTime] = {}
        for option in self.options:
            best.setdefault(option.recipe, option)
        return best

    @property
    def equals(self) -> list[list[str]]:
        """Groups of two or more recipes of equal time, the fastest group first."""
        groups: list[list[RecipeTime]] = []
        for option in self.best_by_recipe.values():
            if groups and math.isclose(groups[-1][0].seconds, option.seconds):
                groups[-1].append(option)
            else:
                groups.append([option])
        return [[one.recipe for one in group] for group in groups if len(group) > 1]


class _Addend(NamedTuple):
    """One term of the sum that is an option's time; terms of one error_name share their error.

    unprobed  the kind of work, where no probe is of it
    measured  the parts that it is the measured time of; none where it is predicted
    """

    error_name: str
    seconds: float
    low_s: float | None
    high_s: float | None
    doublings: float = 0.0
    unprobed: str = ""
    measured: tuple[Part, ...] = ()


@dataclass(eq=False)
class Adviser:
    """Ranks the options of linears y[M,N] = x[M,K] @ w[N,K].T; what it reads, it reads once.

    Args:
        model, sources: a model of time, and what it reads of the device.
        passes, weights: what is run, and whether the weights are cast beforehand (cached).
        measured: what was measured on it, which counts at the very shape of a question.
        names: of the recipes that are ranked, or parts of names as fp8; none: all.
        min_db: recipes whose accuracy is lower or unknown are left out.
    """

    model: Model
    sources: Sources
    passes: Passes
    weights: Weights
    measured: Mapping[PointKey, MeasuredPoint] = field(default_factory=dict)
    names: Collection[str] = ()
    min_db: float | None = None

    def __post_init__(self) -> None:
        points = self.measured.values()
        self.linears = [one for one in points if one.op == "linear"]
        self.products = [one for one in points if BY_NAME[one.op].computes == "product"]
        self._times = LinearTimes(self.model, self.sources)

    @cached_property
    def choices(self) -> ChoiceRecord | None:
        """How good the choice of a recipe was where it was measured: linears have both passes."""
        measured = self.products if self.passes == "forward" else self.linears
        return choice_record(measured, among="recipes")

    @cached_property
    def options(self) -> list[Option]:
        """What the model can time; raises PredictError where that is nothing."""
        any_recipe = Linear(
            recipe=BASELINE, passes=self.passes, casts=FASTEST, weights=self.weights
        )
        options = list(self._times.all_options(any_recipe))
        if not options:
            raise PredictError(f"model '{self.model.MODEL}' knows no products of linears here")
        return options

    @cached_property
    def every_recipe(self) -> list[str]:
        """The recipes of linears, those first that the model knows."""
        of_options = (option.recipe for option in self.options)
        of_model = self._times.recipes(self.passes)
        return list(dict.fromkeys((*of_model, *of_options, *RECIPES)))

    @cached_property
    def recipes(self) -> list[str]:
        """The recipes that are asked about; raises PredictError for a name that none has."""
        chosen_recipes = dict[str, None]()
        for text in self.names:
            name = recipe_named(text, self.every_recipe)
            is_name = name in self.every_recipe
            names = [name] if is_name else names_with_part(text, self.every_recipe)
            if not names:
                timed = dict.fromkeys(option.recipe for option in self.options)
                hint = did_you_mean_or_all(text, timed)
                raise PredictError(f"unknown recipe '{text}'{hint}")
            chosen_recipes |= dict.fromkeys(names)
        return list(chosen_recipes) or self.every_recipe

    def advise(self, shapes: Sequence[Shape]) -> list[Advice]:
        """The advice on linears by their m, n and k, in the order of the shapes.

        Raises PredictError where no option is left to rank for a shape.
        """
        advices = []
        for advice in self.advices(shapes):
            if isinstance(advice, PredictError):
                raise advice
            advices.append(advice)
        return advices

    def advices(self, shapes: Sequence[Shape]) -> Iterator[Advice | PredictError]:
        """The advice on each shape, or why no option is left to rank for it."""
        parts = dict.fromkeys(part for option in self.options for part in option.parts)
        terms = {part: self._terms(part, shapes) for part in parts}
        for place, shape in enumerate(shapes):
            try:
                yield self._ranked(shape, {part: own[place] for part, own in terms.items()})
            except PredictError as error:
                yield error

    def with_evidence(self, option: RecipeTime, shape: Shape) -> RecipeTime:
        """An option with what was measured nearby.

        Of the linear forward and backward, which casts its weights, where such a one was measured
        and is asked about, else of the product y.
        """
        recipe, near = option.recipe, list[MeasuredPoint]()
        if self._casts_weights:
            near = nearest(self.linears, linear_provider(option), recipe, shape)
        if not near:  # a model that knows no providers was not measured
            product = product_recipes(recipe, "forward")["output"]
            near = nearest(self.products, option.products_by, product, shape)
        measured = [
            {
                **point.shape,
                "op": point.op,
                "recipe": point.recipe,
                "repeat": point.repeat,
                "distance_doublings": distance(point.shape, shape),
                "measured_s": point.median_s,
                "predicted_s": point.predicted_s,
            }
            for point in near
        ]
        return replace(
            option, output_db=self.output_db(recipe, shape), nearest_measured=tuple(measured)
        )

    def output_db(self, recipe: str, shape: Shape) -> float | None:
        """The accuracy of a recipe by any provider, at the nearest point where it was measured.

        Of the worst output of a linear forward and backward, else of the product y.
        """
        backward = self.passes == "forward_backward"
        judged = (self.linears, self.products) if backward else (self.products,)
        same_recipe = (
            [p for p in points if p.recipe == recipe and p.error is not None] for points in judged
        )
        closest = min(
            next(filter(None, same_recipe), []),
            key=lambda p: distance(p.shape, shape),
            default=None,
        )
        return float(-20 * np.log10(closest.error)) if closest and closest.error else None

    def _left_out(self, shape: Shape) -> dict[str, float | None]:
        """The recipes that are not accurate enough, see Advice."""
        if self.min_db is None:
            return {}
        timed = {option.recipe for option in self.options}
        accuracies = {name: self.output_db(name, shape) for name in self.recipes if name in timed}
        return {recipe: db for recipe, db in accuracies.items() if db is None or db < self.min_db}

    def fastest_by_m(self, shape: Shape) -> list[dict[str, Any]]:
        """Which recipe is predicted to be the fastest for other M of the same weights.

        In stretches of M, first_m to last_m. equals: recipes that take the same time at every M of
        the stretch; least_probability: that it is the fastest, at the M where that is least sure.
        Measurements are of single M, and would split the stretches. M runs over 1, 2, 4, 8 and two
        steps per doubling from 16 to 131072, and the M of the shape. An M at which nothing can be
        ranked, as int4 alone far outside of its probes, is in no stretch.
        """
        half_doublings = (16 * round(2 ** (step / 2)) for step in range(27))
        grid = sorted({1, 2, 4, 8, shape["m"], *half_doublings})
        recipes = [name for name in self.recipes if name not in self._left_out(shape)]
        predicting = Adviser(self.model, self.sources, self.passes, self.weights, names=recipes)
        predicting.choices = self.choices
        answers = predicting.advices([{**shape, "m": m} for m in grid])
        stretches: list[dict[str, Any]] = []
        is_gap = True
        for m, answer in zip(grid, answers, strict=True):
            last = None if is_gap else stretches[-1]
            if is_gap := isinstance(answer, PredictError):
                continue
            first = answer.best.recipe
            fastest = next((group for group in answer.equals if first in group), [first])
            both = last and [one for one in (last["recipe"], *last["equals"]) if one in fastest]
            recipe, *equals = both or fastest
            chance = answer.best_by_recipe[recipe].recipe_probability
            stretch = {"recipe": recipe, "equals": equals, "first_m": m}
            if last and both:
                stretch["first_m"] = stretches.pop()["first_m"]
                least = last["least_probability"]
                chance = None if chance is None or least is None else min(chance, least)
            stretches.append(stretch | {"last_m": m, "least_probability": chance})
        return stretches

    @property
    def _casts_weights(self) -> bool:
        """Whether it is a step of training, as linears are measured."""
        return (self.passes, self.weights) == ("forward_backward", "cast")

    def _terms(self, part: Part, shapes: Sequence[Shape]) -> list[_Addend | str]:
        """The predicted time of a part in a linear of each shape, or why it has none."""
        op, providers = BY_NAME[part.op], part.providers(self.sources)
        calibration = self.sources.calibration
        sizes = {axis: np.array([float(shape[axis]) for shape in shapes]) for axis in "mnk"}
        try:
            times = self._times.of_part(part, sizes, self.passes)
        except KeyError:
            times = None
        terms: list[_Addend | str] = []
        for place, shape in enumerate(map(part.shape, shapes)):
            point = PlanPoint(
                op=op.name, provider=part.provider, recipe=part.recipe, shape=shape, device=""
            )
            refused = why_all_refuse(op, providers, part.recipe, shape)
            refused = refused or memory_refusal(point, self.sources.spec)
            if refused or times is None:
                terms.append(refused or "the model has no answer")
                continue
            low, high = (
                None if end is None else float(end[place]) for end in (times.low, times.high)
            )
            seconds, beyond, unprobed = float(times.total[place]), times.beyond, ""
            doublings = 0.0 if beyond is None else float(beyond.doublings[place])
            if calibration is not None and beyond is not None and beyond.is_unprobed[place]:
                unprobed = unprobed_kind(calibration, op.name, part.provider, part.recipe, shape)
            terms.append(_Addend(part.error_name, seconds, low, high, doublings, unprobed))
        return terms

    def _ranked(self, shape: Shape, terms: Mapping[Part, _Addend | str]) -> Advice:
        left_out = self._left_out(shape)
        allowed = {name for name in self.recipes if name not in left_out}
        refused: dict[str, str] = {}
        limits: dict[Option, str] = {}
        predicted: dict[Option, list[_Addend]] = {}
        for_larger: set[str] = set()
        for option in self.options:
            if option.recipe not in (*allowed, BASELINE):
                continue
            own = [terms[part] for part in option.parts]
            known = [term for term in own if not isinstance(term, str)]
            if len(known) == len(own):
                predicted[option] = known
                continue
            part, why = next(
                (p, w) for p, w in zip(option.parts, own, strict=True) if isinstance(w, str)
            )
            refused[option.name] = part.in_linear(why)
            limits[option] = part.in_linear(why.replace(f" takes {part.recipe} with ", " needs "))
            if too_small(BY_NAME[part.op], part.provider, part.recipe, part.shape(shape)):
                for_larger.add(option.name)
        outside = {one: max(term.doublings for term in predicted[one]) for one in predicted}
        farthest = min(outside.values(), default=0.0) + FARTHEST
        counted: dict[Option, list[_Addend]] = {}  # measured where it was measured
        for option, parts in predicted.items():
            addends = self._addends(option, shape, parts)
            if outside[option] <= farthest or all(one.measured for one in addends):
                counted[option] = addends
            else:
                refused[option.name] = f"lies {outside[option]:.1f}{_FAR_OUT}"
        sums = {option: self._sum(addends) for option, addends in counted.items()}
        ranked = sorted(counted, key=lambda option: sums[option][0])
        baseline = next((sums[one][0] for one in ranked if one.recipe == BASELINE), None)
        ranked = [option for option in ranked if option.recipe in allowed]
        counted = {option: own for option, own in counted.items() if option.recipe in allowed}
        if BASELINE not in allowed:  # it was timed for the speed-ups
            own_name = f"{BASELINE} by "
            refused = {name: why for name, why in refused.items() if not name.startswith(own_name)}
        ranked_recipes = {option.recipe for option in ranked}
        unranked = self._unranked(outside, limits, {*left_out, *ranked_recipes})
        if not ranked:
            asked_for = {name: why for name, why in unranked.items() if why != _NOT_ASKED}
            reasons = unranked_words(asked_for)
            if left_out and self.min_db is not None:
                reasons.insert(0, left_out_words(self.min_db, left_out))
            sizes = "x".join(str(shape[axis]) for axis in "mnk")
            raise PredictError(f"nothing could be ranked for {sizes}: {'; '.join(reasons)}")
        refused = {name: why for name, why in refused.items() if name not in for_larger}
        of_options = fastest_probabilities(
            [[(one.error_name, one.seconds, one.high_s) for one in own] for own in counted.values()]
        )
        chances = dict(zip(counted, of_options, strict=True))
        of_recipe = self._recipe_chances(ranked, chances)
        options = [
            RecipeTime(
                seconds=sums[option][0],
                low_s=sums[option][1],
                high_s=sums[option][2],
                **self._parts_of_time(option, counted[option], predicted[option]),
                # at most that of its recipe, which a poor record lowers
                probability=None
                if (chance := chances[option]) is None
                else min(chance, of_recipe[option.recipe]),
                recipe_probability=of_recipe.get(option.recipe),
                speedup_over_bf16=None if baseline is None else baseline / sums[option][0],
            )
            for option in ranked
        ]
        return Advice(options=tuple(options), refused=refused, unranked=unranked, left_out=left_out)

    def _recipe_chances(
        self, ranked: Sequence[Option], chances: Mapping[Option, float | None]
    ) -> dict[str, float]:
        """Recipe -> the probability that an option of it is the fastest, see RecipeTime.

        ranked: the fastest first. What the first loses by a poor record is given to no other.
        """
        of_recipe: dict[str, float] = {}
        for option in ranked:
            if (chance := chances[option]) is not None:
                of_recipe[option.recipe] = of_recipe.get(option.recipe, 0) + chance
        if of_recipe and self.choices:
            first = ranked[0].recipe
            of_recipe[first] = self.choices.chance(of_recipe[first])
        return of_recipe

    def _unranked(
        self, outside: Mapping[Option, float], limits: Mapping[Option, str], others: set[str]
    ) -> dict[str, str]:
        """Recipe but `others` -> why it is not ranked: of several options, why the nearest is not.

        outside: doublings outside of the probes, of the options that run the shape. limits: why
        another option does not.
        """
        reasons, is_inference = {}, (self.passes, self.weights) == ("forward", "cached")
        for recipe in (name for name in self.every_recipe if name not in others):
            doublings = [far for option, far in outside.items() if option.recipe == recipe]
            refusals = [why for option, why in limits.items() if option.recipe == recipe]
            if recipe not in self.recipes:
                why = _NOT_ASKED
            elif doublings:
                why = f"{min(doublings):.1f}{_FAR_OUT}"
            elif refusals:
                why = min(refusals, key=len)  # of the provider that asks for least
            elif recipe in WEIGHT_ONLY_RECIPES and not is_inference:
                why = "packed weights serve inference alone, with weights cast beforehand"
            elif recipe in self._times.recipes(self.passes):
                why = NO_CASTS
            elif self.sources.calibration is not None and self.model.MODEL == calibrated.MODEL:
                why = f"no product was calibrated on {self.sources.device}"
            else:
                why = f"model {self.model.MODEL} knows no such product on {self.sources.device}"
            reasons[recipe] = why
        return reasons

    def _addends(self, option: Option, shape: Shape, predicted: Sequence[_Addend]) -> list[_Addend]:
        """What the time of an option is the sum of, measured where it was measured."""

        def measured(
            parts: tuple[Part, ...], op: str, provider: str, recipe: str, sides: Shape
        ) -> _Addend | None:
            point = self.measured.get(point_key(op, provider, recipe, sides))
            if point is None:
                return None
            sizes = "x".join(str(size) for size in point.shape.values())
            name = f"measured {point.op}.{point.provider}.{point.recipe}.{sizes}"
            share = 1.0 if op == "linear" else share_beside_others(self.model, self.passes)
            seconds, low_s, high_s = (
                share * alone for alone in (point.median_s, point.low_s, point.high_s)
            )
            return _Addend(name, seconds, low_s, high_s, measured=parts)

        layer = linear_provider(option) if self._casts_weights else ""
        if layer and (whole := measured(option.parts, "linear", layer, option.recipe, shape)):
            return [whole]
        return [
            measured((part,), part.op, part.provider, part.recipe, part.shape(shape)) or own
            for part, own in zip(option.parts, predicted, strict=True)
        ]

    def _parts_of_time(
        self, option: Option, addends: Sequence[_Addend], predicted: Sequence[_Addend]
    ) -> dict[str, Any]:
        """Fields of a RecipeTime. addends: what counts; predicted: the term of each part."""
        seconds_of: dict[str, float] = {}
        for part, term in zip(option.parts, predicted, strict=True):
            name = "casts" if part.op == "cast" else part.role
            seconds_of[name] = seconds_of.get(name, 0.0) + term.seconds
        names = [part.name for one in addends for part in one.measured]
        source = f"{', '.join(names)} measured"
        if len(names) in (0, len(option.parts)):
            source = "measured" if names else "predicted"
        stated = ("predicted_s", "predicted_low_s", "predicted_high_s")
        return {
            "recipe": option.recipe,
            "products_by": option.products_by,
            "casts_by": option.casts_by,
            "source": source,
            "measured": tuple(names),
            **dict(zip(stated, self._sum(predicted), strict=True)),
            "bound_by": max(seconds_of, key=lambda name: seconds_of[name]),
            "extrapolated_doublings": max(one.doublings for one in addends),
            "unprobed": tuple(dict.fromkeys(one.unprobed for one in addends if one.unprobed)),
        }

    def _sum(self, addends: Sequence[_Addend]) -> tuple[float, float | None, float | None]:
        """Seconds, low and high end of a sum; its ends are None where a part has none."""
        parts = [
            Times(
                total=np.array([one.seconds]),
                low=None if one.low_s is None else np.array([one.low_s]),
                high=None if one.high_s is None else np.array([one.high_s]),
                bound_by=[""],
            )
            for one in addends
        ]
        whole = sum_of_times({f"{place}": part for place, part in enumerate(parts)})
        whole = with_independent_ends(self.model, self.passes, whole, parts)
        low, high = (None if end is None else float(end[0]) for end in (whole.low, whole.high))
        return float(whole.total[0]), low, high


def left_out_words(min_db: float, left_out: Mapping[str, float | None]) -> str:
    """Which recipes are not accurate enough, or not known to be."""
    accuracies = (
        f"{recipe} ({'unknown' if db is None else f'{db:.1f} dB'})"
        for recipe, db in left_out.items()
    )
    return f"left out, accuracy below {min_db:g} dB or unknown: {', '.join(accuracies)}"


def unranked_words(unranked: Mapping[str, str]) -> list[str]:
    """The reasons of `Advice.unranked`, once each, behind the recipes that they are of."""
    names: dict[str, list[str]] = {}
    for recipe, why in unranked.items():
        doublings, is_far, _ = why.partition(_FAR_OUT)
        reason = _TOO_FAR if is_far else why
        names.setdefault(reason, []).append(f"{recipe} ({doublings})" if is_far else recipe)
    return [f"{', '.join(recipes)}: {why}" for why, recipes in names.items()]


def linear_provider(option: Option | RecipeTime) -> str:
    """The provider of op linear that runs an option, forward and backward; "" for none."""
    return _LINEARS.get((option.products_by, option.casts_by), "")
