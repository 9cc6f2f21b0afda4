"""What is recommended for a linear: advice with what was measured nearby; and a CSV of many."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from roofcal.ask.advise import (
    Advice,
    Adviser,
    LinearQuestion,
    RankedOption,
    Winner,
    decibels,
    linear_provider,
    winners_by_m,
)
from roofcal.ask.answers import Answer, Column, ManyAnswers, Record, filled, record_of, table
from roofcal.ask.beyond_probes import FAR
from roofcal.ask.energy import Prices, TokenCost, token_cost
from roofcal.ask.linear_options import BASELINE
from roofcal.ask.measured import (
    ChoiceRecord,
    MeasuredPoint,
    PointKey,
    choice_record,
    distance,
    measured_by_key,
    nearest,
)
from roofcal.ask.words import WEIGHTS_WORDS, choices_words, origin_words, unprobed_words
from roofcal.core.csv_files import read_shapes
from roofcal.core.paths import RunFolder
from roofcal.ops import BY_NAME
from roofcal.ops.linear.model import Passes, Weights
from roofcal.ops.time_models import Sources

_NEAREST: Final = 2
_MOST_REASONS: Final = 3
_CSV: Final = (
    *("m", "n", "k", "recipe", "products_by", "casts_by", "time_s", "time_low_s", "time_high_s"),
    *("source", "predicted_s", "predicted_low_s", "predicted_high_s", "bound_by"),
    *("recipe_fastest_probability", "speedup_over_bf16", "output_db", "extrapolated_doublings"),
    *("unprobed", "second_recipe", "second_s"),
)
_MEASURED: Final = (
    Column("source", "{source}"),
    Column("predicted", lambda row: filled("{predicted_s:time}", row) if row["measured"] else ""),
)


def _columns(best: Sequence[Record]) -> tuple[Column, ...]:
    """Of the fastest options of all recipes; their source where anything was measured."""
    return (
        Column("recipe", "{recipe}", left=True),
        Column("products", "{products_by}", left=True),
        Column("casts", "{casts_by}", left=True),
        Column("time", "{time_s:time}"),
        Column("95 %", "{time_low_s:time} to {time_high_s:time}"),
        *(_MEASURED if any(row["measured"] for row in best) else ()),
        Column("P(fastest)", "{recipe_fastest_probability:.2f}"),
        Column("over bf16", "{speedup_over_bf16:.2f}x"),
        Column("accuracy", "{output_db:.1f} dB"),
        Column("", _reservation),
    )


_COSTS: Final = (
    Column("recipe", "{recipe}", left=True),
    Column("J per token", "{joules:.3g}"),
    Column("$ per million tokens", "{dollars:u.3g}"),
    Column("tokens per $", "{tokens_per_dollar:.3g}"),
)


def _reservation(row: Record) -> str:
    """What makes an option less sure than its interval says."""
    doublings, words = row["extrapolated_doublings"], []
    if doublings:
        guess = ", far outside: a guess" if doublings > FAR else ""
        words.append(f"extrapolated by {doublings:.1f} doublings{guess}")
    if row["unprobed"]:
        words.append("no such probe")
    return ", ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredEvidence:
    """Measured points of the run that advice counts in; empty without tables.

    by_key: what an Adviser takes in the place of predictions at the very shape of a question;
    products and linears are of the same points.
    """

    by_key: Mapping[PointKey, MeasuredPoint]
    products: Sequence[MeasuredPoint]
    linears: Sequence[MeasuredPoint]

    @property
    def choices(self) -> ChoiceRecord | None:
        """How good it was to take the recipe that is predicted to be fastest, on linears."""
        return choice_record(self.linears, among="recipes")

    def nearest_to(self, ranked: RankedOption, question: LinearQuestion) -> list[MeasuredPoint]:
        """The nearest measured points of the same recipe and providers.

        Of the linear forward and backward, which casts its weights, where such a one was measured
        and is asked about, else of the product y.
        """
        option, part = ranked.option, ranked.option.parts[0]
        if (question.passes, question.weights) == ("forward_backward", "cast"):
            layer = linear_provider(option)
            points = nearest(self.linears, layer, option.recipe, question.shape, _NEAREST)
            if points:
                return points
        return nearest(self.products, part.provider, part.recipe, question.shape, _NEAREST)

    def output_db(self, recipe: str, question: LinearQuestion) -> float | None:
        """Signal to noise, by any provider, at the nearest point where it was measured.

        That of the worst output of a linear forward and backward, else of the product y.
        """
        backward = question.passes == "forward_backward"
        for points in (self.linears, self.products) if backward else (self.products,):
            points_with_error = [p for p in points if p.recipe == recipe and p.error is not None]
            if points_with_error:
                closest = min(
                    points_with_error, key=lambda point: distance(point.shape, question.shape)
                )
                return decibels(closest.error)
        return None


def measured_evidence(run: RunFolder | None) -> MeasuredEvidence:
    """The measured points of a run; none without a run."""
    points = measured_by_key(run)
    return MeasuredEvidence(
        by_key=points,
        products=[one for one in points.values() if BY_NAME[one.op].computes == "product"],
        linears=[one for one in points.values() if one.op == "linear"],
    )


@dataclass(frozen=True, kw_only=True)
class RecipeTime:
    """A linear in one recipe by one pair of providers; times in seconds, as in PredictedTime.

    Attributes:
        seconds, low_s, high_s: the time that counts: measured at this very shape where it was,
            else predicted.
        source: measured, predicted, or which parts of the sum are measured.
        predicted_s, predicted_low_s, predicted_high_s: by the model of time.
        measured: the parts whose time is measured.
        probability: that it is the fastest of all options.
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
    recipe_probability: float | None
    speedup_over_bf16: float | None
    output_db: float | None
    extrapolated_doublings: float
    unprobed: tuple[str, ...]
    nearest_measured: tuple[Mapping[str, Any], ...]


