"""Which recipe, and whose kernels, for a linear: all that a model of time knows, ranked.

An option is a recipe of the linear, the provider of its products and the provider of its casts
(ask.linear_options). Its time is the sum of its parts, as in ops.linear: products and casts, and
one product of packed weights for weights-only recipes. A part that was measured at this very shape
takes what was measured, with its interval; so does a linear that was measured as a whole, forward
and backward. Ends of intervals add up. Which option is the fastest is drawn with the errors of the
parts (ask.fastest), so that two options with the same predicted product do not err apart in it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from types import MappingProxyType
from typing import Final

import numpy as np

from roofcal.ask.beyond_probes import Beyond, beyond_parts
from roofcal.ask.fastest import log_error, probabilities
from roofcal.ask.linear_options import (
    BASELINE,
    FARTHEST,
    NO_CASTS,
    Option,
    Part,
    linear_options,
    linear_recipes,
    packed_options,
)
from roofcal.ask.measured import MeasuredPoint, PointKey, point_key
from roofcal.ask.shape_limits import memory_refusal, too_small, why_all_refuse
from roofcal.core.records import PlanPoint, Prediction
from roofcal.models import calibrated
from roofcal.models.errors import PredictError, checked_sizes
from roofcal.models.registry import predict_points
from roofcal.ops import BY_NAME
from roofcal.ops.linear.model import FASTEST, Linear, Passes, Weights
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedOption:
    """An option with its time: measured at this very shape where it was, else predicted.

    predicted    the whole time as the model predicts it: seconds, low and high end
    measured     the parts whose time is measured, one by one or the linear as a whole
    probability  that it is the fastest of all options; None for a model without intervals
    beyond       how far the predicted part that is farthest outside of its probes lies outside
    """

    option: Option
    total_s: float
    low_s: float | None
    high_s: float | None
    predicted: tuple[float, float | None, float | None]
    measured: tuple[Part, ...]
    bound_by: str
    probability: float | None
    beyond: Beyond

    @property
    def source(self) -> str:
        """Where the time is from: measured, predicted, or which parts of it are measured."""
        if len(self.measured) in (0, len(self.option.parts)):
            return "measured" if self.measured else "predicted"
        return f"{', '.join(part.name for part in self.measured)} measured"

    @property
    def doublings(self) -> float:
        """Doublings outside of the probes; 0 within, and where nobody knows."""
        return self.beyond.doublings or 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The ranked options, the fastest first; `refused`: name of another option -> the reason.

    An option for larger shapes is in neither, as in roofcal.ask.points.
    """

    question: LinearQuestion
    ranked: tuple[RankedOption, ...]
    refused: Mapping[str, str]

    @property
    def best_by_recipe(self) -> list[RankedOption]:
        """The fastest option of every recipe, the fastest recipe first."""
        best: dict[str, RankedOption] = {}
        for ranked in self.ranked:
            best.setdefault(ranked.option.recipe, ranked)
        return list(best.values())

    @property
    def equals(self) -> list[list[RankedOption]]:
        """Recipes of equal time, two and more in a group, the fastest group first."""
        groups: list[list[RankedOption]] = []
        for ranked in self.best_by_recipe:
            if groups and math.isclose(groups[-1][0].total_s, ranked.total_s):
                groups[-1].append(ranked)
            else:
                groups.append([ranked])
        return [group for group in groups if len(group) > 1]

    def recipe_probability(self, recipe: str) -> float | None:
        """The probability that an option of the recipe is the fastest."""
        own = [ranked.probability for ranked in self.ranked if ranked.option.recipe == recipe]
        stated = [probability for probability in own if probability is not None]
        return sum(stated) if stated else None


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
        self._model, self._sources, self._measured = model, sources, measured
        self._options: dict[tuple[Passes, Weights], list[Option]] = {}

    def without_measurements(self) -> "Adviser":
        """The same model and sources, which answers by prediction alone."""
        return Adviser(self._model, self._sources)

    def options(self, passes: Passes, weights: Weights) -> list[Option]:
        """What the model can time; raises PredictError where that is nothing."""
        key = passes, weights
        if key not in self._options:
            asked = Linear(recipe=BASELINE, passes=passes, casts=FASTEST, weights=weights)
            self._options[key] = [
                option
                for recipe in linear_recipes(self._model, self._sources, passes)
                for option in linear_options(
                    self._model, self._sources, replace(asked, recipe=recipe)
                )
            ]
            self._options[key] += packed_options(self._model, self._sources, passes, weights)
        if not self._options[key]:
            raise PredictError(f"model '{self._model.MODEL}' knows no products of linears here")
        return self._options[key]

    def advise(self, questions: Sequence[LinearQuestion]) -> list[Advice]:
        """The advice on every question, in their order.

        Raises PredictError for sizes beyond any matrix, and where every option refuses the shape.
        """
        for question in questions:
            checked_sizes(m=question.m, n=question.n, k=question.k)
        times = self._part_times(questions)
        return [self._ranked(question, times) for question in questions]

    def _part_times(
        self, questions: Sequence[LinearQuestion]
    ) -> dict[tuple[Part, LinearQuestion], tuple[Prediction, Beyond]]:
        """(prediction, how far it lies beyond the probes) of every part that runs."""
        times: dict[tuple[Part, LinearQuestion], tuple[Prediction, Beyond]] = {}
        parts = dict.fromkeys(
            (part, question)
            for question in questions
            for option in self.options(question.passes, question.weights)
            for part in option.parts
        )
        points: dict[tuple[object, ...], PlanPoint] = {}
        keys = {}
        for part, question in parts:
            shape = part.shape(question.shape)
            key = (part.op, part.provider, part.recipe, *shape.values())
            keys[part, question] = key
            if self._refusal(part, shape) is None:
                points[key] = _point(part, shape)
        predictions = predict_points(self._model, list(points.values()), self._sources)
        by_id = {prediction.point_id: prediction for prediction in predictions}
        answers = {}
        for key, point in points.items():
            prediction = by_id.get(point.point_id)
            if prediction is not None:
                answers[key] = prediction, self._beyond(point)
        for of_question, key in keys.items():
            if key in answers:
                times[of_question] = answers[key]
        return times

    def _refusal(self, part: Part, shape: Shape) -> str | None:
        """Why a part cannot run: its provider refuses the shape, or the memory is too small."""
        providers = part.providers(self._sources)
        refused = why_all_refuse(BY_NAME[part.op], providers, part.recipe, shape)
        return refused or memory_refusal(_point(part, shape), self._sources.spec)

    def _beyond(self, point: PlanPoint) -> Beyond:
        calibration = self._sources.calibration
        if calibration is None or self._model.MODEL != calibrated.MODEL:
            return Beyond()
        return beyond_parts(calibration, [(point.op, point.provider, point.recipe, point.shape)])

    def _ranked(
        self,
        question: LinearQuestion,
        times: Mapping[tuple[Part, LinearQuestion], tuple[Prediction, Beyond]],
    ) -> Advice:
        runnable: list[Option] = []
        options = self.options(question.passes, question.weights)
        refused = dict.fromkeys(self._without_options(question.passes, options), NO_CASTS)
        for_larger: set[str] = set()
        for option in options:
            missing = [part for part in option.parts if (part, question) not in times]
            if not missing:
                runnable.append(option)
                continue
            part = missing[0]
            op, shape = BY_NAME[part.op], part.shape(question.shape)
            why = self._refusal(part, shape) or "the model has no answer"
            refused[option.name] = part.in_linear(why)
            if too_small(op, part.provider, part.recipe, shape) is not None:
                for_larger.add(option.name)
        if not runnable:
            raise PredictError("no answer: " + "; ".join(dict.fromkeys(refused.values())))
        refused = {name: why for name, why in refused.items() if name not in for_larger}
        outside = {
            option: max(times[part, question][1].doublings or 0.0 for part in option.parts)
            for option in runnable
        }
        farthest = min(outside.values()) + FARTHEST
        addends = {option: self._addends(option, question, times) for option in runnable}
        far = {
            option: doublings
            for option, doublings in outside.items()
            if doublings > farthest and not all(one.measured for one in addends[option])
        }
        refused |= {
            option.name: f"lies {doublings:.1f} doublings beyond every probe"
            for option, doublings in far.items()
        }
        runnable = [option for option in runnable if option not in far]
        chances = _chances([addends[option] for option in runnable])
        ranked = [
            _ranked_option(
                option,
                addends[option],
                [times[part, question][0] for part in option.parts],
                chance,
            )
            for option, chance in zip(runnable, chances, strict=True)
        ]
        ranked.sort(key=lambda answer: answer.total_s)
        return Advice(question=question, ranked=tuple(ranked), refused=refused)

    def _without_options(self, passes: Passes, options: Sequence[Option]) -> list[str]:
        """Recipes whose products the model knows, and whose linears it cannot time."""
        recipes = linear_recipes(self._model, self._sources, passes)
        return [name for name in recipes if all(option.recipe != name for option in options)]

    def _addends(
        self,
        option: Option,
        question: LinearQuestion,
        times: Mapping[tuple[Part, LinearQuestion], tuple[Prediction, Beyond]],
    ) -> list["_Addend"]:
        """What the time of an option is the sum of, measured where it was measured."""
        if (question.passes, question.weights) == ("forward_backward", "cast"):
            layer = linear_provider(option)
            key = point_key("linear", layer, option.recipe, question.shape)
            if layer and key in self._measured:
                return [_measured_addend(option.parts, self._measured[key])]
        addends = []
        for part in option.parts:
            key = point_key(part.op, part.provider, part.recipe, part.shape(question.shape))
            if key in self._measured:
                addends.append(_measured_addend((part,), self._measured[key]))
            else:
                prediction, beyond = times[part, question]
                addends.append(
                    _Addend(
                        error_name=part.error_name,
                        total_s=prediction.total_s,
                        low_s=prediction.low_s,
                        high_s=prediction.high_s,
                        beyond=beyond,
                    )
                )
        return addends


