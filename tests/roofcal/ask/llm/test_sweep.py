"""Cuts of a model over GPUs, its recipes side by side, and the table of all models."""

import csv
from collections.abc import Callable, Mapping
from dataclasses import replace
from io import StringIO

import pytest

from roofcal.ask.llm.deployment import RECIPES
from roofcal.ask.llm.estimate import estimate
from roofcal.ask.llm.sweep import (
    COLUMNS,
    CUTS,
    RecipeComparison,
    Sweep,
    compare_recipes,
    frontier,
    run_table,
    sweep,
    with_smallest_cut,
)
from roofcal.core.devices import DeviceSpec
from roofcal.core.jsonl import write_records
from roofcal.core.language_models import LanguageModel
from roofcal.core.records import Calibration
from roofcal.models.errors import PredictError
from roofcal.ops.time_models import Sources
from tests.roofcal.ask.llm.deployments import LINKED, SOURCES, calibrated, deployment, model
from tests.roofcal.models.runs import SPEC, calibration

QWEN = "qwen3-30b-a3b"
SMALL = {"llama3-8b": model()}
FITTED = calibrated()
Table = Callable[..., list[dict[str, str]]]


@pytest.fixture(scope="module")
def swept() -> Sweep:
    return sweep(deployment("llama3-70b"), SOURCES, "calibrated")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """The rows of the table of a run."""

    def table(
        models: Mapping[str, LanguageModel] = SMALL,
        fitted: Calibration = FITTED,
        spec: DeviceSpec | None = LINKED,
    ) -> list[dict[str, str]]:
        run = tmp_path_factory.mktemp("runs") / "made-up/e1"
        write_records(run / "calibration.jsonl", [fitted])
        read = csv.DictReader(StringIO(run_table(run, run / "calibration.jsonl", spec, models)))
        assert tuple(read.fieldnames or ()) == COLUMNS
        with pytest.raises(PredictError, match="was fitted on made-up, not on other"):
            run_table(run.parent.parent / "other/e1", run / "calibration.jsonl", spec, models)
        return list(read)

    return table


def test_the_smallest_cut_holds_the_model_and_none_of_fewer_gpus_does() -> None:
    cut = with_smallest_cut(deployment("llama3-70b"), SOURCES, "calibrated")
    assert (cut.tensor, cut.pipeline) == (2, 1)
    estimate(cut, SOURCES)
    with pytest.raises(PredictError, match="does not fit 1 x made-up"):
        estimate(deployment("llama3-70b"), SOURCES)


def test_a_device_without_a_link_has_one_gpu(table: Table) -> None:
    alone = replace(SOURCES, spec=SPEC)
    assert with_smallest_cut(deployment(), alone, "datasheet").gpus == 1
    with pytest.raises(PredictError, match=r"no cut of one GPU \(its file states no link"):
        with_smallest_cut(deployment("llama3-70b"), alone, "datasheet")
    assert {row["tensor_parallel"] for row in table(spec=SPEC)} == {"1"}


def test_a_sweep_is_the_estimates_of_its_cuts_and_nothing_beats_its_frontier(swept: Sweep) -> None:
    batches = [answer.deployment.batch for answer in swept.estimates[8, 1]]
    assert batches[:3] == [1, 4, 16]
    assert batches[-1] == swept.estimates[8, 1][-1].memory.largest_batch
    expected = estimate(deployment("llama3-70b", tp=4, pp=2, batch=4), SOURCES)
    assert swept.estimates[4, 2][1] == expected
    assert list(swept.too_large) == [(1, 1)]
    best = frontier(swept.answers)
    for answer in swept.answers:
        assert any(
            other.decode.total.value_s <= answer.decode.total.value_s
            and other.tokens_per_s_per_gpu >= answer.tokens_per_s_per_gpu
            for other in best
        )


def test_what_is_not_on_the_front_is_shown_where_it_is_asked_for(swept: Sweep) -> None:
    def shown(answer: Sweep) -> int:
        starts = (line.split()[:1] for line in str(answer).splitlines())
        return sum(word.isdigit() for words in starts for word in words)

    assert shown(swept) == len(frontier(swept.answers))
    assert shown(replace(swept, shows_all=True)) == len(swept.answers)


def test_the_decision_is_the_most_tokens_at_the_rate_that_a_request_needs(swept: Sweep) -> None:
    most = max(swept.answers, key=lambda answer: answer.tokens_per_s_per_gpu)
    assert swept.best is most
    fastest = frontier(swept.answers)[0]
    asked = replace(swept, min_rate=fastest.request_tokens_per_s.value)
    assert asked.best is fastest
    assert "A request is served fastest by" not in str(asked)
    assert asked.answer["decision"]["decode_step_s"] == fastest.decode.total.value_s
    with pytest.raises(PredictError, match=f"the most is {asked.min_rate:.4g}, --tp"):
        _ = replace(swept, min_rate=2 * fastest.request_tokens_per_s.value).best


