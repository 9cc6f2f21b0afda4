"""What is recommended for a linear: advice with what was measured nearby; and a CSV of many."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from roofcal.ask.advise import Advice, Adviser, RecipeTime, left_out_words, not_ranked_words
from roofcal.ask.answers import (
    WEIGHTS_WORDS,
    Answer,
    Column,
    ManyAnswers,
    Part,
    Record,
    Table,
    Verdict,
    filled,
    origin_words,
    record_of,
    span,
)
from roofcal.ask.beyond_probes import FAR, unprobed_words
from roofcal.ask.choices import ChoiceRecord
from roofcal.ask.decision import Decision, decided_advice, judged_on, style_of
from roofcal.ask.energy import Prices, TokenCost, token_cost
from roofcal.core.csv_files import read_shapes
from roofcal.core.units import format_seconds
from roofcal.models.errors import PredictError
from roofcal.ops import BY_NAME
from roofcal.ops.spec import Shape

_MOST_REASONS: Final = 3
_CSV: Final = (
    *("m", "n", "k", "recipe", "products_by", "casts_by", "time_s", "time_low_s", "time_high_s"),
    *("source", "predicted_s", "predicted_low_s", "predicted_high_s", "bound_by"),
    *("recipe_fastest_probability", "speedup_over_bf16", "output_db", "extrapolated_doublings"),
    *("unprobed", "second_recipe", "second_s", "refused"),
)


def _note(row: Record) -> str:
    """What of the time is measured, and why it is less certain than its interval says."""
    words = []
    if row["measured"]:
        whole = row["source"] == "measured"
        beside = f" (predicted {format_seconds(row['predicted_s'])})" if whole else ""
        words.append(f"{row['source']}{beside}")
    if doublings := row["extrapolated_doublings"]:
        guess = ": treat as a guess" if doublings > FAR else ""
        words.append(f"extrapolated by {doublings:.1f} doublings{guess}")
    if row["unprobed"]:
        words.append("no such probe")
    return ", ".join(words)


_COLUMNS: Final = (
    Column("recipe", "{recipe}", left=True),
    Column("time", "{time_s:time}"),
    Column("95 %", lambda row: span(row["time_low_s"], row["time_high_s"])),
    Column("P fastest", "{recipe_fastest_probability:.2f}"),
    Column("over bf16", "{speedup_over_bf16:.2f}x"),
    Column("accuracy", "{output_db:.1f} dB"),
    Column("products", "{products_by}", left=True),
    Column("casts", "{casts_by}", left=True),
    Column("", _note, left=True, note=True),
)


def _stretch(row: Record) -> str:
    first, last = row["first_m"], row["last_m"]
    return f"{first}" if first == last else f"{first} to {last}"


_BY_M: Final = (
    Column("M", _stretch, left=True),
    Column("fastest recipe", lambda row: " = ".join((row["recipe"], *row["equals"])), left=True),
    Column("P at least", "{least_probability:.2f}"),
    Column("", lambda row: "this M" if row["holds_m"] else "", left=True),
)
_COSTS: Final = (
    Column("recipe", "{recipe}", left=True),
    Column("J per token", "{joules:.3g}"),
    Column("$ per million tokens", "{dollars:u.3g}"),
    Column("tokens per $", "{tokens_per_dollar:.3g}"),
)

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
        decision: which recipe to use, and how sure that is.
        options: all that the model of time can answer, the fastest first.
        refused: name of another option -> the reason.
        costs: recipe -> what a token (a row of x) costs by its fastest option, the fewest joules
            first; of those alone that were asked for it.
        answer: everything as `roofcal advise --json` prints it.
    """

    device: str
    model: str
    environment: str | None
    decision: Decision
    costs: Mapping[str, TokenCost]
    answer: Mapping[str, Any] = field(repr=False)

    def rows(self) -> list[dict[str, Any]]:
        """The options."""
        return [vars(option) for option in self.options]

    def parts(self) -> Iterator[Part]:
        """The decision, a line per recipe, the fastest by M, then what stands behind the first."""
        answer = self.answer
        best: dict[str, Record] = {}
        for option in answer["options"]:
            best.setdefault(option["recipe"], option)
        rows, decision = list(best.values()), self.decision
        verdict, *reservations = decision.sentences()
        yield Verdict(verdict)
        yield from reservations
        yield ""
        yield Table(rows, _COLUMNS, lambda row: style_of(row, decision.recipe))
        yield ""
        m = answer["m"]
        by_m = [
            one | {"holds_m": one["first_m"] <= m <= one["last_m"]}
            for one in answer["fastest_by_m"]
        ]
        yield Table(by_m, _BY_M)
        yield ""
        linear = filled("y[{m},{n}] = x[{m},{k}] @ w[{n},{k}].T", answer)
        passes, weights = answer["pass"].replace("_", " and "), WEIGHTS_WORDS[answer["weights"]]
        yield f"{passes} of {linear}, times and speed-ups with casts, weights {weights}"
        for group in answer["equal_recipes"]:
            yield filled(
                f"equal by this model: {', '.join(group)} ({{time_s:time}})", best[group[0]]
            )
        if unprobed := list(dict.fromkeys(words for row in rows for words in row["unprobed"])):
            yield unprobed_words(unprobed)
        for point in best[decision.recipe]["nearest_measured"]:
            yield _evidence(point)
        is_sure = not decision.toss_up_with and not decision.weak_because
        if answer["pass"] == "forward" and not is_sure:
            yield filled(
                "to be surer, run `roofcal time {m}x{n}x{k}` in a clone on that card",
                answer,
            )
        if answer["left_out"]:
            yield left_out_words(answer["min_db"], answer["left_out"])
        reasons = not_ranked_words(self.refused)
        yield from (f"not ranked: {reason}" for reason in reasons[:_MOST_REASONS])
        if len(reasons) > _MOST_REASONS:
            more = len(reasons) - _MOST_REASONS
            yield f"others are not ranked for {more} more reason{'s' * (more > 1)}: --json has them"
        choices = answer["recipe_choices"]
        if choices and not (record := ChoiceRecord(**choices)).is_poor:
            yield record.words(judged_on(answer["pass"]))
        yield origin_words(answer)
        if self.costs:
            yield ""
            yield Table([asdict(c) | {"recipe": name} for name, c in self.costs.items()], _COSTS)
            yield next(iter(self.costs.values())).basis