@dataclass(frozen=True, slots=True, kw_only=True)
class _Addend:
    """One of the times that an option's time is the sum of; those of one error_name err alike.

    measured  the parts that it is the measured time of; none where it is predicted
    """

    error_name: str
    total_s: float
    low_s: float | None
    high_s: float | None
    beyond: Beyond
    measured: tuple[Part, ...] = ()


def _measured_addend(parts: tuple[Part, ...], point: MeasuredPoint) -> _Addend:
    sizes = "x".join(str(size) for size in point.shape.values())
    return _Addend(
        error_name=f"measured {point.op}.{point.provider}.{point.recipe}.{sizes}",
        total_s=point.median_s,
        low_s=point.low_s,
        high_s=point.high_s,
        beyond=Beyond(),
        measured=parts,
    )


def linear_provider(option: Option) -> str:
    """The provider of op linear that runs an option, forward and backward; "" for none."""
    return _LINEARS.get((option.products_by, option.casts_by), "")


def _chances(options: Sequence[Sequence[_Addend]]) -> list[float | None]:
    candidates = []
    for addends in options:
        errors: dict[str, tuple[float, float]] = {}
        for addend in addends:
            if addend.high_s is None:
                return [None] * len(options)
            second, error = errors.get(addend.error_name, (0.0, 0.0))
            total = second + addend.total_s
            own = addend.total_s * log_error(addend.total_s, addend.high_s)
            errors[addend.error_name] = total, (second * error + own) / total
        candidates.append(errors)
    return [float(chance) for chance in probabilities(candidates)]