# Attribute of RecipeTime -> its key in JSON, where that says more.
_KEYS: Final = {
    "seconds": "time_s",
    "low_s": "time_low_s",
    "high_s": "time_high_s",
    "probability": "fastest_probability",
    "recipe_probability": "recipe_fastest_probability",
}


@dataclass(frozen=True, kw_only=True)
class Recommendation(Answer):
    """Recipes and providers for a linear, the fastest first.

    Attributes:
        options: all that the model of time can answer, the fastest first.
        refused: name of another option -> the reason.
        costs: recipe -> what a token (a row of x) costs by its fastest option, the fewest joules
            first; of those alone that were asked for it.
        answer: everything as `roofcal advise --json` prints it.
    """

    device: str
    model: str
    environment: str | None
    options: tuple[RecipeTime, ...]
    refused: Mapping[str, str]
    costs: Mapping[str, TokenCost]
    answer: Mapping[str, Any] = field(repr=False)

    @property
    def best(self) -> RecipeTime:
        """The fastest option."""
        return self.options[0]

    def rows(self) -> list[dict[str, Any]]:
        """The options."""
        return [vars(option) for option in self.options]

    def parts(self) -> Iterator[str | list[str]]:
        """One line per recipe with its fastest providers, then what stands behind the first."""
        answer = self.answer
        best: dict[str, Record] = {}
        for option in answer["options"]:
            best.setdefault(option["recipe"], option)
        rows = list(best.values())
        yield table(rows, _columns(rows))
        yield ""
        likeliest = max(rows, key=lambda row: row["recipe_fastest_probability"] or 0.0)
        chances = [row["recipe_fastest_probability"] or 0.0 for row in (likeliest, rows[0])]
        if chances[0] > chances[1]:
            yield (
                f"{likeliest['recipe']} is likelier to be the fastest than {rows[0]['recipe']}, "
                "whose time is the least, because its times are less sure or more providers have it"
            )
        for group in answer["equal_recipes"]:
            yield filled(
                f"equal by this model: {', '.join(group)} ({{time_s:time}})", best[group[0]]
            )
        if unprobed := list(dict.fromkeys(words for row in rows for words in row["unprobed"])):
            yield unprobed_words(unprobed)
        for point in rows[0]["nearest_measured"]:
            what = "linear" if point["op"] == "linear" else "product"
            off = " (a probe of the fit)"
            if point["predicted_s"] is not None:
                off = f" (predicted {point['predicted_s'] / point['measured_s'] - 1:+.1%})"
            yield filled(
                f"measured {_away(point['distance_doublings'])}: the {what} "
                f"{{m}} x {{n}} x {{k}} in {{measured_s:time}}{off}",
                point,
            )
        if answer["recipe_choices"]:
            choices = ChoiceRecord(**answer["recipe_choices"])
            yield choices_words(choices, "recipe", "linears, forward and backward")
        yield from self._other_sizes()
        reasons = list(dict.fromkeys(self.refused.values()))
        for reason in reasons[:_MOST_REASONS]:
            first, *others = (name for name, why in self.refused.items() if why == reason)
            yield f"not ranked: {first}{f' and {len(others)} more' * bool(others)}: {reason}"
        if len(reasons) > _MOST_REASONS:
            yield f"not ranked for {len(reasons) - _MOST_REASONS} reasons more, which --json has"
        linear = filled("y[{m},{n}] = x[{m},{k}] @ w[{n},{k}].T", answer)
        passes, weights = answer["pass"].replace("_", " and "), WEIGHTS_WORDS[answer["weights"]]
        yield f"{passes} of {linear}, weights {weights}"
        yield origin_words(answer)
        if self.costs:
            yield ""
            yield table([asdict(c) | {"recipe": name} for name, c in self.costs.items()], _COSTS)
            yield next(iter(self.costs.values())).basis

    def _other_sizes(self) -> Iterator[str]:
        """Which recipe is predicted to be the fastest for other M of the same weights."""
        winners = self.answer["fastest_by_m"]
        if not winners:
            return
        only, *others = winners
        if not others and self.best.recipe in (only["recipe"], *only["equals"]):
            yield f"by prediction, no other M up to {only['last_m']} changes the recipe"
            return
        stretches = []
        for winner in winners:
            first, last = winner["first_m"], winner["last_m"]
            span = f"at {first}" if first == last else f"{first} to {last}"
            chance = filled(" ({least_probability:.2f})", winner)
            stretches.append(f"{' = '.join((winner['recipe'], *winner['equals']))} {span}{chance}")
        stated = all(winner["least_probability"] is not None for winner in winners)
        least = " (and the least probability that it is)" if stated else ""
        yield f"by prediction, the fastest recipe by M{least}: {', '.join(stretches)}"


