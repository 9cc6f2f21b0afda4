"""What is recommended for a linear: advice with what was measured nearby; and a CSV of many."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from roofcal.ask.advise import Advice, Adviser, RecipeTime
from roofcal.ask.answers import (
    WEIGHTS_WORDS,
    Answer,
    Column,
    ManyAnswers,
    Record,
    filled,
    origin_words,
    record_of,
    table,
)
from roofcal.ask.beyond_probes import FAR, unprobed_words
from roofcal.ask.choices import ChoiceRecord, choice_record
from roofcal.ask.energy import Prices, TokenCost, token_cost
from roofcal.core.csv_files import read_shapes
from roofcal.ops import BY_NAME
from roofcal.ops.spec import Shape

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
    """Why an option is less certain than its interval says."""
    doublings, words = row["extrapolated_doublings"], []
    if doublings:
        guess = ": treat as a guess" if doublings > FAR else ""
        words.append(f"extrapolated by {doublings:.1f} doublings{guess}")
    if row["unprobed"]:
        words.append("no such probe")
    return ", ".join(words)


# Attribute of RecipeTime -> its key in JSON, where that says more.
_KEYS: Final = {
    "seconds": "time_s",
    "low_s": "time_low_s",
    "high_s": "time_high_s",
    "probability": "fastest_probability",
    "recipe_probability": "recipe_fastest_probability",
}


@dataclass(frozen=True, kw_only=True)
class Recommendation(Advice, Answer):
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
    costs: Mapping[str, TokenCost]
    answer: Mapping[str, Any] = field(repr=False)

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
                "although its time is longer: it is less certain, or more providers offer it"
            )
        for group in answer["equal_recipes"]:
            yield filled(
                f"equal by this model: {', '.join(group)} ({{time_s:time}})", best[group[0]]
            )
        if unprobed := list(dict.fromkeys(words for row in rows for words in row["unprobed"])):
            yield unprobed_words(unprobed)
        for point in rows[0]["nearest_measured"]:
            what = "linear" if point["op"] == "linear" else "product"
            off = " (a probe of the fit)" if BY_NAME[point["op"]].role == "probe" else ""
            if point["predicted_s"] is not None:
                off = f" (predicted {point['predicted_s'] / point['measured_s'] - 1:+.1%})"
            doublings = point["distance_doublings"]
            away = f"{doublings:.1f} doublings away" if doublings else "at this shape"
            if 0 < doublings < 0.05:
                away = "less than 0.1 doublings away"
            yield filled(
                f"measured {away}: the {what} {{m}} x {{n}} x {{k}} in {{measured_s:time}}{off}",
                point,
            )
        if answer["recipe_choices"]:
            choices = ChoiceRecord(**answer["recipe_choices"])
            yield choices.words("recipe", "linears (forward and backward)")
        yield from self._other_sizes()
        reasons = list(dict.fromkeys(self.refused.values()))
        for reason in reasons[:_MOST_REASONS]:
            first, *others = (name for name, why in self.refused.items() if why == reason)
            yield f"not ranked: {first}{f' and {len(others)} more' * bool(others)}: {reason}"
        if len(reasons) > _MOST_REASONS:
            yield f"not ranked for {len(reasons) - _MOST_REASONS} more reasons: --json lists them"
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
            yield f"predicted: this recipe is the fastest at every M up to {only['last_m']}"
            return
        stretches = []
        for winner in winners:
            first, last = winner["first_m"], winner["last_m"]
            span = f"at {first}" if first == last else f"{first} to {last}"
            chance = filled(" ({least_probability:.2f})", winner)
            stretches.append(f"{' = '.join((winner['recipe'], *winner['equals']))} {span}{chance}")
        stated = all(winner["least_probability"] is not None for winner in winners)
        least = " (and the lowest probability that it is)" if stated else ""
        yield f"predicted fastest recipe by M{least}: {', '.join(stretches)}"


def recommend(adviser: Adviser, shape: Shape, prices: Prices | None = None) -> Recommendation:
    """The advice on one linear beside what was measured nearby; prices: costs are asked for."""
    (advice,) = adviser.advise([shape])
    options = tuple(adviser.with_evidence(option, shape) for option in advice.options)
    choices = choice_record(adviser.linears, among="recipes")
    sources, model = adviser.sources, adviser.model.MODEL
    costs = dict[str, TokenCost]()
    if prices:
        costs = {
            recipe: token_cost(sources, option.seconds / shape["m"], prices, model)
            for recipe, option in advice.best_by_recipe.items()
        }
        costs = dict(sorted(costs.items(), key=lambda item: item[1].joules))
    answer = {
        "model": model,
        "device": sources.device,
        "environment": sources.environment,
        **shape,
        "pass": adviser.passes,
        "weights": adviser.weights,
        "options": [_record(option) for option in options],
        "equal_recipes": advice.equals,
        "refused": dict(advice.refused),
        "recipe_choices": asdict(choices) if choices else None,
        "fastest_by_m": adviser.fastest_by_m(shape),
        **({"energy": {name: asdict(cost) for name, cost in costs.items()}} if costs else {}),
    }
    return Recommendation(
        device=sources.device,
        model=model,
        environment=sources.environment,
        options=options,
        refused=advice.refused,
        costs=costs,
        answer=answer,
    )


def _record(option: RecipeTime) -> dict[str, Any]:
    return record_of(option, _KEYS) | {"extrapolated": option.extrapolated_doublings > 0}


def advise_csv(path: Path, adviser: Adviser) -> ManyAnswers:
    """The fastest option of every row of a file with columns m, n, k.

    Raises CsvError naming file, line and column of up to 20 mistakes.
    """
    shapes = [shape for _, shape in read_shapes(path, "mnk")]
    rows = []
    for shape, advice in zip(shapes, adviser.advise(shapes), strict=True):
        first, *others = advice.best_by_recipe.values()
        rows.append(
            {
                **shape,
                **_record(adviser.with_evidence(first, shape)),
                "second_recipe": others[0].recipe if others else None,
                "second_s": others[0].seconds if others else None,
            }
        )
    return ManyAnswers(_CSV, rows)