def _evidence(point: Record) -> str:
    """What was measured of a recipe at a shape or near it."""
    what = "linear" if point["op"] == "linear" else "product"
    off = " (a probe of the fit)" if BY_NAME[point["op"]].role == "probe" else ""
    if point["predicted_s"] is not None:
        off = f" (predicted {point['predicted_s'] / point['measured_s'] - 1:+.1%})"
    doublings = point["distance_doublings"]
    away = f"{doublings:.1f} doublings away" if doublings else "at this shape"
    if 0 < doublings < 0.05:
        away = "less than 0.1 doublings away"
    repeat = ", a repeat," if point["repeat"] else ""
    return filled(
        f"measured {away}: the {{recipe}} {what} {{m}} x {{n}} x {{k}}{repeat} in "
        f"{{measured_s:time}}{off}",
        point,
    )


def recommend(adviser: Adviser, shape: Shape, prices: Prices | None = None) -> Recommendation:
    """The advice on one linear beside what was measured nearby; prices: costs are asked for."""
    advice, decision, choices = decided_advice(adviser, shape)
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
        "recipes": adviser.recipes,
        "min_db": adviser.min_db,
        "decision": record_of(decision, {}),
        "options": [_record(option) for option in advice.options],
        "equal_recipes": advice.equals,
        "refused": dict(advice.refused),
        "left_out": dict(advice.left_out),
        "recipe_choices": asdict(choices) if choices else None,
        "fastest_by_m": adviser.fastest_by_m(shape),
        **({"energy": {name: asdict(cost) for name, cost in costs.items()}} if costs else {}),
    }
    return Recommendation(
        device=sources.device,
        model=model,
        environment=sources.environment,
        options=advice.options,
        refused=advice.refused,
        left_out=advice.left_out,
        decision=decision,
        costs=costs,
        answer=answer,
    )


def _record(option: RecipeTime) -> dict[str, Any]:
    return record_of(option, _KEYS) | {"extrapolated": option.extrapolated_doublings > 0}


def advise_csv(path: Path, adviser: Adviser) -> ManyAnswers:
    """The fastest option of every row of a file with columns m, n, k.

    A row for which no option can be ranked has none, and the reason in `refused`. Raises CsvError
    naming file, line and column of up to 20 mistakes.
    """
    shapes = [shape for _, shape in read_shapes(path, "mnk")]
    rows: list[dict[str, Any]] = []
    for shape, advice in zip(shapes, adviser.advices(shapes), strict=True):
        if isinstance(advice, PredictError):
            rows.append({**shape, "refused": str(advice)})
            continue
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
