"""Advice on linears as JSON values, as text for people, and as a CSV of many shapes."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from io import StringIO
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
from roofcal.ask.aligned import aligned
from roofcal.ask.beyond_probes import unprobed_text
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
from roofcal.core.csv_files import read_shapes
from roofcal.core.paths import RunFolder
from roofcal.core.units import format_seconds
from roofcal.ops import BY_NAME
from roofcal.ops.linear.model import Passes, Weights
from roofcal.ops.time_models import Sources

_NEAREST: Final = 2
_MOST_REASONS: Final = 3
_LAST_HEADS: Final = ("P(fastest)", "over bf16", "accuracy", "")
_WEIGHTS: Final = {"cached": "weights cast beforehand", "cast": "weights cast each time"}
_COLUMNS: Final = (
    *("m", "n", "k", "recipe", "products_by", "casts_by", "time_s", "time_low_s", "time_high_s"),
    *("source", "predicted_s", "predicted_low_s", "predicted_high_s", "bound_by"),
    *("recipe_fastest_probability", "speedup_over_bf16", "output_db", "extrapolated_doublings"),
    *("unprobed", "second_recipe", "second_s"),
)


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


def as_dict(
    advice: Advice, evidence: MeasuredEvidence, winners: Sequence[Winner], origin: Mapping[str, Any]
) -> dict[str, Any]:
    """Advice as JSON values in SI units; `origin` says model, device and environment."""
    question = advice.question
    return {
        **origin,
        **question.shape,
        "pass": question.passes,
        "weights": question.weights,
        "options": [_option_record(ranked, advice, evidence) for ranked in advice.ranked],
        "equal_recipes": [[one.option.recipe for one in group] for group in advice.equals],
        "refused": dict(advice.refused),
        "recipe_choices": asdict(evidence.choices) if evidence.choices else None,
        "fastest_by_m": [asdict(winner) | {"equals": list(winner.equals)} for winner in winners],
    }


def cost_by_recipe(
    advice: Advice, sources: Sources, prices: Prices, model: str
) -> dict[str, TokenCost]:
    """Recipe -> what a token (a row of x) costs by its fastest option, the fewest joules first."""
    costs = {
        ranked.option.recipe: token_cost(sources, ranked.total_s / advice.question.m, prices, model)
        for ranked in advice.best_by_recipe
    }
    return dict(sorted(costs.items(), key=lambda item: item[1].joules))


def costs_text(costs: Mapping[str, TokenCost]) -> str:
    """A line per recipe, and what the figures are; costs: of one board, at least one."""
    rows = [("recipe", "J per token", "$ per million tokens", "tokens per $")]
    for recipe, cost in costs.items():
        has_price = cost.dollars is not None and cost.tokens_per_dollar is not None
        dollars = (
            (f"{1e6 * (cost.dollars or 0):.3g}", f"{cost.tokens_per_dollar:.3g}")
            if has_price
            else ("", "")
        )
        rows.append((recipe, f"{cost.joules:.3g}", *dollars))
    shown = [column for column in zip(*rows, strict=True) if any(column[1:])]
    first = next(iter(costs.values()))
    label = f"{first.label}: {first.watts:.0f} W, {first.watts_by}"
    return "\n".join(["", *aligned(list(zip(*shown, strict=True)), left=(0,)), label])


def _option_record(
    ranked: RankedOption, advice: Advice, evidence: MeasuredEvidence
) -> dict[str, Any]:
    option, question = ranked.option, advice.question
    predicted_s, predicted_low_s, predicted_high_s = ranked.predicted
    return {
        "recipe": option.recipe,
        "products_by": option.products_by,
        "casts_by": option.casts_by,
        "time_s": ranked.total_s,
        "time_low_s": ranked.low_s,
        "time_high_s": ranked.high_s,
        "source": ranked.source,
        "measured": [part.name for part in ranked.measured],
        "predicted_s": predicted_s,
        "predicted_low_s": predicted_low_s,
        "predicted_high_s": predicted_high_s,
        "bound_by": ranked.bound_by,
        "fastest_probability": ranked.probability,
        "recipe_fastest_probability": advice.recipe_probability(option.recipe),
        "speedup_over_bf16": _speedup(ranked, advice),
        "output_db": evidence.output_db(option.recipe, question),
        "extrapolated": ranked.doublings > 0,
        "extrapolated_doublings": ranked.doublings,
        "unprobed": list(ranked.beyond.unprobed),
        "nearest_measured": [
            {
                **point.shape,
                "op": point.op,
                "distance_doublings": distance(point.shape, question.shape),
                "measured_s": point.median_s,
                "predicted_s": point.predicted_s,
            }
            for point in evidence.nearest_to(ranked, question)
        ],
    }


def as_text(
    advice: Advice, evidence: MeasuredEvidence, winners: Sequence[Winner], origin: Mapping[str, Any]
) -> str:
    """One line per recipe with its fastest providers, then what stands behind the first."""
    lines = [*_table(advice, evidence), "", *_remarks(advice, evidence, winners)]
    question = advice.question
    passes = question.passes.replace("_", " and ")
    described = "its wave description" if origin["model"] == "wave" else "its datasheet"
    lines += [
        f"{passes} of y[{question.m},{question.n}] = x[{question.m},{question.k}] @ "
        f"w[{question.n},{question.k}].T, {_WEIGHTS[question.weights]}",
        f"model {origin['model']}, {origin['device']}, {origin['environment'] or described}",
    ]
    return "\n".join(line.rstrip() for line in lines)


def _table(advice: Advice, evidence: MeasuredEvidence) -> list[str]:
    rows = [("recipe", "products", "casts", "time", "95 %", "source", "predicted", *_LAST_HEADS)]
    has_measured = any(ranked.measured for ranked in advice.best_by_recipe)
    for ranked in advice.best_by_recipe:
        option, chance = ranked.option, advice.recipe_probability(ranked.option.recipe)
        accuracy = evidence.output_db(option.recipe, advice.question)
        speedup = _speedup(ranked, advice)
        interval = ""
        if ranked.low_s is not None and ranked.high_s is not None:
            interval = f"{format_seconds(ranked.low_s)} to {format_seconds(ranked.high_s)}"
        rows.append(
            (
                option.recipe,
                option.products_by,
                option.casts_by,
                format_seconds(ranked.total_s),
                interval,
                ranked.source if has_measured else "",
                format_seconds(ranked.predicted[0]) if ranked.measured else "",
                "" if chance is None else f"{chance:.2f}",
                "" if speedup is None else f"{speedup:.2f}x",
                "" if accuracy is None else f"{accuracy:.1f} dB",
                _reservation(ranked),
            )
        )
    shown = [column for column in zip(*rows, strict=True) if any(column[1:])]
    return aligned(list(zip(*shown, strict=True)), left=range(3))


def _reservation(ranked: RankedOption) -> str:
    """What makes an option less sure than its interval says, for its row."""
    far = ", far outside: a guess" if ranked.beyond.is_far else ""
    extrapolated = f"extrapolated by {ranked.doublings:.1f} doublings{far}"
    words = [extrapolated] * bool(ranked.doublings) + ["no such probe"] * bool(
        ranked.beyond.unprobed
    )
    return ", ".join(words)


def _remarks(
    advice: Advice, evidence: MeasuredEvidence, winners: Sequence[Winner]
) -> Iterator[str]:
    first = advice.ranked[0]
    chances = {
        ranked.option.recipe: advice.recipe_probability(ranked.option.recipe) or 0.0
        for ranked in advice.best_by_recipe
    }
    likeliest = max(chances, key=lambda recipe: chances[recipe])
    if chances[likeliest] > chances[first.option.recipe]:
        yield (
            f"{likeliest} is likelier to be the fastest than {first.option.recipe}, whose time is "
            "the least, because its times are less sure or more providers have it"
        )
    for group in advice.equals:
        equals = ", ".join(ranked.option.recipe for ranked in group)
        yield f"equal by this model: {equals} ({format_seconds(group[0].total_s)})"
    unprobed = dict.fromkeys(
        words for ranked in advice.best_by_recipe for words in ranked.beyond.unprobed
    )
    if unprobed:
        yield unprobed_text(list(unprobed))
    for point in evidence.nearest_to(first, advice.question):
        away = _away(distance(point.shape, advice.question.shape))
        sizes = " x ".join(str(point.shape[axis]) for axis in "mnk")
        what = "linear" if point.op == "linear" else "product"
        yield (
            f"measured {away}: the {what} {sizes} in "
            f"{format_seconds(point.median_s)}{_predicted(point)}"
        )
    if evidence.choices:
        record = evidence.choices
        yield (
            f"on {record.points} measured linears, forward and backward, the recipe predicted to "
            f"be the fastest was so {record.right} times, and {record.mean_regret:.1%} slower than "
            f"the fastest on average, {record.worst_regret:.0%} at worst"
        )
    names = [name for winner in winners for name in (winner.recipe, *winner.equals)]
    if len(winners) == 1 and first.option.recipe in names:
        yield f"by prediction, no other M up to {winners[-1].last_m} changes the recipe"
    elif winners:
        has_chances = all(winner.least_probability is not None for winner in winners)
        least = " (and the least probability that it is)" if has_chances else ""
        yield f"by prediction, the fastest recipe by M{least}: " + ", ".join(map(_stretch, winners))
    reasons = list(dict.fromkeys(advice.refused.values()))
    for reason in reasons[:_MOST_REASONS]:
        names = [name for name, why in advice.refused.items() if why == reason]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"not ranked: {names[0]}{more}: {reason}"
    if len(reasons) > _MOST_REASONS:
        yield f"not ranked for {len(reasons) - _MOST_REASONS} reasons more, which --json has"


def _away(doublings: float) -> str:
    """How far a measured point is from the question."""
    if not doublings:
        return "at this shape"
    return "less than 0.1 doublings away" if doublings < 0.05 else f"{doublings:.1f} doublings away"


def _stretch(winner: Winner) -> str:
    span = f"{winner.first_m} to {winner.last_m}"
    span = f"at {winner.first_m}" if winner.first_m == winner.last_m else span
    chance = "" if winner.least_probability is None else f" ({winner.least_probability:.2f})"
    return f"{' = '.join((winner.recipe, *winner.equals))} {span}{chance}"


def _predicted(point: MeasuredPoint) -> str:
    if point.predicted_s is None:
        return " (a probe of the fit)"
    return f" (predicted {point.predicted_s / point.median_s - 1:+.1%})"


def _speedup(ranked: RankedOption, advice: Advice) -> float | None:
    baseline = [option for option in advice.ranked if option.option.recipe == BASELINE]
    return baseline[0].total_s / ranked.total_s if baseline else None


def advise_csv(
    path: Path, adviser: Adviser, passes: Passes, weights: Weights, evidence: MeasuredEvidence
) -> str:
    """CSV text with the fastest option of every row of a file with columns m, n, k.

    Raises CsvError naming file, line and column of up to 20 mistakes.
    """
    questions = [
        LinearQuestion(**shape, passes=passes, weights=weights)
        for _, shape in read_shapes(path, "mnk")
    ]
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(_COLUMNS)
    for advice in adviser.advise(questions):
        record = as_dict(advice, evidence, (), {})
        best = advice.best_by_recipe
        first = record["options"][0] | {"m": record["m"], "n": record["n"], "k": record["k"]}
        if len(best) > 1:
            first |= {"second_recipe": best[1].option.recipe, "second_s": best[1].total_s}
        table.writerow([_cell(first.get(name)) for name in _COLUMNS])
    return text.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return "; ".join(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def advise_point(adviser: Adviser, question: LinearQuestion) -> tuple[Advice, list[Winner]]:
    """The advice on one linear, and the fastest recipe by M."""
    (advice,) = adviser.advise([question])
    return advice, winners_by_m(adviser, question)
