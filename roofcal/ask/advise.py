"""Which recipe, and whose kernels, for a linear: all that a model of time knows, ranked.

An option is a recipe of the linear, the provider of its products and the provider of its casts. Its
time is the sum of its parts, as in ops.linear: products and casts, and one product of packed
weights for weights-only recipes, which serve inference (forward, cached weights) alone. Ends of
intervals add up. Which option is the fastest is drawn with the errors of the parts (ask.fastest),
so that two options with the same product do not err apart in it. An option that lies FARTHEST
doublings farther outside of its probes than another is not ranked: fits of kernels for few tokens
say nothing of a thousand.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

import numpy as np

from roofcal.ask.beyond_probes import Beyond, beyond_parts
from roofcal.ask.fastest import log_error, probabilities
from roofcal.ask.shape_limits import memory_refusal, refusal, too_small
from roofcal.core.recipes import WEIGHT_ONLY_RECIPES
from roofcal.core.records import PlanPoint, Prediction
from roofcal.models import calibrated
from roofcal.models.errors import PredictError, checked_sizes
from roofcal.models.registry import predict_points
from roofcal.ops import BY_NAME
from roofcal.ops.constants import calibrated_providers
from roofcal.ops.gemm.predict import LIBRARIES
from roofcal.ops.linear.model import (
    BF16_GRAD_WEIGHT,
    Casts,
    Linear,
    Passes,
    Weights,
    cast_recipes,
    has_casts,
    product_recipes,
)
from roofcal.ops.linear.predict import cast_providers
from roofcal.ops.spec import Shape
from roofcal.ops.time_models import Model, Sources

FARTHEST: Final = 2.0  # doublings outside of the probes
_BASELINE: Final = "bf16"
_TENSORS: Final = {"x": "mk", "w": "nk", "grad_out": "mn"}
_PRODUCTS: Final = {"output": "mnk", "grad_input": "mkn", "grad_weight": "nkm"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearQuestion:
    """y[M,N] = x[M,K] @ w[N,K].T; weights: cast beforehand (cached) or in every pass."""

    m: int
    n: int
    k: int
    passes: Passes
    weights: Weights


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
    def error_name(self) -> str:
        """Parts with equal constants err alike, whatever their shapes."""
        return f"{self.op}.{self.provider}.{self.recipe}"

    def shape(self, question: LinearQuestion) -> Shape:
        """The sizes of the part in a linear."""
        axes = BY_NAME[self.op].axes
        return {axis: getattr(question, side) for axis, side in zip(axes, self.sides, strict=True)}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedOption:
    """An option with its time.

    probability  that it is the fastest of all options; None for a model without intervals
    beyond       how far the part that is farthest outside of its probes lies outside
    """

    option: Option
    total_s: float
    low_s: float | None
    high_s: float | None
    bound_by: str
    probability: float | None
    beyond: Beyond

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
    """

    def __init__(self, model: Model, sources: Sources) -> None:
        self._model, self._sources = model, sources
        self._options: dict[tuple[Passes, Weights], list[Option]] = {}

    def options(self, passes: Passes, weights: Weights) -> list[Option]:
        """What the model can time; raises PredictError where that is nothing."""
        key = passes, weights
        if key not in self._options:
            self._options[key] = list(self._known_options(passes, weights))
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

    def _known_options(self, passes: Passes, weights: Weights) -> Iterator[Option]:
        recipes = list(self._model.product_recipes(self._sources))
        if passes == "forward_backward" and {"fp8_axiswise", _BASELINE} <= set(recipes):
            recipes.append(BF16_GRAD_WEIGHT)
        for recipe in recipes:
            linear = Linear(recipe=recipe, passes=passes, weights=weights)
            if recipe in (_BASELINE, "fp32"):
                casters: Sequence[Casts] = ("none",)
            elif has_casts(recipe):
                casters = cast_providers(self._model, self._sources, linear)
            else:
                continue  # int8: nobody measured its casts
            products = product_recipes(recipe, passes)
            for provider in self._providers("gemm", products["output"]):
                for caster in casters[: 1 if provider == "" else None]:
                    yield self._option(replace(linear, casts=caster), provider, products)
        if passes == "forward" and weights == "cached":
            for recipe in WEIGHT_ONLY_RECIPES:
                for provider in self._providers("mixed_gemm", recipe):
                    part = Part("mixed_gemm", provider, recipe, "output", "mnk")
                    yield Option(
                        recipe=recipe,
                        products_by=provider or "any",
                        casts_by="none",
                        parts=(part,),
                    )

    def _providers(self, op: str, recipe: str) -> list[str]:
        """Those calibrated; [""] of a model that knows none and answers for the recipe."""
        calibration = self._sources.calibration
        if self._model.MODEL == calibrated.MODEL and calibration is not None:
            return calibrated_providers(calibration.constants, op, recipe)
        point = PlanPoint(
            op=op, provider="", recipe=recipe, shape={"m": 128, "n": 128, "k": 128}, device=""
        )
        return [""] if predict_points(self._model, [point], self._sources) else []

    def _option(self, linear: Linear, provider: str, products: Mapping[str, str]) -> Option:
        parts = [
            Part("gemm", self._multiplier(recipe, provider), recipe, role, _PRODUCTS[role])
            for role, recipe in products.items()
        ]
        caster = linear.casts if provider else ""
        parts += [
            Part("cast", caster, recipe, tensor, _TENSORS[tensor])
            for tensor, recipe in cast_recipes(linear)
        ]
        return Option(
            recipe=linear.recipe,
            products_by=provider or "any",
            casts_by="none" if linear.casts == "none" else caster or "any",
            parts=tuple(parts),
        )

    def _multiplier(self, recipe: str, provider: str) -> str:
        """Who multiplies in a recipe: the library where the provider has no such products."""
        providers = self._providers("gemm", recipe)
        if provider in providers:
            return provider
        return next((name for name in LIBRARIES if name in providers), providers[0])

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
            shape = part.shape(question)
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
        refused = refusal(BY_NAME[part.op], part.provider, part.recipe, shape)
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
        refused: dict[str, str] = {}
        for_larger: set[str] = set()
        for option in self.options(question.passes, question.weights):
            missing = [part for part in option.parts if (part, question) not in times]
            if not missing:
                runnable.append(option)
                continue
            part = missing[0]
            op, shape = BY_NAME[part.op], part.shape(question)
            why = self._refusal(part, shape) or "the model has no answer"
            of_linear = ", ".join(
                f"{a} is {s} here" for a, s in zip(op.axes, part.sides, strict=True)
            )
            is_output = part.role == "output"
            refused[option.name] = why if is_output else f"{part.role}: {why} ({of_linear})"
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
        refused |= {
            option.name: f"lies {doublings:.1f} doublings beyond every probe"
            for option, doublings in outside.items()
            if doublings > farthest
        }
        runnable = [option for option in runnable if outside[option] <= farthest]
        of_option = [[times[part, question] for part in option.parts] for option in runnable]
        chances = _chances(runnable, of_option)
        ranked = [
            _ranked_option(option, parts, chance)
            for option, parts, chance in zip(runnable, of_option, chances, strict=True)
        ]
        ranked.sort(key=lambda answer: answer.total_s)
        return Advice(question=question, ranked=tuple(ranked), refused=refused)


