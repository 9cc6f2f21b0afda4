"""A language model in every recipe side by side, on the same GPUs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from roofcal.ask.advice import Ends, is_toss_up, style_of, toss_up_words
from roofcal.ask.answers import Answer, Column, Part, Record, Table, Verdict, filled
from roofcal.ask.llm.architecture import RECIPES
from roofcal.ask.llm.deployment import Deployment
from roofcal.ask.llm.estimate import BATCH_COLUMNS, Estimate, estimate, notes_of_all
from roofcal.ask.llm.sweep import with_smallest_cut
from roofcal.models.errors import PredictError
from roofcal.ops.time_models import Sources

_COLUMNS = (
    Column("recipe", "{recipe}", left=True),
    Column("request", "{request_s:time}"),
    Column("95 %", "{request_low_s:.3g} to {request_high_s:.3g} s"),
    Column("over bf16", "{speedup_over_bf16:.2f}x"),
    *BATCH_COLUMNS[1:],
    Column("largest batch", "{largest_batch}"),
)


@dataclass(frozen=True, kw_only=True)
class RecipeComparison(Answer):
    """Estimates of one deployment by recipe, bf16 first, and which recipe serves it fastest.

    refused      recipe -> why it has no estimate
    fewest_gpus  recipe -> the fewest GPUs that hold it
    """

    estimates: Mapping[str, Estimate]
    refused: Mapping[str, str]
    fewest_gpus: Mapping[str, int]

    def rows(self) -> list[dict[str, Any]]:
        """A row per recipe. request_s: from first to last token; speed-ups are of that time."""
        baseline = self.estimates["bf16"].all_tokens.value_s
        return [
            one.record
            | one.interval("request", one.all_tokens)
            | {"speedup_over_bf16": baseline / one.all_tokens.value_s}
            for one in self.estimates.values()
        ]

    @property
    def decision(self) -> dict[str, Any]:
        """The recipe of the shortest request, and those that its interval does not tell from it."""
        rows = sorted(self.rows(), key=lambda row: row["request_s"])
        best, *others = rows

        def ends(row: Record) -> Ends:
            return row["request_s"], row["request_low_s"], row["request_high_s"]

        toss_ups = [
            row for row in others if is_toss_up(ends(best), ends(row), is_next=row is others[0])
        ]
        bf16 = self.estimates["bf16"]
        return {
            "recipe": best["recipe"],
            "speedup_over_bf16": best["speedup_over_bf16"],
            "casts_included": True,
            "first_token_speedup": bf16.first_token.value_s / best["first_token_s"],
            "decode_speedup": bf16.decode.total.value_s / best["decode_step_s"],
            "toss_up_with": [row["recipe"] for row in toss_ups],
            "toss_up_within": (
                toss_ups[-1]["request_s"] / best["request_s"] - 1 if toss_ups else None
            ),
        }

    @property
    def answer(self) -> dict[str, Any]:
        """The decision, a record per recipe without operators, and why others have none."""
        return {
            "decision": self.decision,
            "recipes": self.rows(),
            "refused": dict(self.refused),
            "fewest_gpus": dict(self.fewest_gpus),
        }

    def parts(self) -> Iterator[Part]:
        """The verdict, a line per recipe, and what the estimates assume."""
        decision, first = self.decision, self.estimates["bf16"]
        what, aside = "Keep bf16: no recipe ranked here is faster", list[str]()
        if decision["recipe"] != "bf16":
            what = filled("Use {recipe}: {speedup_over_bf16:.2f}x bf16", decision)
            parts = "first token {first_token_speedup:.2f}x, each further {decode_speedup:.2f}x"
            aside.append(filled(parts, decision))
        if decision["toss_up_with"]:
            aside.append(toss_up_words(decision["toss_up_with"], decision["toss_up_within"]))
        certainty = f" ({'; '.join(aside)})" if aside else ""
        counted = "from first to last token, casts included"
        yield Verdict(f"{what} {counted}{certainty}; `advise` has the accuracy.")
        gpus = first.deployment.gpus
        why = ", the fewest GPUs that hold it in bf16" if gpus == self.fewest_gpus["bf16"] else ""
        yield first.where.replace(" in bf16", "") + why
        yield f"batch {first.deployment.batch}, {first.load}"
        yield ""
        yield Table(self.rows(), _COLUMNS, lambda row: style_of(row, decision["recipe"]))
        for fewest in sorted({count for count in self.fewest_gpus.values() if count < gpus}):
            names = [name for name, count in self.fewest_gpus.items() if count == fewest]
            yield (
                f"{fewest} GPU{'s' * (fewest > 1)} would hold it in {', '.join(names)}: ask with "
                f"--recipe {names[0]} instead of --compare, --tp and --pp for its times there"
            )
        yield from (f"no {recipe}: {why}" for recipe, why in self.refused.items())
        yield ""
        yield from notes_of_all(list(self.estimates.values()))


def compare_recipes(deployment: Deployment, sources: Sources, by: str) -> RecipeComparison:
    """A deployment in each of RECIPES on its GPUs.

    Raises PredictError where bf16, which others are compared with, has no estimate.
    """
    estimates = {"bf16": estimate(replace(deployment, recipe="bf16"), sources, by)}
    refused = {}
    for recipe in RECIPES[1:]:
        try:
            estimates[recipe] = estimate(replace(deployment, recipe=recipe), sources, by)
        except PredictError as error:
            refused[recipe] = str(error)
    fewest = {
        recipe: with_smallest_cut(one.deployment, sources, by).gpus
        for recipe, one in estimates.items()
    }
    return RecipeComparison(estimates=estimates, refused=refused, fewest_gpus=fewest)