def _away(doublings: float) -> str:
    """How far a measured point is from the question."""
    if not doublings:
        return "at this shape"
    return "less than 0.1 doublings away" if doublings < 0.05 else f"{doublings:.1f} doublings away"


def recommend(
    advice: Advice,
    evidence: MeasuredEvidence,
    winners: Sequence[Winner],
    origin: Mapping[str, Any],
    costs: Mapping[str, TokenCost] | None = None,
) -> Recommendation:
    """Advice beside what was measured nearby; `origin` says model, device and environment."""
    question = advice.question
    options = tuple(_recipe_time(ranked, advice, evidence) for ranked in advice.ranked)
    answer = {
        **origin,
        **question.shape,
        "pass": question.passes,
        "weights": question.weights,
        "options": [_record(option) for option in options],
        "equal_recipes": [[one.option.recipe for one in group] for group in advice.equals],
        "refused": dict(advice.refused),
        "recipe_choices": asdict(evidence.choices) if evidence.choices else None,
        "fastest_by_m": [asdict(winner) | {"equals": list(winner.equals)} for winner in winners],
    }
    if costs:
        answer["energy"] = {name: asdict(cost) for name, cost in costs.items()}
    return Recommendation(
        **origin, options=options, refused=advice.refused, costs=costs or {}, answer=answer
    )


def _record(option: RecipeTime) -> dict[str, Any]:
    return record_of(option, _KEYS) | {"extrapolated": option.extrapolated_doublings > 0}


def cost_by_recipe(
    advice: Advice, sources: Sources, prices: Prices, model: str
) -> dict[str, TokenCost]:
    """Recipe -> what a token (a row of x) costs by its fastest option, the fewest joules first."""
    costs = {
        ranked.option.recipe: token_cost(sources, ranked.total_s / advice.question.m, prices, model)
        for ranked in advice.best_by_recipe
    }
    return dict(sorted(costs.items(), key=lambda item: item[1].joules))


def _recipe_time(ranked: RankedOption, advice: Advice, evidence: MeasuredEvidence) -> RecipeTime:
    option, question = ranked.option, advice.question
    predicted_s, predicted_low_s, predicted_high_s = ranked.predicted
    baseline = [other.total_s for other in advice.ranked if other.option.recipe == BASELINE]
    return RecipeTime(
        recipe=option.recipe,
        products_by=option.products_by,
        casts_by=option.casts_by,
        seconds=ranked.total_s,
        low_s=ranked.low_s,
        high_s=ranked.high_s,
        source=ranked.source,
        measured=tuple(part.name for part in ranked.measured),
        predicted_s=predicted_s,
        predicted_low_s=predicted_low_s,
        predicted_high_s=predicted_high_s,
        bound_by=ranked.bound_by,
        probability=ranked.probability,
        recipe_probability=advice.recipe_probability(option.recipe),
        speedup_over_bf16=baseline[0] / ranked.total_s if baseline else None,
        output_db=evidence.output_db(option.recipe, question),
        extrapolated_doublings=ranked.doublings,
        unprobed=ranked.beyond.unprobed,
        nearest_measured=tuple(
            {
                **point.shape,
                "op": point.op,
                "distance_doublings": distance(point.shape, question.shape),
                "measured_s": point.median_s,
                "predicted_s": point.predicted_s,
            }
            for point in evidence.nearest_to(ranked, question)
        ),
    )


def advise_csv(
    path: Path, adviser: Adviser, passes: Passes, weights: Weights, evidence: MeasuredEvidence
) -> ManyAnswers:
    """The fastest option of every row of a file with columns m, n, k.

    Raises CsvError naming file, line and column of up to 20 mistakes.
    """
    questions = [
        LinearQuestion(**shape, passes=passes, weights=weights)
        for _, shape in read_shapes(path, "mnk")
    ]
    rows = []
    for advice in adviser.advise(questions):
        first, *others = advice.best_by_recipe
        rows.append({**advice.question.shape, **_record(_recipe_time(first, advice, evidence))})
        if others:
            second = others[0]
            rows[-1] |= {"second_recipe": second.option.recipe, "second_s": second.total_s}
    return ManyAnswers(_CSV, rows)


def advise_point(adviser: Adviser, question: LinearQuestion) -> tuple[Advice, list[Winner]]:
    """The advice on one linear, and the fastest recipe by M."""
    (advice,) = adviser.advise([question])
    return advice, winners_by_m(adviser, question)