def test_the_table_has_a_row_for_every_model_recipe_cut_and_batch_that_fits(table: Table) -> None:
    rows = table({"llama3-70b": model("llama3-70b"), QWEN: model(QWEN)})
    cuts: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for row in rows:
        own = cuts.setdefault((row["model"], row["recipe"]), set())
        own.add((row["tensor_parallel"], row["pipeline_parallel"]))
    assert {key[1] for key in cuts} == {"bf16", "fp8_tensorwise", "int4"}
    few = {("1", "1"), ("2", "1")}  # int4 leaves shards of the experts that no kernel runs
    every = {(str(tensor), str(pipeline)) for tensor, pipeline in CUTS}
    assert all(own == (few if key == (QWEN, "int4") else every) for key, own in cuts.items())
    large, small = (
        [r for r in rows if (r["model"], r["recipe"], r["tensor_parallel"]) == (name, "bf16", "1")]
        for name in ("llama3-70b", QWEN)
    )
    sizes = [int(row["batch"]) for row in small]
    assert sizes == [1, 4, 16, 64, 256, int(small[0]["largest_batch"])]
    expected = estimate(deployment(QWEN, batch=4), SOURCES).decode.total.value_s
    assert float(small[1]["decode_step_s"]) == pytest.approx(expected, rel=1e-5)
    unfit = [(r["fits"], r["batch"], r["largest_batch"], r["decode_step_s"]) for r in large]
    assert unfit == [("no", "1", "0", "")]
    whose = {row["products_by"] for row in rows if row["fits"] == "yes"}
    assert whose == {"cublaslt", "cublaslt (bf16), cublaslt"}


def test_models_without_an_architecture_and_cuts_that_do_not_divide_have_no_row(
    table: Table,
) -> None:
    architecture = model().architecture
    assert architecture is not None
    odd_heads = architecture.model_copy(update={"heads": 33, "kv_heads": 33})
    odd, bare = (model().model_copy(update={"architecture": one}) for one in (odd_heads, None))
    assert {row["tensor_parallel"] for row in table({"x": odd, "y": bare})} == {"1"}


@pytest.mark.parametrize(
    ("fitted", "spec"),
    [(FITTED, None), (calibration(), LINKED), (replace(FITTED, constants={}), LINKED)],
)
def test_a_device_that_cannot_be_timed_has_no_rows(
    fitted: Calibration, spec: DeviceSpec | None, table: Table
) -> None:
    assert table(fitted=fitted, spec=spec) == []


def test_a_sweep_and_the_smallest_cut_leave_refused_cuts_out() -> None:
    swept = sweep(deployment(QWEN, "int4"), SOURCES, "calibrated", 4)
    assert {tensor for tensor, _ in swept.estimates} == {1, 2}
    assert [entry["tensor_parallel"] for entry in swept.answer["refused"]] == [4]
    assert "not timed: --tp 4 leaves 2048 x 192 (n x k) of expert_down" in str(swept)
    large = deployment(QWEN, "int4", batch=1800)
    assert with_smallest_cut(large, SOURCES, "calibrated").tensor <= 2
    with pytest.raises(PredictError, match="no --tp up to 64 fits"):  # 4 would, and is refused
        estimate(replace(large, batch=2000), SOURCES)


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
    compared = compare_recipes(deployment(prompt=8192, output=2), SOURCES, "calibrated")
    assert {*compared.estimates, *compared.refused} == set(RECIPES)
    assert "fp8_axiswise" in compared.refused
    assert f"no fp8_axiswise: {compared.refused['fp8_axiswise']}" in compared.text(1000)
    doubled = replace(compared, estimates={"bf16": compared.estimates["bf16"],
                                        "copy": compared.estimates["bf16"]})  # fmt: skip
    assert doubled.decision["toss_up_with"] == ["bf16"]
    alone = RecipeComparison(
        estimates={"bf16": compared.estimates["bf16"]}, refused={}, fewest_gpus={"bf16": 1}
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
    assert f"1 GPU would hold it in {recipes}: ask with --recipe fp8_tensorwise instead of " in said
    assert set(on_two.answer["fewest_gpus"]) == set(RECIPES)
    on_four = compare_recipes(deployment("llama3-70b", tp=4), Sources(spec=LINKED), "datasheet")
    assert "the fewest GPUs that hold" not in str(on_four)
    assert "2 GPUs would hold it in bf16: " in str(on_four)
