"""Advice on linears: sums of parts, ranks, what is refused, and that its first is the fastest."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofcal.ask.advice import Recommendation, advise_csv, recommend
from roofcal.ask.advise import Advice, Adviser, RecipeTime
from roofcal.ask.answers import span
from roofcal.ask.measured import ChoiceRecord, choice_record, measured_points
from roofcal.core.devices import load_device
from roofcal.core.recipes import RECIPES
from roofcal.core.records import PlanPoint
from roofcal.core.units import format_seconds
from roofcal.models.calibrations import read_calibration
from roofcal.models.errors import PredictError
from roofcal.models.registry import model_named, predict_points
from roofcal.ops.linear.model import PARTS_SHARE, PASSES, Linear, Passes, Weights, linear_times
from roofcal.ops.time_models import Sources
from tests.paths import ROOT
from tests.roofcal.ask.published_run import PUBLISHED, published_sources

CALIBRATED = model_named("calibrated")
ADVISER = Adviser(CALIBRATED, published_sources(), "forward", "cached")
BY_KEY = measured_points(PUBLISHED)
MEASURED = Adviser(CALIBRATED, published_sources(), "forward", "cached", BY_KEY)
TRAINING = Adviser(CALIBRATED, published_sources(), "forward_backward", "cast", BY_KEY)
H200 = Sources(spec=load_device(ROOT / "config/devices/nvidia-h200.yaml"))
DATASHEET = Adviser(model_named("datasheet"), H200, "forward", "cached")


def linear(m: int = 4096, n: int = 28672, k: int = 8192) -> dict[str, int]:
    return {"m": m, "n": n, "k": k}


def advice(
    m: int = 4096,
    n: int = 28672,
    k: int = 8192,
    passes: Passes = "forward",
    weights: Weights = "cached",
) -> Advice:
    adviser = Adviser(CALIBRATED, published_sources(), passes, weights)
    (answer,) = adviser.advise([linear(m, n, k)])
    return answer


def recommended(asked: dict[str, int], adviser: Adviser = MEASURED) -> Recommendation:
    return recommend(adviser, asked)


def asked(**wanted: Any) -> Adviser:
    usual = {"passes": "forward", "weights": "cached", "measured": BY_KEY}
    return Adviser(CALIBRATED, published_sources(), **usual | wanted)


def option_of(answer: Advice, recipe: str, products_by: str, casts_by: str) -> RecipeTime:
    wanted = recipe, products_by, casts_by
    found = [o for o in answer.options if (o.recipe, o.products_by, o.casts_by) == wanted]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("passes", PASSES)
def test_an_option_takes_as_long_as_the_linear_of_break_even(passes: Passes) -> None:
    parts = Linear(recipe="fp8_tensorwise", passes=passes, casts="torch_compile", weights="cast")
    sizes = (np.array([4096.0]) for _ in "mnk")
    expected = linear_times(CALIBRATED, published_sources(), parts, *sizes)
    answer = advice(4096, 4096, 4096, passes=passes, weights="cast")
    option = option_of(answer, "fp8_tensorwise", "cublaslt", "torch_compile")
    assert option.seconds == pytest.approx(expected.total[0])
    assert expected.high is not None
    assert option.high_s == pytest.approx(expected.high[0])


def test_where_all_options_are_far_outside_of_their_probes_the_nearest_are_ranked() -> None:
    assert advice(1 << 20).options[0].extrapolated_doublings > 2


def test_what_a_provider_refuses_is_said_with_the_nearest_size() -> None:
    answer = advice(4096, 4096, 4095)
    assert {*answer.best_by_recipe} <= {"bf16", "fp8_weight_only"}
    reasons = " ".join(answer.refused.values())
    assert "cublaslt takes fp8_axiswise with k in multiples of 16, got k=4095" in reasons
    backward = advice(4095, 4096, 4096, passes="forward_backward", weights="cast")
    assert any("grad_weight" in why for why in backward.refused.values())
    (by_formula,) = DATASHEET.advise([linear(64, 100, 65)])
    assert "fp8_axiswise" not in by_formula.best_by_recipe
    reason = by_formula.refused["fp8_axiswise by any, casts by any"]
    assert reason.startswith("cublaslt takes fp8_axiswise with n in multiples of 16, k in ")
    assert "; triton takes fp8_axiswise with k in multiples of 16, got k=65" in reason
    assert by_formula.unranked["int8"].startswith("only its products are known, not the casts")


@pytest.mark.parametrize(
    ("wanted", "shape", "recipe", "why"),
    [
        ({}, linear(4096), "fp8_weight_only", "6.4 doublings outside the probed range"),
        ({}, linear(3, 100, 100), "fp8_axiswise", "triton needs k in multiples of 16, got k=100; "),
        ({}, linear(), "int8", "no product was calibrated on nvidia-h200"),
        ({"weights": "cast"}, linear(16), "int4_groupwise_g64", "packed weights serve inference "),
        ({"names": ["bf16", "fp8"], "min_db": 25}, linear(), "int4_groupwise_g64", "not asked for"),
    ],
)  # fmt: skip
def test_every_recipe_is_ranked_or_left_out_or_has_a_reason_in_the_text(
    wanted: dict[str, Any], shape: dict[str, int], recipe: str, why: str
) -> None:
    answer = recommended(shape, asked(**wanted))
    ranked = {*answer.best_by_recipe}
    assert {*answer.unranked, *answer.left_out} | ranked >= {*RECIPES}
    assert not ({*answer.unranked} | {*answer.left_out}) & ranked
    assert answer.unranked[recipe].startswith(why)
    words = str(answer).split()
    for name in (*answer.unranked, *answer.left_out):
        assert {name, f"{name},", f"{name}:"} & {*words}


def test_more_tokens_change_the_recipe_and_the_stretches_cover_the_linear() -> None:
    stretches = ADVISER.fastest_by_m(linear(300))
    assert (stretches[0]["first_m"], stretches[-1]["last_m"]) == (1, 1 << 17)
    assert len({stretch["recipe"] for stretch in stretches}) > 1
    assert all(0.0 < stretch["least_probability"] <= 1.0 for stretch in stretches)
    (own,) = [one for one in stretches if one["first_m"] <= 300 <= one["last_m"]]
    assert own["recipe"] == advice(300).options[0].recipe
    asked = linear(16, 3584, 8192)  # a measured shape splits no stretch
    assert MEASURED.fastest_by_m(asked) == ADVISER.fastest_by_m(asked)


def test_recipes_are_ranked_by_name_or_family_alone_against_bf16() -> None:
    everything = recommended(linear())
    fp8 = recommended(linear(), asked(names=["fp8", "rowwise"]))
    assert {o.recipe for o in fp8.options} == {
        o.recipe for o in everything.options if o.recipe.startswith("fp8")
    }
    assert fp8.best.seconds == everything.best_by_recipe[fp8.best.recipe].seconds
    assert fp8.decision.speedup_over_bf16 == fp8.best.speedup_over_bf16
    assert (fp8.best.speedup_over_bf16 or 0) > 1
    assert sum(option.probability or 0.0 for option in fp8.options) == pytest.approx(1)
    assert all(name.startswith("fp8") for name in fp8.refused)
    assert all(one["recipe"].startswith("fp8") for one in fp8.answer["fastest_by_m"])


def test_an_m_at_which_the_recipes_asked_for_cannot_be_ranked_is_in_no_stretch() -> None:
    int4 = asked(names=["int4"])
    stretches = recommended(linear(16), int4).answer["fastest_by_m"]
    assert stretches[0]["first_m"] == 1
    assert 16 <= stretches[-1]["last_m"] < 1 << 17
    m = 1 << 17
    with pytest.raises(
        PredictError,
        match=rf"for {m}x\d+x\d+: int4_\w+ \([\d.]+\), int4.*: over 2 doublings farther ",
    ):
        recommended(linear(m), int4)


def test_recipes_below_an_accuracy_or_without_one_are_left_out_and_named() -> None:
    few = linear(16)
    everything, some = recommended(few), recommended(few, asked(min_db=25.0))
    accurate = {o.recipe for o in everything.options if (o.output_db or 0.0) >= 25}
    assert {option.recipe for option in some.options} == accurate
    assert "int4_groupwise_g128" in some.left_out
    assert {stretch["recipe"] for stretch in some.answer["fastest_by_m"]} <= accurate
    assert "left out, accuracy below 25 dB or unknown: " in some.text(1000)
    with pytest.raises(PredictError, match=r"bf16 \(unknown\)"):
        datasheet = model_named("datasheet")
        recommended(few, Adviser(datasheet, H200, "forward", "cached", min_db=1.0))


def test_on_measured_linears_the_first_is_hardly_slower_than_the_fastest() -> None:
    record = choice_record(measured_points(PUBLISHED, "linear").values(), among="recipes")
    assert record is not None
    assert record.points == 6
    assert record.right >= 1
    assert record.mean_regret < 0.05


def test_accuracy_and_the_nearest_measured_points_stand_beside_the_time() -> None:
    record = recommended(linear(16)).answer
    assert json.loads(json.dumps(record)) == record
    by_recipe = {option["recipe"]: option for option in reversed(record["options"])}
    assert by_recipe["bf16"]["output_db"] > 50
    assert 25 < by_recipe["fp8_axiswise"]["output_db"] < 32
    assert by_recipe["int4_groupwise_g128"]["output_db"] < 22
    nearest = by_recipe["int4_groupwise_g128"]["nearest_measured"][0]
    assert (nearest["m"], nearest["distance_doublings"]) == (16, 0)


def test_measured_points_beside_the_time_are_shown_once_and_of_what_is_asked() -> None:
    adviser = Adviser(CALIBRATED, published_sources(), "forward_backward", "cached", BY_KEY)
    text = str(recommended(linear(8192, 8192, 8192), adviser))
    lines = [line for line in text.splitlines() if line.startswith("measured ")]
    assert len(lines) == 2
    recipe = lines[0].split()[5]
    assert lines[0].startswith(
        f"measured at this shape: the {recipe} product 8192 x 8192 x 8192 in"
    )
    assert f" away: the {recipe} product " in lines[1], (
        "weights are cached, so no linear that casts them"
    )


def test_a_csv_has_the_fastest_option_of_every_row(tmp_path: Path) -> None:
    path = tmp_path / "shapes.csv"
    path.write_text("k,m,n\n8192,4096,28672\n8192,16,28672\n")
    answers = advise_csv(path, ADVISER)
    header, first, second = str(answers).splitlines()
    assert header.startswith(
        "m,n,k,recipe,products_by,casts_by,time_s,time_low_s,time_high_s,source,"
    )
    assert first.startswith(f"4096,28672,8192,{advice().options[0].recipe},")
    assert second.startswith("16,28672,8192,int4")
    # a row that cannot be ranked has its reason and no answer
    int4 = Adviser(CALIBRATED, published_sources(), "forward", "cached", names=("int4",))
    refused, ranked = advise_csv(path, int4).answer
    assert str(ranked["recipe"]).startswith("int4")
    assert ranked["refused"] is None
    assert (refused["recipe"], refused["time_s"]) == (None, None)
    assert "4096x28672x8192" in refused["refused"]


def test_a_kernel_for_more_tokens_is_no_refusal_of_few() -> None:
    (h100,) = (PUBLISHED.folder.parent.parent / "nvidia-h100-sxm").glob("*/calibration.jsonl")
    sources = Sources(calibration=read_calibration(h100, "nvidia-h100-sxm"))
    adviser = Adviser(CALIBRATED, sources, "forward", "cached")
    few, many = adviser.advise([linear(m=16), linear(m=17)])
    assert "int4_groupwise_g128 by triton_specialised" not in few.refused
    assert "triton_specialised" not in {option.products_by for option in few.options}
    larger = option_of(many, "int4_groupwise_g128", "triton_specialised", "none")
    assert larger.seconds > 0


def test_a_model_that_knows_nothing_is_refused() -> None:
    with pytest.raises(PredictError, match="knows no products of linears here"):
        Adviser(CALIBRATED, Sources(), "forward", "cached").advise([linear()])


INT4 = [p for p in measured_points(PUBLISHED, "mixed_gemm").values() if "int4" in p.recipe]


def test_what_was_measured_at_the_shape_counts_and_the_prediction_stands_beside_it() -> None:
    asked = linear(16, 3584, 8192)
    answer, predicted = recommended(asked), recommended(asked, ADVISER)
    assert predicted.best.recipe == "int4_groupwise_g128"
    assert {option.source for option in predicted.options} == {"predicted"}
    first = answer.best
    (row,) = [p for p in INT4 if p.shape == asked and p.recipe == "int4_groupwise_g128"
              and p.provider == "triton_chained"]  # fmt: skip
    assert (first.recipe, first.products_by) == ("int4_groupwise_g128", "triton_chained")
    assert (first.seconds, first.low_s, first.high_s) == (row.median_s, row.low_s, row.high_s)
    assert first.predicted_s == pytest.approx(row.predicted_s)
    assert first.recipe_probability == pytest.approx(1.0)
    record = answer.answer["options"][0]
    assert (record["source"], record["measured"]) == ("measured", ["product"])
    assert (record["time_s"], record["predicted_s"]) == (row.median_s, first.predicted_s)
    line = next(line for line in str(answer).splitlines() if line.startswith(first.recipe))
    columns = re.split(r"\s{2,}", line)
    assert columns[1:3] == [format_seconds(row.median_s), span(row.low_s, row.high_s)]
    said = f"measured (predicted {format_seconds(first.predicted_s)})"
    assert said in answer.text(1000)
    assert "measured (predicted" not in predicted.text(1000)


def test_a_measured_product_is_joined_with_a_predicted_cast() -> None:
    asked, name = linear(16, 3584, 8192), ("fp8_blockwise_128x128", "triton", "triton")
    (answer,), (predicted,) = MEASURED.advise([asked]), ADVISER.advise([asked])
    joined, alone = option_of(answer, *name), option_of(predicted, *name)
    product = BY_KEY["product", "triton", "fp8_blockwise_128x128", 16, 3584, 8192]
    cast = predict_points(
        CALIBRATED,
        [PlanPoint(op="cast", provider="triton", recipe="fp8_blockwise_1x128", device="",
                   shape={"rows": 16, "cols": 8192})],
        published_sources(),
    )[0]  # fmt: skip
    assert joined.source == "product measured"
    stated = joined.predicted_s, joined.predicted_low_s, joined.predicted_high_s
    assert stated == (alone.seconds, alone.low_s, alone.high_s)
    assert cast.high_s is not None
    assert joined.seconds == pytest.approx(product.median_s + cast.total_s)
    assert joined.high_s == pytest.approx(product.high_s + cast.high_s)


def test_measured_products_of_training_count_as_between_each_other() -> None:
    """All three products of a square have its shape, and no linear with cached weights is known."""
    adviser = Adviser(CALIBRATED, published_sources(), "forward_backward", "cached", BY_KEY)
    (answer,) = adviser.advise([linear(4096, 4096, 4096)])
    option = option_of(answer, "bf16", "cublaslt", "none")
    product = BY_KEY["product", "cublaslt", "bf16", 4096, 4096, 4096]
    assert option.measured == ("product", "grad_input", "grad_weight")
    assert option.seconds == pytest.approx(3 * PARTS_SHARE * product.median_s)
    assert option.predicted_s != pytest.approx(option.seconds)


def test_a_linear_that_was_measured_as_a_whole_takes_that_time() -> None:
    asked = linear(4096, 4096, 4096)
    answer = recommended(asked, TRAINING)
    option = option_of(answer, "fp8_tensorwise", "cublaslt", "triton")
    (row,) = [p for p in MEASURED.linears if p.shape == asked
              and (p.provider, p.recipe) == ("triton", "fp8_tensorwise")]  # fmt: skip
    assert row.repeat, "of sentinels alone"
    assert option.source == "measured"
    assert (option.seconds, option.low_s, option.high_s) == (row.median_s, row.low_s, row.high_s)
    assert option.nearest_measured[0]["op"] == "linear"
    assert answer.answer["recipe_choices"]["points"] == 6


def test_equal_recipes_are_called_equal_and_make_no_ladder() -> None:
    answer = recommended(linear(4096, 4096, 4096), DATASHEET)
    text, record = answer.text(1000), answer.answer
    assert (
        "equal by this model: bf16, fp8_weight_only, int4_groupwise_g32, int4_groupwise_g64, "
        "int4_groupwise_g128, int4_groupwise_g64_asymmetric (138.9 us)"
    ) in text
    assert "128 to 131072  fp8_axiswise = fp8_axiswise_slow_accum" in text
    assert text.splitlines()[:2] == [
        "Use fp8_axiswise: 1.74x bf16, casts included (fp8_axiswise_slow_accum is equal by "
        "this model); accuracy not measured.",
        "Weak evidence: this model states no interval.",
    ]
    assert ["fp8_axiswise", "fp8_axiswise_slow_accum"] in record["equal_recipes"]
    assert record["fastest_by_m"][-1]["equals"] == ["fp8_axiswise_slow_accum"]


def test_a_recipe_is_less_sure_where_choices_were_mostly_wrong() -> None:
    usual, poor = MEASURED, asked()
    poor.choices = ChoiceRecord(points=10, right=1, mean_regret=0.1, worst_regret=0.4)
    first, second = (recommended(linear(), adviser) for adviser in (usual, poor))
    assert first.decision.chance is not None
    assert first.decision.chance > 0.1 == second.decision.chance
    assert second.decision.likelier == first.decision.likelier, "a poor record names no other"
    assert all(
        option.probability <= option.recipe_probability
        for option in second.options
        if option.probability is not None and option.recipe_probability is not None
    )
    rows = [recommended.answer["fastest_by_m"] for recommended in (first, second)]
    least = [min(row["least_probability"] for row in of_m) for of_m in rows]
    assert least[0] > 0.1 == least[1]
    assert "right for 1 of 10 measured products" in " ".join(second.decision.weak_because)