def _ranked_option(
    option: Option,
    addends: Sequence[_Addend],
    predictions: Sequence[Prediction],
    probability: float | None,
) -> RankedOption:
    seconds: dict[str, float] = {}
    for part, prediction in zip(option.parts, predictions, strict=True):
        name = "casts" if part.op == "cast" else part.role
        seconds[name] = seconds.get(name, 0.0) + prediction.total_s
    total_s, low_s, high_s = _sum([(one.total_s, one.low_s, one.high_s) for one in addends])
    return RankedOption(
        option=option,
        total_s=total_s,
        low_s=low_s,
        high_s=high_s,
        predicted=_sum([(one.total_s, one.low_s, one.high_s) for one in predictions]),
        measured=tuple(part for one in addends for part in one.measured),
        bound_by=max(seconds, key=lambda name: seconds[name]),
        probability=probability,
        beyond=reduce(Beyond.farther, (one.beyond for one in addends)),
    )


def _sum(
    times: Sequence[tuple[float, float | None, float | None]],
) -> tuple[float, float | None, float | None]:
    """Seconds, low and high end of a sum; its ends are None where a part has none."""
    lows = [low for _, low, _ in times if low is not None]
    highs = [high for _, _, high in times if high is not None]
    has_interval = len(lows) == len(highs) == len(times)
    total = sum(total for total, _, _ in times)
    return total, sum(lows) if has_interval else None, sum(highs) if has_interval else None


def _point(part: Part, shape: Shape) -> PlanPoint:
    return PlanPoint(op=part.op, provider=part.provider, recipe=part.recipe, shape=shape, device="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """The fastest recipe from `first_m` to `last_m`, the ends of the grid included.

    equals             recipes that take the same time at every M of the stretch
    least_probability  that it is the fastest, at the M where that is least sure; None for a model
                       without intervals
    """

    recipe: str
    equals: tuple[str, ...]
    first_m: int
    last_m: int
    least_probability: float | None


def winners_by_m(adviser: Adviser, question: LinearQuestion) -> list[Winner]:
    """Which recipe is the fastest by prediction for other M of the same weights, in stretches of M.

    Measurements are of single M, and would split the stretches. M runs over 1, 2, 4, 8 and two
    steps per doubling from 16 to 131072, and the M of the question.
    """
    grid = {1, 2, 4, 8, question.m, *(16 * round(2 ** (step / 2)) for step in range(27))}
    winners: list[Winner] = []
    questions = [replace(question, m=m) for m in sorted(grid)]
    for answer in adviser.without_measurements().advise(questions):
        first, m = answer.ranked[0], answer.question.m
        group = next((group for group in answer.equals if first in group), [first])
        fastest = [ranked.option.recipe for ranked in group]
        before = winners[-1] if winners else None
        both = before and [name for name in (before.recipe, *before.equals) if name in fastest]
        chance = answer.recipe_probability((both or fastest)[0])
        if before and both:
            least = before.least_probability
            winners[-1] = replace(
                before,
                recipe=both[0],
                equals=tuple(both[1:]),
                last_m=m,
                least_probability=None if chance is None or least is None else min(chance, least),
            )
        else:
            recipe, *equals = fastest
            winners.append(
                Winner(
                    recipe=recipe,
                    equals=tuple(equals),
                    first_m=m,
                    last_m=m,
                    least_probability=chance,
                )
            )
    return winners


def decibels(error: float | None) -> float | None:
    """Signal to noise of an output with a relative error; None where it was not measured."""
    return None if not error else float(-20 * np.log10(error))
