"""What advice on linears comes to: one recipe with how sure that is, a table, a CSV of many."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from roofcal.ask.advise import Advice, Adviser, RecipeTime, left_out_words, unranked_words
from roofcal.ask.answers import (
    WEIGHTS_WORDS,
    Answer,
    Column,
    ManyAnswers,
    Part,
    Record,
    Style,
    Table,
    Verdict,
    filled,
    origin_words,
    record_of,
    span,
)
from roofcal.ask.energy import Prices, TokenCost, token_cost
from roofcal.ask.linear_options import BASELINE
from roofcal.ask.measured import ChoiceRecord
from roofcal.ask.shape_limits import FAR, unprobed_words
from roofcal.core.csv_files import read_shapes
from roofcal.core.units import format_seconds
from roofcal.models.errors import PredictError
from roofcal.ops import BY_NAME
from roofcal.ops.spec import Shape

# A recipe that takes longer by more is slower, however wide the intervals are.
MOST_APART: Final = 0.10
# Of the upper half of an interval: nearly who is at least half as likely to be the fastest, which a
# page cannot draw.
NEAR: Final = 0.25
TOSS_UP_WORDS: Final = "a toss-up with {names}, {percent} % slower"
TOSS_UPS_WORDS: Final = "a toss-up with {names}, at most {percent} % slower"
NEXT_WORDS: Final = "the next, {name}, takes {percent} % longer"
Ends = tuple[float, float | None, float | None]  # seconds, and the ends of their interval


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The recipe to use for a linear; its time, and what it is compared with, include casts.

    Attributes:
        recipe: the fastest; bf16 where no other is faster.
        speedup_over_bf16: None where bf16 has no time.
        chance: the probability that it is the fastest; None for a model without intervals.
        toss_up_with: recipes that cannot be told apart from it, the fastest first.
        toss_up_within: how much longer the slowest of them takes, a fraction; None without any.
        likelier: the recipe that is likelier to be the fastest although its time is longer,
            because it is less certain or more providers offer it; None without one.
        next_recipe, next_slower: the next in time, and how much longer it takes; None without any.
        output_db, bf16_output_db: signal to noise; None where nobody measured it.
        weak_because: why the evidence is weak, in words; empty where it is not.
    """

    recipe: str
    speedup_over_bf16: float | None
    casts_included: bool = True
    chance: float | None
    toss_up_with: tuple[str, ...]
    toss_up_within: float | None
    likelier: str | None
    next_recipe: str | None
    next_slower: float | None
    output_db: float | None
    bf16_output_db: float | None
    weak_because: tuple[str, ...]

    def sentences(self) -> Iterator[str]:
        """The decision, and why its evidence is weak."""
        what = f"Use {self.recipe}: the fastest, casts included; bf16 has no time here"
        if self.recipe == BASELINE:
            what = f"Keep {BASELINE}: no recipe ranked here is faster, casts included"
        elif self.speedup_over_bf16 is not None:
            what = f"Use {self.recipe}: {self.speedup_over_bf16:.2f}x {BASELINE}, casts included"
        aside = [] if self.chance is None else [f"fastest with P {self.chance:.2f}"]
        if self.next_recipe is None:
            aside = ["no other recipe is ranked"]
        if self.toss_up_within is not None:
            aside.append(toss_up_words(self.toss_up_with, self.toss_up_within))
        elif self.next_slower is not None:
            percent = slower_percent(self.next_slower)
            aside.append(NEXT_WORDS.format(name=self.next_recipe, percent=percent))
        aside += [f"{self.likelier} has a higher P"] if self.likelier else []
        if self.speedup_over_bf16 is not None and self.speedup_over_bf16 < 1:
            aside.append(f"{BASELINE}, which is not ranked, is faster")
        accuracy = "accuracy not measured"
        if self.output_db is not None:
            accuracy = f"accuracy {self.output_db:.1f} dB"
            if self.recipe != BASELINE and self.bf16_output_db is not None:
                accuracy += f", {BASELINE} {self.bf16_output_db:.1f}"
        certainty = f" ({'; '.join(aside)})" if aside else ""
        yield f"{what}{certainty}; {accuracy}."
        if self.weak_because:
            yield f"Weak evidence: {'; '.join(self.weak_because)}."


def decided_advice(adviser: Adviser, shape: Shape) -> tuple[Advice, Decision, ChoiceRecord | None]:
    """The advice on a linear with what was measured nearby, what it comes to, and the choices.

    Raises PredictError where nothing can be ranked.
    """
    (advice,) = adviser.advise([shape])
    options = tuple(adviser.with_evidence(option, shape) for option in advice.options)
    advice = replace(advice, options=options)
    choices = adviser.choices
    bf16_db = adviser.output_db(BASELINE, shape)
    ranked = list(advice.best_by_recipe.values())
    return advice, decide(ranked, bf16_db, choices, judged_on(adviser.passes)), choices