def _chances(
    options: Sequence[Option], times: Sequence[Sequence[tuple[Prediction, Beyond]]]
) -> list[float | None]:
    if any(prediction.high_s is None for parts in times for prediction, _ in parts):
        return [None] * len(options)
    candidates = []
    for option, parts in zip(options, times, strict=True):
        errors: dict[str, tuple[float, float]] = {}
        for part, (prediction, _) in zip(option.parts, parts, strict=True):
            second, error = errors.get(part.error_name, (0.0, 0.0))
            total = second + prediction.total_s
            mean = (second * error + prediction.total_s * log_error(prediction)) / total
            errors[part.error_name] = total, mean
        candidates.append(errors)
    return [float(chance) for chance in probabilities(candidates)]


def _ranked_option(
    option: Option, times: Sequence[tuple[Prediction, Beyond]], probability: float | None
) -> RankedOption:
    lows = [prediction.low_s for prediction, _ in times if prediction.low_s is not None]
    highs = [prediction.high_s for prediction, _ in times if prediction.high_s is not None]
    has_interval = len(lows) == len(highs) == len(times)
    seconds: dict[str, float] = {}
    for part, (prediction, _) in zip(option.parts, times, strict=True):
        name = "casts" if part.op == "cast" else part.role
        seconds[name] = seconds.get(name, 0.0) + prediction.total_s
    return RankedOption(
        option=option,
        total_s=sum(prediction.total_s for prediction, _ in times),
        low_s=sum(lows) if has_interval else None,
        high_s=sum(highs) if has_interval else None,
        bound_by=max(seconds, key=lambda name: seconds[name]),
        probability=probability,
        beyond=reduce(Beyond.farther, (beyond for _, beyond in times)),
    )


def _point(part: Part, shape: Shape) -> PlanPoint:
    return PlanPoint(op=part.op, provider=part.provider, recipe=part.recipe, shape=shape, device="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """The fastest recipe from `first_m` to `last_m`, the ends of the grid included.

    least_probability  that it is the fastest, at the M where that is least sure; None for a model
                       without intervals
    """

    recipe: str
    first_m: int
    last_m: int
    least_probability: float | None


def winners_by_m(adviser: Adviser, question: LinearQuestion) -> list[Winner]:
    """Which recipe is the fastest for other M of the same weights, in stretches of M.

    M runs over 1, 2, 4, 8 and two steps per doubling from 16 to 131072, and the M of the question.
    """
    grid = {1, 2, 4, 8, question.m, *(16 * round(2 ** (step / 2)) for step in range(27))}
    winners: list[Winner] = []
    questions = [replace(question, m=m) for m in sorted(grid)]
    for answer in adviser.advise(questions):
        recipe, m = answer.ranked[0].option.recipe, answer.question.m
        chance = answer.recipe_probability(recipe)
        if winners and winners[-1].recipe == recipe:
            before = winners[-1].least_probability
            least = None if chance is None or before is None else min(chance, before)
            winners[-1] = replace(winners[-1], last_m=m, least_probability=least)
        else:
            winners.append(Winner(recipe=recipe, first_m=m, last_m=m, least_probability=chance))
    return winners


def decibels(error: float | None) -> float | None:
    """Signal to noise of an output with a relative error; None where it was not measured."""
    return None if not error else float(-20 * np.log10(error))
