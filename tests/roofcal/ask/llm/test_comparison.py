"""A language model in all recipes side by side, by a datasheet and by made-up constants."""

from dataclasses import replace

from roofcal.ask.llm.architecture import RECIPES
from roofcal.ask.llm.comparison import RecipeComparison, compare_recipes
from roofcal.ask.llm.estimate import estimate
from roofcal.ops.time_models import Sources
from tests.roofcal.ask.llm.deployments import LINKED, SOURCES, deployment

BY_DATASHEET = compare_recipes(deployment(), Sources(spec=LINKED), "datasheet")


def test_rows_are_the_estimates_and_the_decision_is_the_shortest_request() -> None:
    rows = {row["recipe"]: row for row in BY_DATASHEET.rows()}
    assert tuple(rows) == RECIPES
    own = estimate(deployment(recipe="int4"), Sources(spec=LINKED), "datasheet")
    assert rows["int4"].items() >= own.record.items()
    seconds = {recipe: row["request_s"] for recipe, row in rows.items()}
    decision = BY_DATASHEET.decision
    assert seconds[decision["recipe"]] == min(seconds.values())
    assert decision["speedup_over_bf16"] == seconds["bf16"] / min(seconds.values())
    assert (decision["casts_included"], decision["toss_up_with"]) == (True, [])
    assert BY_DATASHEET.answer["decision"] == decision
    first = str(BY_DATASHEET).splitlines()[0]
    assert first.startswith(f"Use int4: {decision['speedup_over_bf16']:.2f}x bf16 from first to ")


def test_what_cannot_be_told_apart_is_a_toss_up_and_what_cannot_be_timed_is_named() -> None:
    found = compare_recipes(deployment(prompt=8192, output=2), SOURCES, "calibrated")
    assert {*found.estimates, *found.refused} == set(RECIPES)
    assert "fp8_axiswise" in found.refused
    assert f"no fp8_axiswise: {found.refused['fp8_axiswise']}" in found.text(1000)
    doubled = replace(found, estimates={"bf16": found.estimates["bf16"],
                                        "copy": found.estimates["bf16"]})  # fmt: skip
    assert doubled.decision["toss_up_with"] == ["bf16"]
    alone = RecipeComparison(
        estimates={"bf16": found.estimates["bf16"]}, refused={}, fewest_gpus={"bf16": 1}
    )
    assert str(alone).startswith(
        "Keep bf16: no recipe ranked here is faster from first to last token, "
    )


def test_it_says_for_which_recipe_the_gpus_were_chosen_and_which_need_fewer() -> None:
    on_two = compare_recipes(deployment("llama3-70b", tp=2), Sources(spec=LINKED), "datasheet")
    assert on_two.fewest_gpus["bf16"] == 2
    said = on_two.text(1000)
    assert "on 2 x made-up (tp 2, pp 1), the fewest GPUs that hold it in bf16\n" in said
    recipes = "fp8_tensorwise, fp8_axiswise, int4"
    assert f"1 GPU would hold it in {recipes}: the same question with --recipe fp8_t" in said
    assert set(on_two.answer["fewest_gpus"]) == set(RECIPES)
    on_four = compare_recipes(deployment("llama3-70b", tp=4), Sources(spec=LINKED), "datasheet")
    assert "the fewest GPUs that hold" not in str(on_four)
    assert "2 GPUs would hold it in bf16: " in str(on_four)