def judged_on(passes: str) -> str:
    """What the record of choices is of: linears are measured forward and backward alone."""
    return "products" if passes == "forward" else "linears"


def is_toss_up(fastest: Ends, other: Ends, *, is_next: bool) -> bool:
    """Whether a recipe cannot be told from the fastest; the shape box of a page asks the same.

    It takes at most MOST_APART longer. The next in time is a toss-up if one of the two intervals
    holds the other's time, a further one if its time is within NEAR of the fastest's interval.
    Without intervals only equal times cannot be told apart.
    """
    (seconds, _, high_s), (longer, low_s, _) = fastest, other
    if high_s is None or low_s is None:
        return longer <= seconds
    is_held = longer <= high_s or low_s <= seconds
    is_near = longer <= seconds + NEAR * (high_s - seconds)
    return longer <= seconds * (1 + MOST_APART) and (is_near or (is_next and is_held))


def slower_percent(fraction: float) -> int:
    """How much longer a recipe takes, in whole percent of at least 1."""
    return max(1, round(100 * fraction))


def style_of(row: Record, best: str) -> Style:
    """How the row of a recipe is shown: the best recipe, and times that are extrapolated."""
    if row["recipe"] == best:
        return "best"
    return "dim" if row["extrapolated"] else ""


def toss_up_words(names: Sequence[str], within: float) -> str:
    """Which recipes cannot be told apart; within: how much longer they take, a fraction."""
    *others, last = names
    listed = f"{', '.join(others)} and {last}" if others else last
    if not within:
        return f"{listed} {'are' if others else 'is'} equal by this model"
    words = TOSS_UPS_WORDS if others else TOSS_UP_WORDS
    return words.format(names=listed, percent=slower_percent(within))


def decide(
    ranked: Sequence[RecipeTime],
    bf16_output_db: float | None,
    choices: ChoiceRecord | None,
    judged_on: str,
) -> Decision:
    """The decision among the fastest options of all recipes, the fastest first, at least one.

    Which others are a toss-up with it says `is_toss_up`. Of recipes of equal time bf16 is used.

    bf16_output_db: the accuracy of bf16. choices: how good predicted choices were on measured
    points, which `judged_on` names.
    """
    equals = [one for one in ranked if math.isclose(one.seconds, ranked[0].seconds)]
    best = next((one for one in equals if one.recipe == BASELINE), ranked[0])
    others = [one for one in ranked if one is not best]

    def ends(one: RecipeTime) -> Ends:
        return one.seconds, one.low_s, one.high_s

    toss_ups = [
        one
        for place, one in enumerate(others)
        if one in equals or is_toss_up(ends(best), ends(one), is_next=place == 0)
    ]
    weak = []
    if doublings := best.extrapolated_doublings:
        guess = ", a guess" if doublings > FAR else ""
        weak.append(f"extrapolated by {doublings:.1f} doublings{guess}")
    if best.unprobed:
        weak.append("no probe is of this kind")
    if best.recipe_probability is None:
        weak.append("this model states no interval")
    elif choices and choices.is_poor:
        weak.append(choices.words(judged_on))
    # A poor record lowers the chance of the fastest alone: it is no reason to name another recipe.
    rivals = () if choices and choices.is_poor else others
    likeliest = max((best, *rivals), key=lambda one: one.recipe_probability or 0.0)
    slower = [0.0 if one in equals else one.seconds / best.seconds - 1 for one in toss_ups]
    return Decision(
        recipe=best.recipe,
        speedup_over_bf16=best.speedup_over_bf16,
        chance=best.recipe_probability,
        toss_up_with=tuple(one.recipe for one in toss_ups),
        toss_up_within=max(slower, default=None),
        likelier=None if likeliest is best else likeliest.recipe,
        next_recipe=others[0].recipe if others else None,
        next_slower=others[0].seconds / best.seconds - 1 if others else None,
        output_db=best.output_db,
        bf16_output_db=bf16_output_db,
        weak_because=tuple(weak),
    )


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


_BY_M: Final = (
    Column(
        "M",
        lambda row: " to ".join(dict.fromkeys(f"{row[end]}" for end in ("first_m", "last_m"))),
        left=True,
    ),
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
        unranked: recipe without a ranked option -> the reason.
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
                "to be surer, run `roofcal time {m}x{n}x{k}` in a clone on that card", answer
            )
        if answer["left_out"]:
            yield left_out_words(answer["min_db"], answer["left_out"])
        yield from (f"not ranked: {reason}" for reason in unranked_words(self.unranked))
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
        "unranked": dict(advice.unranked),
        "left_out": dict(advice.left_out),
        "recipe_choices": asdict(choices) if choices else None,
        "fastest_by_m": adviser.fastest_by_m(shape),
        **({"energy": {name: asdict(cost) for name, cost in costs.items()}} if costs else {}),
    }
    return Recommendation(
        **vars(advice),
        device=sources.device,
        model=model,
        environment=sources.environment,
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
