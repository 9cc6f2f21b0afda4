"""Which recipe, and whose kernels, for a linear: all that a model of time knows, ranked.

An option is a recipe of the linear, the provider of its products and the provider of its casts
(ask.linear_options). Its time is the sum of its parts, as in ops.linear: products and casts, and
one product of packed weights for weights-only recipes. A part that was measured at this very shape
takes what was measured, with its interval; so does a linear that was measured as a whole, forward
and backward. Ends of intervals add up. Which option is the fastest is drawn with the errors of the
parts (ask.fastest), so that two options with the same predicted product share its error.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from roofcal.ask.beyond_probes import Beyond, beyond_parts
from roofcal.ask.fastest import log_error, probabilities
from roofcal.ask.linear_options import (
    BASELINE,
    FARTHEST,
    NO_CASTS,
    Option,
    Part,
    all_options,
    linear_recipes,
)
from roofcal.ask.measured import MeasuredPoint, PointKey, distance, nearest, point_key
from roofcal.ask.shape_limits import memory_refusal, too_small, why_all_refuse
from roofcal.core.records import PlanPoint, Prediction
from roofcal.models import calibrated
from roofcal.models.errors import PredictError, checked_sizes
from roofcal.models.registry import predict_points
from roofcal.ops import BY_NAME
from roofcal.ops.linear.model import FASTEST, Linear, Passes, Weights, product_recipes
from roofcal.ops.spec import Shape
from roofcal.ops.time_models import Model, Sources

# (products by, casts by) -> provider of op linear
_LINEARS: Final = {
    ("cublaslt", "triton"): "triton",
    ("triton", "triton"): "triton_products",
    ("cublaslt", "torch_compile"): "torchao",
    ("cublaslt", "none"): "bf16_compile",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearQuestion:
    """y[M,N] = x[M,K] @ w[N,K].T; weights: cast beforehand (cached) or in every pass."""

    m: int
    n: int
    k: int
    passes: Passes
    weights: Weights

    @property
    def shape(self) -> Shape:
        """M, N and K."""
        return {"m": self.m, "n": self.n, "k": self.k}

    @property
    def casts_weights(self) -> bool:
        """Whether it is a step of training, as linears are measured."""
        return (self.passes, self.weights) == ("forward_backward", "cast")


_NEAREST: Final = 2


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
        recipe_probability: that an option of its recipe is.
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
    probability: float | None
    recipe_probability: float | None = None
    speedup_over_bf16: float | None = None
    output_db: float | None = None
    extrapolated_doublings: float
    unprobed: tuple[str, ...]
    nearest_measured: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The ranked options, the fastest first; `refused`: name of another option -> the reason.

    Options that only take larger shapes are in neither, as in roofcal.ask.points.
    """

    question: LinearQuestion
    options: tuple[RecipeTime, ...]
    refused: Mapping[str, str]

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

    measured  the parts that it is the measured time of; none where it is predicted
    """

    error_name: str
    seconds: float
    low_s: float | None
    high_s: float | None
    beyond: Beyond = Beyond()
    measured: tuple[Part, ...] = ()


class Adviser:
    """Answers questions about linears on one device; what it reads, it reads once.

    Args:
        model: a model of time.
        sources: what it reads of the device.
        measured: what was measured on it, which counts at the very shape of a question.
    """

    def __init__(
        self,
        model: Model,
        sources: Sources,
        measured: Mapping[PointKey, MeasuredPoint] = MappingProxyType({}),
    ) -> None:
        self.model, self.sources, self._measured = model, sources, measured
        points = measured.values()
        self.linears = [one for one in points if one.op == "linear"]
        self._products = [one for one in points if BY_NAME[one.op].computes == "product"]
        self._options: dict[tuple[Passes, Weights], list[Option]] = {}

    def options(self, passes: Passes, weights: Weights) -> list[Option]:
        """What the model can time; raises PredictError where that is nothing."""
        key = passes, weights
        if key not in self._options:
            baseline = Linear(recipe=BASELINE, passes=passes, casts=FASTEST, weights=weights)
            self._options[key] = list(all_options(self.model, self.sources, baseline))
        if not self._options[key]:
            raise PredictError(f"model '{self.model.MODEL}' knows no products of linears here")
        return self._options[key]

    def advise(self, questions: Sequence[LinearQuestion]) -> list[Advice]:
        """The advice on every question, in their order.

        Raises PredictError for sizes beyond any matrix, and where every option refuses the shape.
        """
        for question in questions:
            checked_sizes(m=question.m, n=question.n, k=question.k)
        points: dict[PointKey, PlanPoint] = {}
        parts_of_questions = dict.fromkeys(
            (part, question)
            for question in questions
            for option in self.options(question.passes, question.weights)
            for part in option.parts
        )
        for part, question in parts_of_questions:
            if self._refusal(part, question) is None:
                points[_key(part, question)] = _point(part, question)
        predictions = predict_points(self.model, list(points.values()), self.sources)
        by_id = {prediction.point_id: prediction for prediction in predictions}
        answers = ((key, by_id.get(point.point_id)) for key, point in points.items())
        predicted = {key: answer for key, answer in answers if answer is not None}
        beyond = dict.fromkeys(predicted, Beyond())
        calibration = self.sources.calibration
        if calibration is not None and self.model.MODEL == calibrated.MODEL:
            for key in predicted:
                one = points[key]
                part_of_probe = one.op, one.provider, one.recipe, one.shape
                beyond[key] = beyond_parts(calibration, [part_of_probe])
        return [self._ranked(question, predicted, beyond) for question in questions]

    def with_evidence(self, option: RecipeTime, question: LinearQuestion) -> RecipeTime:
        """An option with what was measured nearby.

        Of the linear forward and backward, which casts its weights, where such a one was measured
        and is asked about, else of the product y. Accuracy is that by any provider at the nearest
        point where it was measured: of the worst output of a linear forward and backward, else of
        the product y.
        """
        shape, recipe, near = question.shape, option.recipe, list[MeasuredPoint]()
        if question.casts_weights:
            layer = linear_provider(option)
            near = nearest(self.linears, layer, recipe, shape, _NEAREST)
        if not near:  # a model that knows no providers was not measured
            product = product_recipes(recipe, "forward")["output"]
            near = nearest(self._products, option.products_by, product, shape, _NEAREST)
        backward = question.passes == "forward_backward"
        judged = (self.linears, self._products) if backward else (self._products,)
        same_recipe = (
            [p for p in points if p.recipe == recipe and p.error is not None] for points in judged
        )
        closest = min(
            next(filter(None, same_recipe), []),
            key=lambda p: distance(p.shape, shape),
            default=None,
        )
        error = closest.error if closest else None
        measured = [
            {
                **point.shape,
                "op": point.op,
                "distance_doublings": distance(point.shape, shape),
                "measured_s": point.median_s,
                "predicted_s": point.predicted_s,
            }
            for point in near
        ]
        return replace(
            option,
            output_db=float(-20 * np.log10(error)) if error else None,
            nearest_measured=tuple(measured),
        )

    def fastest_by_m(self, question: LinearQuestion) -> list[dict[str, Any]]:
        """Which recipe is predicted to be the fastest for other M of the same weights.

        In stretches of M, first_m to last_m. equals: recipes that take the same time at every M of
        the stretch; least_probability: that it is the fastest, at the M where that is least sure.
        Measurements are of single M, and would split the stretches. M runs over 1, 2, 4, 8 and two
        steps per doubling from 16 to 131072, and the M of the question.
        """
        grid = {1, 2, 4, 8, question.m, *(16 * round(2 ** (step / 2)) for step in range(27))}
        stretches: list[dict[str, Any]] = []
        predicting = Adviser(self.model, self.sources)
        for answer in predicting.advise([replace(question, m=m) for m in sorted(grid)]):
            first = answer.options[0]
            fastest = next((group for group in answer.equals if first.recipe in group), [])
            fastest = fastest or [first.recipe]
            last = stretches[-1] if stretches else None
            both = last and [one for one in (last["recipe"], *last["equals"]) if one in fastest]
            recipe, *equals = both or fastest
            chance = answer.best_by_recipe[recipe].recipe_probability
            stretch = {"recipe": recipe, "equals": equals, "first_m": answer.question.m}
            if last and both:
                stretch["first_m"] = stretches.pop()["first_m"]
                least = last["least_probability"]
                chance = None if chance is None or least is None else min(chance, least)
            stretches.append(stretch | {"last_m": answer.question.m, "least_probability": chance})
        return stretches

    def _refusal(self, part: Part, question: LinearQuestion) -> str | None:
        """Why a part cannot run: its provider refuses the shape, or the memory is too small."""
        point, providers = _point(part, question), part.providers(self.sources)
        refused = why_all_refuse(BY_NAME[part.op], providers, part.recipe, point.shape)
        return refused or memory_refusal(point, self.sources.spec)

    def _ranked(
        self,
        question: LinearQuestion,
        predicted: Mapping[PointKey, Prediction],
        beyond: Mapping[PointKey, Beyond],
    ) -> Advice:
        options = self.options(question.passes, question.weights)
        recipes = linear_recipes(self.model, self.sources, question.passes)
        with_options = {option.recipe for option in options}
        refused = {name: NO_CASTS for name in recipes if name not in with_options}
        addends: dict[Option, list[_Addend]] = {}
        outside: dict[Option, float] = {}
        for_larger: set[str] = set()
        for option in options:
            keys = {part: _key(part, question) for part in option.parts}
            part = next((part for part, key in keys.items() if key not in predicted), None)
            if part is None:
                addends[option] = self._addends(option, question, predicted, beyond)
                outside[option] = max(beyond[key].doublings or 0.0 for key in keys.values())
                continue
            why = self._refusal(part, question) or "the model has no answer"
            refused[option.name] = part.in_linear(why)
            shape = part.shape(question.shape)
            if too_small(BY_NAME[part.op], part.provider, part.recipe, shape) is not None:
                for_larger.add(option.name)
        if not addends:
            raise PredictError("no answer: " + "; ".join(dict.fromkeys(refused.values())))
        refused = {name: why for name, why in refused.items() if name not in for_larger}
        farthest = min(outside.values()) + FARTHEST
        for option, doublings in outside.items():
            if doublings > farthest and not all(one.measured for one in addends[option]):
                refused[option.name] = f"lies {doublings:.1f} doublings outside the probed range"
                del addends[option]
        chances = _chances(list(addends.values()))
        ranked = [
            _option_time(
                option, own, [predicted[_key(part, question)] for part in option.parts], chance
            )
            for (option, own), chance in zip(addends.items(), chances, strict=True)
        ]
        ranked.sort(key=lambda answer: answer.seconds)
        baseline = next((one.seconds for one in ranked if one.recipe == BASELINE), None)
        by_recipe: dict[str, float] = {}
        for one in ranked:
            if one.probability is not None:
                by_recipe[one.recipe] = by_recipe.get(one.recipe, 0) + one.probability
        options_with_ranks = tuple(
            replace(
                one,
                recipe_probability=by_recipe.get(one.recipe),
                speedup_over_bf16=None if baseline is None else baseline / one.seconds,
            )
            for one in ranked
        )
        return Advice(question=question, options=options_with_ranks, refused=refused)

    def _addends(
        self,
        option: Option,
        question: LinearQuestion,
        predicted: Mapping[PointKey, Prediction],
        beyond: Mapping[PointKey, Beyond],
    ) -> list[_Addend]:
        """What the time of an option is the sum of, measured where it was measured."""
        if question.casts_weights and (layer := linear_provider(option)):
            whole = self._measured.get(point_key("linear", layer, option.recipe, question.shape))
            if whole:
                return [_measured_addend(option.parts, whole)]
        addends = []
        for part in option.parts:
            shape = part.shape(question.shape)
            point = self._measured.get(point_key(part.op, part.provider, part.recipe, shape))
            if point:
                addends.append(_measured_addend((part,), point))
            else:
                key = _key(part, question)
                one = predicted[key]
                addends.append(
                    _Addend(part.error_name, one.total_s, one.low_s, one.high_s, beyond[key])
                )
        return addends


def linear_provider(option: Option | RecipeTime) -> str:
    """The provider of op linear that runs an option, forward and backward; "" for none."""
    return _LINEARS.get((option.products_by, option.casts_by), "")


def _key(part: Part, question: LinearQuestion) -> PointKey:
    return (part.op, part.provider, part.recipe, *part.shape(question.shape).values())


def _point(part: Part, question: LinearQuestion) -> PlanPoint:
    shape = part.shape(question.shape)
    return PlanPoint(op=part.op, provider=part.provider, recipe=part.recipe, shape=shape, device="")


def _measured_addend(parts: tuple[Part, ...], point: MeasuredPoint) -> _Addend:
    sizes = "x".join(str(size) for size in point.shape.values())
    name = f"measured {point.op}.{point.provider}.{point.recipe}.{sizes}"
    return _Addend(name, point.median_s, point.low_s, point.high_s, measured=parts)


def _chances(options: Sequence[Sequence[_Addend]]) -> list[float | None]:
    candidates = []
    for addends in options:
        errors: dict[str, tuple[float, float]] = {}
        for addend in addends:
            if addend.high_s is None:
                return [None] * len(options)
            second, error = errors.get(addend.error_name, (0.0, 0.0))
            total = second + addend.seconds
            own = addend.seconds * log_error(addend.seconds, addend.high_s)
            errors[addend.error_name] = total, (second * error + own) / total
        candidates.append(errors)
    return [float(chance) for chance in probabilities(candidates)]


def _option_time(
    option: Option,
    addends: Sequence[_Addend],
    predictions: Sequence[Prediction],
    probability: float | None,
) -> RecipeTime:
    seconds_of: dict[str, float] = {}
    for part, prediction in zip(option.parts, predictions, strict=True):
        name = "casts" if part.op == "cast" else part.role
        seconds_of[name] = seconds_of.get(name, 0.0) + prediction.total_s
    names = [part.name for one in addends for part in one.measured]
    source = f"{', '.join(names)} measured"
    if len(names) in (0, len(option.parts)):
        source = "measured" if names else "predicted"
    beyond = reduce(Beyond.farther, (one.beyond for one in addends))
    seconds, low_s, high_s = _sum([one[1:4] for one in addends])
    predicted = _sum([(one.total_s, one.low_s, one.high_s) for one in predictions])
    return RecipeTime(
        recipe=option.recipe,
        products_by=option.products_by,
        casts_by=option.casts_by,
        seconds=seconds,
        low_s=low_s,
        high_s=high_s,
        source=source,
        measured=tuple(names),
        predicted_s=predicted[0],
        predicted_low_s=predicted[1],
        predicted_high_s=predicted[2],
        bound_by=max(seconds_of, key=lambda name: seconds_of[name]),
        probability=probability,
        extrapolated_doublings=beyond.doublings or 0.0,
        unprobed=beyond.unprobed,
    )


def _sum(
    times: Sequence[tuple[float, float | None, float | None]],
) -> tuple[float, float | None, float | None]:
    """Seconds, low and high end of a sum; its ends are None where a part has none."""
    total, *ends = zip(*times, strict=True)
    low, high = (None if None in end else sum(end) for end in ends)
    return sum(total), low, high
