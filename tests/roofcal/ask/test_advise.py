"""Advice on linears: sums of parts, ranks, what is refused, and that its first is the fastest."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roofcal.ask.advice_text import advise_csv, advise_point, measured_evidence, recommend
from roofcal.ask.advise import Advice, Adviser, LinearQuestion, Winner, winners_by_m
from roofcal.ask.measured import choice_record, measured_points
from roofcal.core.csv_files import CsvError
from roofcal.core.devices import load_device
from roofcal.core.records import PlanPoint
from roofcal.models.calibrations import read_calibration
from roofcal.models.errors import PredictError
from roofcal.models.registry import model_named, predict_points
from roofcal.ops.linear.model import Linear, Passes, Weights, linear_times
from roofcal.ops.time_models import Sources
from tests.paths import ROOT
from tests.roofcal.ask.published_run import PUBLISHED, published_sources
from tests.roofcal.models.runs import SPEC

H200 = ROOT / "config/devices/nvidia-h200.yaml"
CALIBRATED = model_named("calibrated")
ADVISER = Adviser(CALIBRATED, published_sources())
EVIDENCE = measured_evidence(PUBLISHED)
MEASURED = Adviser(CALIBRATED, published_sources(), EVIDENCE.by_key)
ORIGIN = {"model": "calibrated", "device": "nvidia-h200", "environment": "e"}


def question(
    m: int = 4096,
    n: int = 28672,
    k: int = 8192,
    passes: Passes = "forward",
    weights: Weights = "cached",
) -> LinearQuestion:
    return LinearQuestion(m=m, n=n, k=k, passes=passes, weights=weights)


def advice(m: int = 4096, n: int = 28672, k: int = 8192, **other: str) -> Advice:
    (answer,) = ADVISER.advise([question(m, n, k, **other)])  # type: ignore[arg-type]
    return answer


def test_options_are_ranked_by_time_and_their_probabilities_add_up() -> None:
    answer = advice()
    times = [ranked.total_s for ranked in answer.ranked]
    assert times == sorted(times)
    chances = [ranked.probability for ranked in answer.ranked]
    assert sum(c for c in chances if c is not None) == pytest.approx(1)
    by_recipe = [answer.recipe_probability(r.option.recipe) for r in answer.best_by_recipe]
    assert sum(c for c in by_recipe if c is not None) == pytest.approx(1)
    for ranked in answer.ranked:
        assert ranked.low_s is not None
        assert ranked.high_s is not None
        assert ranked.low_s < ranked.total_s < ranked.high_s


@pytest.mark.parametrize("passes", ["forward", "forward_backward"])
@pytest.mark.parametrize("weights", ["cached", "cast"])
@pytest.mark.parametrize("recipe", ["bf16", "fp8_tensorwise"])
def test_an_option_takes_as_long_as_the_linear_of_break_even(
    passes: Passes, weights: Weights, recipe: str
) -> None:
    casts = "none" if recipe == "bf16" else "torch_compile"
    linear = Linear(recipe=recipe, passes=passes, casts=casts, weights=weights)  # type: ignore[arg-type]
    sizes = (np.array([float(size)]) for size in (4096, 4096, 4096))
    expected = linear_times(CALIBRATED, published_sources(), linear, *sizes)
    (ranked,) = [
        ranked
        for ranked in advice(4096, 4096, 4096, passes=passes, weights=weights).ranked
        if (ranked.option.recipe, ranked.option.casts_by) == (recipe, casts)
        and ranked.option.products_by == "cublaslt"
    ]
    assert ranked.total_s == pytest.approx(expected.total[0])
    assert expected.high is not None
    assert ranked.high_s == pytest.approx(expected.high[0])


def test_packed_weights_serve_inference_alone() -> None:
    def recipes(**other: str) -> set[str]:
        answer = advice(16, 28672, 8192, **other)
        return {ranked.option.recipe for ranked in answer.ranked}

    assert "int4_groupwise_g128" in recipes()
    assert "int4_groupwise_g128" not in recipes(weights="cast")
    assert "int4_groupwise_g128" not in recipes(passes="forward_backward", weights="cast")


def test_an_option_far_outside_of_its_probes_is_not_ranked() -> None:
    answer = advice(4096)
    assert "fp8_weight_only" not in {ranked.option.recipe for ranked in answer.ranked}
    why = answer.refused["fp8_weight_only by torch_compile"]
    assert why.endswith("doublings beyond every probe")
    assert advice(1 << 20).ranked[0].doublings > 2  # where all are far outside, the nearest are


def test_what_a_provider_refuses_is_said_with_the_nearest_size() -> None:
    answer = advice(4096, 4096, 4095)
    assert {ranked.option.recipe for ranked in answer.ranked} <= {"bf16", "fp8_weight_only"}
    reasons = " ".join(answer.refused.values())
    assert "cublaslt takes fp8_axiswise with k in multiples of 16, got k=4095" in reasons
    backward = advice(4095, 4096, 4096, passes="forward_backward", weights="cast")
    assert any("grad_weight" in why for why in backward.refused.values())


def test_a_formula_ranks_what_some_provider_runs() -> None:
    adviser = Adviser(model_named("datasheet"), Sources(spec=load_device(H200)))
    (answer,) = adviser.advise([question(64, 100, 65)])
    assert not any(ranked.option.recipe == "fp8_axiswise" for ranked in answer.ranked)
    reason = answer.refused["fp8_axiswise by any, casts by any"]
    assert reason.startswith("cublaslt takes fp8_axiswise with n in multiples of 16, k in ")
    assert "; triton takes fp8_axiswise with k in multiples of 16, got k=65" in reason


def test_more_tokens_change_the_recipe_and_the_stretches_cover_the_question() -> None:
    winners = winners_by_m(ADVISER, question(300))
    assert winners[0].first_m == 1
    assert winners[-1].last_m == 1 << 17
    assert len({winner.recipe for winner in winners}) > 1
    assert all(0.0 < (winner.least_probability or 0.0) <= 1.0 for winner in winners)
    (own,) = [winner for winner in winners if winner.first_m <= 300 <= winner.last_m]
    assert own.recipe == advice(300).ranked[0].option.recipe


def test_a_measured_shape_splits_no_stretch() -> None:
    asked = question(16, 3584, 8192)
    answer, winners = advise_point(MEASURED, asked)
    assert winners == winners_by_m(ADVISER, asked)
    text = str(recommend(answer, EVIDENCE, winners, ORIGIN))
    assert "by prediction, the fastest recipe by M (and the least probability" in text


def test_a_single_stretch_of_another_recipe_than_the_first_is_named() -> None:
    answer = advice(300)
    first, other = answer.best_by_recipe[0].option.recipe, answer.best_by_recipe[1].option.recipe
    for recipe, says in (
        (first, "by prediction, no other M up to 131072 changes the recipe"),
        (other, f"by prediction, the fastest recipe by M (and the least probability that it is): "
         f"{other} 1 to 131072 (0.50)"),
    ):  # fmt: skip
        winner = Winner(recipe=recipe, equals=(), first_m=1, last_m=1 << 17, least_probability=0.5)
        assert says in str(recommend(answer, EVIDENCE, [winner], ORIGIN))


def test_on_measured_linears_the_first_is_hardly_slower_than_the_fastest() -> None:
    record = choice_record(measured_points(PUBLISHED, "linear"), among="recipes")
    assert record is not None
    assert record.points == 6
    assert record.right >= 2
    assert record.mean_regret < 0.05


def test_accuracy_and_the_nearest_measured_points_stand_beside_the_time() -> None:
    answer, winners = advise_point(ADVISER, question(16))
    record = recommend(answer, EVIDENCE, winners, ORIGIN).answer
    assert json.loads(json.dumps(record)) == record
    by_recipe = {option["recipe"]: option for option in reversed(record["options"])}
    assert by_recipe["bf16"]["output_db"] > 50
    assert 25 < by_recipe["fp8_axiswise"]["output_db"] < 32
    assert by_recipe["int4_groupwise_g128"]["output_db"] < 22
    nearest = by_recipe["int4_groupwise_g128"]["nearest_measured"][0]
    assert (nearest["m"], nearest["distance_doublings"]) == (16, 0)
    text = str(recommend(answer, EVIDENCE, winners, ORIGIN))
    for part in (
        "dB",
        "P(fastest)",
        "by prediction, the fastest recipe by M (and the least probability that it is): int4",
        "measured at this shape: the product 16 x ",
    ):
        assert part in text


def test_forward_and_backward_is_held_against_measured_linears() -> None:
    answer, winners = advise_point(
        ADVISER, question(4096, passes="forward_backward", weights="cast")
    )
    record = recommend(answer, EVIDENCE, winners, ORIGIN).answer
    (measured,) = [
        option
        for option in record["options"]
        if (option["recipe"], option["products_by"], option["casts_by"])
        == ("fp8_tensorwise", "cublaslt", "triton")
    ]
    assert measured["nearest_measured"][0]["op"] == "linear"
    assert record["recipe_choices"]["points"] == 6


@pytest.mark.parametrize("passes", ["forward", "forward_backward"])
def test_measured_points_beside_the_time_are_shown_once_and_of_what_is_asked(
    passes: Passes,
) -> None:
    answer, winners = advise_point(MEASURED, question(8192, 8192, 8192, passes=passes))
    text = str(recommend(answer, EVIDENCE, winners, ORIGIN))
    lines = [line for line in text.splitlines() if line.startswith("measured ")]
    assert len(lines) == 2
    assert lines[0].startswith("measured at this shape: the product 8192 x 8192 x 8192 in 848.6 us")
    assert " away: the product " in lines[1], "weights are cached, so no linear that casts them"


def test_a_model_without_intervals_ranks_without_probabilities() -> None:
    adviser = Adviser(model_named("datasheet"), Sources(spec=SPEC))
    (answer,) = adviser.advise([question()])
    assert answer.ranked[0].probability is None
    assert answer.ranked[0].low_s is None
    assert answer.ranked[0].option.products_by == "any"
    assert "95 %" not in str(recommend(answer, measured_evidence(None), (), ORIGIN))


def test_a_csv_has_the_fastest_option_of_every_row(tmp_path: Path) -> None:
    path = tmp_path / "shapes.csv"
    path.write_text("k,m,n\n8192,4096,28672\n8192,16,28672\n")
    answers = advise_csv(path, ADVISER, "forward", "cached", EVIDENCE)
    header, first, second = str(answers).splitlines()
    assert header.startswith(
        "m,n,k,recipe,products_by,casts_by,time_s,time_low_s,time_high_s,source,"
    )
    assert first.startswith(f"4096,28672,8192,{advice().ranked[0].option.recipe},")
    assert second.startswith("16,28672,8192,int4")
    path.write_text("M,N,K\n1,2,3\n")
    with pytest.raises(CsvError, match=r"did you mean m by 'M'\?"):
        advise_csv(path, ADVISER, "forward", "cached", EVIDENCE)


def test_a_kernel_for_more_tokens_is_no_refusal_of_few() -> None:
    (h100,) = (PUBLISHED.folder.parent.parent / "nvidia-h100-sxm").glob("*/calibration.jsonl")
    adviser = Adviser(CALIBRATED, Sources(calibration=read_calibration(h100, "nvidia-h100-sxm")))
    larger = "int4_groupwise_g128 by triton_specialised"
    few, many = adviser.advise([question(m=16), question(m=17)])
    assert larger not in few.refused
    assert larger not in {ranked.option.name for ranked in few.ranked}
    assert larger in {ranked.option.name for ranked in many.ranked}


def test_a_size_beyond_any_matrix_is_refused() -> None:
    with pytest.raises(PredictError, match=r"m=2147483649 is not a whole number from 1 to 2\^30"):
        advice((1 << 31) + 1)


def test_a_model_that_knows_nothing_says_so() -> None:
    with pytest.raises(PredictError, match="knows no products of linears here"):
        Adviser(CALIBRATED, Sources()).advise([question()])


def test_a_likelier_recipe_than_the_first_is_named() -> None:
    answer = advice()
    first = answer.ranked[0].option.recipe
    own = [r.option.recipe == first for r in answer.ranked]
    sure, doubted = (
        replace(
            answer,
            ranked=tuple(
                replace(r, probability=float(is_first == stated) / own.count(is_first))
                for r, is_first in zip(answer.ranked, own, strict=True)
            ),
        )
        for stated in (True, False)
    )
    said = [str(recommend(one, EVIDENCE, (), ORIGIN)) for one in (doubted, sure)]
    assert f"likelier to be the fastest than {first}" in said[0]
    assert "likelier" not in said[1]


INT4 = [point for point in measured_points(PUBLISHED, "mixed_gemm") if "int4" in point.recipe]
INT4_SHAPES = sorted({tuple(point.shape.values()) for point in INT4})


@pytest.mark.parametrize("shape", INT4_SHAPES, ids=str)
def test_the_first_of_measured_recipes_is_the_one_measured_to_be_the_fastest(
    shape: tuple[int, int, int],
) -> None:
    (answer,) = MEASURED.advise([question(*shape)])
    own = [point for point in EVIDENCE.by_key.values() if tuple(point.shape.values()) == shape]
    measured = [r for r in answer.ranked if r.source == "measured" and "int4" in r.option.recipe]
    least = min(point.median_s for point in own if "int4" in point.recipe)
    assert measured[0].total_s == least
    chances = [ranked.probability for ranked in answer.ranked]
    assert sum(c for c in chances if c is not None) == pytest.approx(1)


def test_what_was_measured_at_the_shape_counts_and_the_prediction_stands_beside_it() -> None:
    asked = question(16, 3584, 8192)
    (answer,), (predicted,) = MEASURED.advise([asked]), ADVISER.advise([asked])
    assert predicted.ranked[0].option.recipe == "int4_groupwise_g32"
    assert {ranked.source for ranked in predicted.ranked} == {"predicted"}
    first = answer.ranked[0]
    (row,) = [p for p in INT4 if p.shape == asked.shape and p.recipe == "int4_groupwise_g128"
              and p.provider == "triton_chained"]  # fmt: skip
    assert first.option.name == "int4_groupwise_g128 by triton_chained"
    assert (first.total_s, first.low_s, first.high_s) == (row.median_s, row.low_s, row.high_s)
    assert first.predicted[0] == pytest.approx(row.predicted_s)
    assert answer.recipe_probability("int4_groupwise_g128") == pytest.approx(1.0)
    record = recommend(answer, EVIDENCE, (), ORIGIN).answer["options"][0]
    assert (record["source"], record["measured"]) == ("measured", ["product"])
    assert (record["time_s"], record["predicted_s"]) == (row.median_s, first.predicted[0])
    header, line, *_ = str(recommend(answer, EVIDENCE, (), ORIGIN)).splitlines()
    assert "source  predicted" in header
    assert "8.404 us  8.359 us to 8.449 us" in line
    assert "measured   9.587 us" in line
    assert "source" not in str(recommend(predicted, EVIDENCE, (), ORIGIN))


def test_a_measured_product_is_joined_with_a_predicted_cast() -> None:
    asked = question(16, 3584, 8192)
    (answer,), (predicted,) = MEASURED.advise([asked]), ADVISER.advise([asked])
    name = "fp8_blockwise_128x128 by triton, casts by triton"
    joined, alone = (
        next(ranked for ranked in each.ranked if ranked.option.name == name)
        for each in (answer, predicted)
    )
    product = EVIDENCE.by_key["product", "triton", "fp8_blockwise_128x128", 16, 3584, 8192]
    cast = predict_points(
        CALIBRATED,
        [PlanPoint(op="cast", provider="triton", recipe="fp8_blockwise_1x128", device="",
                   shape={"rows": 16, "cols": 8192})],
        published_sources(),
    )[0]  # fmt: skip
    assert joined.source == "product measured"
    assert joined.predicted == (alone.total_s, alone.low_s, alone.high_s)
    assert cast.high_s is not None
    assert joined.total_s == pytest.approx(product.median_s + cast.total_s)
    assert joined.high_s == pytest.approx(product.high_s + cast.high_s)


def test_a_linear_that_was_measured_as_a_whole_takes_that_time() -> None:
    asked = question(4096, 4096, 4096, passes="forward_backward", weights="cast")
    (answer,) = MEASURED.advise([asked])
    name = "fp8_tensorwise by cublaslt, casts by triton"
    ranked = next(one for one in answer.ranked if one.option.name == name)
    (row,) = [p for p in EVIDENCE.linears if p.shape == asked.shape
              and (p.provider, p.recipe) == ("triton", "fp8_tensorwise")]  # fmt: skip
    assert row.repeat, "of sentinels alone"
    assert ranked.source == "measured"
    assert (ranked.total_s, ranked.low_s, ranked.high_s) == (row.median_s, row.low_s, row.high_s)


def test_equal_recipes_are_called_equal_and_make_no_ladder() -> None:
    adviser = Adviser(model_named("datasheet"), Sources(spec=load_device(H200)))
    answer, winners = advise_point(adviser, question(4096, 4096, 4096))
    origin = {"model": "datasheet", "device": "nvidia-h200", "environment": None}
    text = str(recommend(answer, measured_evidence(None), winners, origin))
    assert (
        "equal by this model: bf16, fp8_weight_only, int4_groupwise_g32, int4_groupwise_g64, "
        "int4_groupwise_g128, int4_groupwise_g64_asymmetric (138.9 us)"
    ) in text
    assert (
        "the fastest recipe by M: int4_groupwise_g128 1 to 96, fp8_axiswise = "
        "fp8_axiswise_slow_accum 128 to 131072"
    ) in text
    record = recommend(answer, measured_evidence(None), winners, origin).answer
    assert ["fp8_axiswise", "fp8_axiswise_slow_accum"] in record["equal_recipes"]
    assert record["fastest_by_m"][-1]["equals"] == ["fp8_axiswise_slow_accum"]


def test_a_recipe_whose_casts_nobody_knows_is_named() -> None:
    answer = Adviser(model_named("datasheet"), Sources(spec=load_device(H200))).advise([question()])
    assert answer[0].refused["int8"].startswith("only its products are known, not the casts")
