"""Predictions of one point and of a CSV, and the messages for points that have none."""

import csv
import math
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from roofcal.ask.advice_text import measured_evidence
from roofcal.ask.measured import measured_points, point_key
from roofcal.ask.points import PredictedTime, check_point, predict_csv, predict_point, recipe_named
from roofcal.ask.shape_limits import joined_refusals
from roofcal.core.csv_files import CsvError
from roofcal.core.records import PlanPoint
from roofcal.models.errors import PredictError
from roofcal.ops import BY_NAME
from roofcal.ops.predictions import GROWTH, MOST_DOUBLINGS
from roofcal.ops.time_models import Sources
from tests.roofcal.ask.published_run import PUBLISHED, published_sources
from tests.roofcal.models.runs import SOURCES, SPEC, product


def written(folder: Path, text: str) -> Path:
    path = folder / "points.csv"
    path.write_text(text)
    return path


def test_a_csv_gets_the_same_answers_as_single_points(tmp_path: Path) -> None:
    text = "n,recipe,k,m,note\n4096,bf16,8192,16,a\n512,fp8_tensorwise,512,512,b\n"
    path = written(tmp_path, text)
    rows = list(csv.DictReader(StringIO(str(predict_csv(path, "calibrated", SOURCES)))))
    for row, point in zip(
        rows, [product(16, 4096, 8192), product(512, 512, 512, "fp8_tensorwise")], strict=True
    ):
        alone = predict_point(point, "calibrated", SOURCES)
        assert float(row["predicted_s"]) == pytest.approx(alone.seconds, rel=1e-5)
        assert float(row["predicted_low_s"]) == pytest.approx(alone.low_s, rel=1e-5)
        assert row["bound_by"] == alone.bound_by
        assert int(row["m"]) == point.shape["m"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recipe,m,n\nbf16,1,1\n", r":1: column k is missing; the header has recipe, m, n"),
        ("recipe,M,N,K\nbf16,1,1,1\n", r"did you mean m by 'M'\?; did you mean n by 'N'\?"),
        ("recipes,m,n,k\nbf16,1,1,1\n", r"did you mean recipe by 'recipes'\?"),
        ("recipe,m,n,k\n", "has no rows"),
        ("", "column recipe, m, n, k is missing"),
        ("recipe,m,n,k\nbf16,1,2\n", ":2: has 3 values"),
        (
            "recipe,m,n,k\nbf61,1,2,3\n",
            r":2: unknown recipe 'bf61' of op gemm; did you mean 'bf16'\?",
        ),
        (
            "recipe,m,n,k\nint4_groupwise_g64,1,2,3\n",
            ":2: unknown recipe 'int4_groupwise_g64' of op gemm; --op mixed_gemm has it",
        ),
        ("op,recipe,m,n,k\nlinear,bf16,1,2,3\n", ":2: op='linear', and .* for --op gemm"),
        ("world_size,recipe,m,n,k\n2,bf16,1,2,3\n", ":2: world_size='2', and .*--world-size 1"),
        ("recipe,m,n,k\nbf16,0,2,3\n", r":2: m='0' is not a whole number from 1 to 2\^30"),
        ("recipe,m,n,k\nbf16,1.5,2,3\n", ":2: m='1.5' is not"),
        ("recipe,m,n,k\nbf16,-1,2,3\n", ":2: m='-1' is not"),
        ("recipe,m,n,k\nbf16,many,2,3\n", ":2: m='many' is not"),
        ("recipe,m,n,k\nbf16,1073741825,2,3\n", ":2: m='1073741825' is not"),
        (f"recipe,m,n,k\nbf16,1{'0' * 400},2,3\n", ":2: m='10000"),
        (f"recipe,m,n,k\nbf16,{'1' * 5000},2,3\n", ":2: m='11111"),
        (
            f"recipe,m,n,k\n{'x' * 140_000},1,2,3\n",
            ":2: is not CSV",
        ),
        ("recipe,m,n,k\n\n\nbf16,0,2,3\n", ":4: m='0' is not"),
    ],
)
def test_a_bad_csv_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CsvError, match=message):
        predict_csv(written(tmp_path, text), "calibrated", SOURCES)


@pytest.mark.parametrize(
    ("op", "world_size", "rows"),
    [
        ("linear", 1, [("bf16", 4096, 4096, 4096), ("rowwise", 4096, 8192, 4096)]),
        ("mixed_gemm", 1, [("int4_groupwise_g128", 16, 4096, 4096)]),
        ("cast", 1, [("fp8_rowwise_dim0", 4096, 4096)]),
        ("all_gather_matmul", 2, [("fp8_axiswise", 4096, 8192, 8192)]),
    ],
)
def test_a_csv_of_any_op_gets_the_answers_of_its_op(
    tmp_path: Path, op: str, world_size: int, rows: list[tuple[str, int]]
) -> None:
    axes = BY_NAME[op].axes
    lines = [("recipe", *axes), *rows]
    path = written(tmp_path, "".join(",".join(map(str, line)) + "\n" for line in lines))
    sources = published_sources()
    text = predict_csv(path, "calibrated", sources, op=op, world_size=world_size)
    for row, (recipe, *sizes) in zip(csv.DictReader(StringIO(str(text))), rows, strict=True):
        point = PlanPoint(
            op=op,
            provider="",
            recipe=recipe_named(recipe, BY_NAME[op].recipes),
            shape=dict(zip(axes, sizes, strict=True)),
            device="nvidia-h200",
            world_size=world_size,
        )
        alone = predict_point(point, "calibrated", sources)
        assert float(row["predicted_s"]) == pytest.approx(alone.seconds, rel=1e-5)
        assert (row["recipe"], row["provider"]) == (point.recipe, alone.provider)
        assert [int(row[axis]) for axis in axes] == sizes


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"op": "gem"}, "unknown op 'gem'; did you mean 'gemm'"),
        ({"provider": "tritn"}, "unknown provider 'tritn' of op gemm; did you mean 'triton'"),
        ({"world_size": 2}, "op gemm runs on one device"),
        ({"op": "all_gather_matmul"}, "runs on several devices; give --world-size 2 or more"),
    ],
)
def test_what_all_rows_share_is_refused_once(
    tmp_path: Path, asked: dict[str, Any], says: str
) -> None:
    path = written(tmp_path, "recipe,m,n,k\nbf16,64,64,64\nbf16,64,64,64\n")
    with pytest.raises(PredictError, match=says):
        predict_csv(path, "calibrated", SOURCES, **asked)


@pytest.mark.parametrize(
    ("op", "recipe", "says"),
    [
        ("gemm", "fp8", "did you mean 'fp8_tensorwise' or .*'fp8_axiswise'.*'fp8_blockwise_128x1"),
        ("linear", "fp8", "did you mean 'fp8_tensorwise' or 'fp8_axiswise' or"),
        ("cast", "rowwise", "did you mean 'fp8_rowwise_dim0' or"),
        ("gemm", "int4_groupwise_g64", "--op mixed_gemm has it"),
        ("gemm", "int4", r"did you mean 'int4_groupwise_g32' or .* \(with --op mixed_gemm\)"),
        ("gemm", "int4_groupwise_g256", r"did you mean 'int4_groupwise.* \(with --op mixed_gemm\)"),
        ("linear", "int8", "--op gemm has it"),
        ("mixed_gemm", "mxfp8", "--op linear, --op norm_linear_sigmoid and 1 more have it"),
        (
            "cast",
            "fp8_axiswise",
            "did you mean 'fp8_rowwise_dim0' or 'fp8_rowwise_dim1' "
            "or 'fp8_rowwise_both'.; --op gemm, --op mixed_gemm and 4 more have it",
        ),
    ],
)
def test_an_unknown_recipe_names_those_that_may_be_meant_and_their_op(
    op: str, recipe: str, says: str
) -> None:
    with pytest.raises(PredictError, match=f"unknown recipe '{recipe}' of op {op}; {says}"):
        check_point(PlanPoint(op=op, provider="", recipe=recipe, shape={}, device="d"))


def test_mistakes_are_reported_together_up_to_twenty(tmp_path: Path) -> None:
    path = written(tmp_path, "recipe,m,n,k\n" + "bf16,0,0,0\n" * 50)
    with pytest.raises(CsvError) as caught:
        predict_csv(path, "calibrated", SOURCES)
    lines = str(caught.value).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "... and 130 more"


def test_a_csv_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_bytes("recipe,m,n,k\nb\u00e9,1,1,1\n".encode("latin-1"))
    with pytest.raises(CsvError, match=r"points\.csv:2: is not UTF-8"):
        predict_csv(path, "calibrated", SOURCES)


def test_a_csv_of_a_spreadsheet_is_read(tmp_path: Path) -> None:
    # byte order mark, spaces behind commas, line ends of Windows, blank lines
    path = written(tmp_path, "recipe,m,n,k\nbf16,16,64,64\n")
    plain = predict_csv(path, "calibrated", SOURCES).text()
    text = "\ufeffrecipe, m, n , k\r\nbf16, 16, 64, 64\r\n\r\n,,,\r\n"
    assert predict_csv(written(tmp_path, text), "calibrated", SOURCES).text() == plain


def test_a_missing_csv_is_named(tmp_path: Path) -> None:
    with pytest.raises(CsvError, match=r"nowhere\.csv: cannot be read"):
        predict_csv(tmp_path / "nowhere.csv", "calibrated", SOURCES)


def test_every_model_answers() -> None:
    times = {
        model: predict_point(product(4096, 4096, 4096), model, SOURCES).seconds
        for model in ("datasheet", "torchao", "wave", "calibrated")
    }
    assert times["datasheet"] < times["torchao"] < times["calibrated"]
    assert times["datasheet"] < times["wave"]


def test_a_model_that_needs_a_datasheet_message_which_file_is_missing() -> None:
    with pytest.raises(PredictError, match=r"config/devices/made-up\.yaml"):
        predict_point(product(64, 64, 64), "datasheet", Sources())
    with pytest.raises(PredictError, match=r"made-up\.yaml has no section 'wave'"):
        predict_point(product(64, 64, 64), "wave", Sources(spec=SPEC))


def test_an_unknown_op_or_recipe_is_suggested() -> None:
    with pytest.raises(PredictError, match="did you mean 'gemm'"):
        check_point(PlanPoint(op="gem", provider="", recipe="bf16", shape={}, device="d"))
    with pytest.raises(PredictError, match="did you mean 'fp8_axiswise'"):
        check_point(product(1, 1, 1, "fp8_axswise"))


def test_a_recipe_that_was_not_calibrated_lists_those_that_were() -> None:
    with pytest.raises(PredictError, match="it knows the products bf16, fp8_tensorwise"):
        predict_point(product(64, 64, 64, "int8"), "calibrated", SOURCES)


def test_the_answer_for_programs_is_in_si_units() -> None:
    point = product(4096, 4096, 4096)
    told = predict_point(point, "calibrated", SOURCES)
    answer = told.answer
    flops_per_s = 2 * 4096**3 / told.seconds
    assert answer["predicted_flops_per_s"] == pytest.approx(flops_per_s)
    assert (answer["provider"], answer["extrapolated"]) == ("cublaslt", False)
    assert answer["environment"] == "e1"


def test_a_provider_that_was_not_calibrated_is_named_with_those_that_were() -> None:
    with pytest.raises(PredictError, match=r"bf16 by triton on made-up: it knows .* by cublaslt"):
        predict_point(product(64, 64, 64, provider="triton"), "calibrated", SOURCES)


K_4095 = {"m": 4096, "n": 4096, "k": 4095}


@pytest.mark.parametrize("model", ["calibrated", "datasheet", "torchao", "wave"])
def test_a_shape_that_every_provider_refuses_has_no_answer_but_the_nearest_that_works(
    model: str,
) -> None:
    point = replace(product(1, 1, 1, "fp8_tensorwise", ""), shape=K_4095)
    with pytest.raises(PredictError, match=r"got k=4095; the nearest that works: k=4080 or 4096"):
        predict_point(point, model, SOURCES)


def test_a_shape_that_one_provider_refuses_is_answered_for_another() -> None:
    both = published_sources()
    point = replace(product(4096, 4095, 4096, "fp8_axiswise", ""), device="nvidia-h200")
    answer = predict_point(point, "calibrated", both)
    assert answer.provider == "triton"
    assert list(answer.refused) == ["cublaslt"]
    with pytest.raises(PredictError, match=r"cublaslt takes fp8_axiswise with n in multiples"):
        predict_point(replace(point, provider="cublaslt"), "calibrated", both)


def test_a_row_that_every_provider_refuses_has_the_reason_and_others_their_times(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, "recipe,m,n,k\nfp8_tensorwise,1,64,4095\nbf16,1,64,4095\n")
    refused, answered = csv.DictReader(StringIO(str(predict_csv(path, "calibrated", SOURCES))))
    assert refused["predicted_s"] == ""
    assert "the nearest that works: k=4080 or 4096" in refused["refused"]
    assert float(answered["predicted_s"]) > 0
    assert answered["provider"] == "cublaslt"


def test_no_row_that_is_refused_has_a_time_for_any_op_and_model(tmp_path: Path) -> None:
    """By every provider of the op with the recipe, and without a provider."""
    bad = {"gemm": (64, 64, 4095), "linear": (64, 64, 4095), "all_gather_matmul": (64, 64, 4095)}
    for op, sizes in bad.items():
        path = written(tmp_path, f"recipe,m,n,k\nfp8_axiswise,{','.join(map(str, sizes))}\n")
        world_size = 2 if op == "all_gather_matmul" else 1
        takes_any = {*BY_NAME[op].partial, "torch_cpu", "gloo_then_gemm"}
        for provider in ("", *BY_NAME[op].every_provider):
            if provider in takes_any or (op, provider) == ("linear", "bf16_compile"):
                continue
            for model in ("calibrated", "datasheet", "torchao", "wave"):
                text = predict_csv(
                    path, model, published_sources(), provider, op=op, world_size=world_size
                )
                (row,) = csv.DictReader(StringIO(str(text)))
                assert row["predicted_s"] + row["predicted_low_s"] + row["predicted_high_s"] == ""
                assert "got k=4095" in row["refused"]


def test_a_gather_is_answered_for_the_provider_that_takes_its_columns() -> None:
    point = replace(published_point("all_gather_matmul", "fp8_axiswise", 4096, 2), provider="")
    point = replace(point, shape={"m": 4096, "n": 4095, "k": 4096})
    answer = predict_point(point, "calibrated", published_sources())
    assert answer.provider == "symm_mem_fused"
    assert list(answer.refused) == ["nccl_then_gemm", "torch_fused", "gemm_only"]
    with pytest.raises(PredictError, match="gemm takes fp8_axiswise with n in multiples of 16"):
        predict_point(replace(point, provider="nccl_then_gemm"), "calibrated", published_sources())


def test_the_fastest_provider_is_named_with_its_probability_and_what_such_choices_cost() -> None:
    point = replace(product(4096, 4096, 4096, "fp8_axiswise", ""), device="nvidia-h200")
    answer = predict_point(point, "calibrated", published_sources(), PUBLISHED)
    named = [
        predict_point(replace(point, provider=name), "calibrated", published_sources())
        for name in (answer.provider, *answer.slower)
    ]
    times = [one.seconds for one in named]
    assert times == sorted(times)
    assert answer.seconds == times[0]
    assert answer.fastest_probability is not None
    assert 0.5 < answer.fastest_probability < 0.9
    assert answer.choices is not None
    assert answer.choices.points >= 25
    assert answer.choices.right >= 0.62 * answer.choices.points
    assert answer.choices.mean_regret < 0.0265


def test_a_shape_outside_of_the_probes_is_extrapolated_with_a_wider_interval() -> None:
    def relative_width(m: int) -> tuple[float | None, float]:
        point = replace(product(m, 8192, 8192), device="nvidia-h200", provider="cublaslt")
        answer = predict_point(point, "calibrated", published_sources(), PUBLISHED)
        assert answer.high_s is not None
        return answer.extrapolated_doublings, answer.high_s / answer.seconds

    (inside, narrow), (outside, wide) = relative_width(4096), relative_width(1 << 20)
    assert inside == 0
    assert outside is not None
    assert outside > 5
    assert wide == pytest.approx(narrow ** (1 + GROWTH * MOST_DOUBLINGS))


def test_a_kind_of_shape_that_was_not_probed_is_named_and_less_sure() -> None:
    def answered(n: int) -> PredictedTime:
        point = replace(product(4096, n, 4096, "fp8_axiswise", ""), device="nvidia-h200")
        return predict_point(replace(point, provider="triton"), "calibrated", published_sources())

    aligned, off = answered(4096), answered(4097)
    assert aligned.unprobed == ()
    (words,) = off.unprobed
    assert words.startswith("gemm fp8_axiswise by triton with rows of A, B or C off 16 bytes")
    assert words.endswith("(the nearest aligned: n=4096 or 4104)")
    widths = [math.log((a.high_s or 0) / a.seconds) for a in (aligned, off)]
    assert widths[1] > 2 * widths[0]
    assert off.answer["unprobed"] == [words]
    assert "no probe is of this kind: gemm fp8_axiswise by triton" in str(off)


def test_a_shape_far_outside_has_no_95_percent_interval() -> None:
    point = replace(product(1, 1, 1), device="nvidia-h200", provider="cublaslt")
    answer = predict_point(point, "calibrated", published_sources())
    text = str(answer)
    assert "95 %" not in text
    assert re.search(r"extrapolated far outside: \d{2}\.\d doublings", text)


@pytest.mark.parametrize("model", ["calibrated", "datasheet"])
def test_a_product_that_does_not_fit_the_memory_has_no_answer(model: str) -> None:
    point = replace(product(1 << 30, 1 << 30, 64), device="made-up")
    with pytest.raises(PredictError, match=r"does not fit made-up: .* memory has 141"):
        predict_point(point, model, SOURCES)


def test_every_answer_says_whose_it_is() -> None:
    for model in ("datasheet", "torchao", "wave"):
        assert predict_point(product(64, 64, 64, provider=""), model, SOURCES).provider == "any"
    anyone = product(64, 64, 64, provider="")
    assert predict_point(anyone, "calibrated", SOURCES).provider == "cublaslt"


def published_point(op: str, recipe: str, m: int, world_size: int = 1) -> PlanPoint:
    shape = {"m": m, "n": 8192, "k": 8192}
    return PlanPoint(
        op=op, provider="", recipe=recipe, shape=shape, device="nvidia-h200", world_size=world_size
    )


@pytest.mark.parametrize(
    ("op", "recipe", "provider", "world_size"),
    [
        ("linear", "fp8_axiswise", "triton", 1),
        ("all_gather_matmul", "bf16", "symm_mem_fused", 2),
    ],
)
def test_an_op_made_of_others_names_its_provider_and_no_bound(
    op: str, recipe: str, provider: str, world_size: int
) -> None:
    point = published_point(op, recipe, 4096, world_size)
    answer = predict_point(point, "calibrated", published_sources(), PUBLISHED)
    named = replace(point, provider=answer.provider)
    same = predict_point(named, "calibrated", published_sources(), PUBLISHED)
    assert answer.provider != "gemm_only"
    assert answer.provider == provider
    assert same.seconds == answer.seconds


def test_a_linear_with_a_part_outside_of_its_probes_is_extrapolated() -> None:
    few, many = (
        predict_point(
            published_point("linear", "fp8_axiswise", m),
            "calibrated",
            published_sources(),
            PUBLISHED,
        )
        for m in (4096, 1 << 20)
    )
    assert few.extrapolated_doublings == 0
    assert many.extrapolated_doublings is not None
    assert many.extrapolated_doublings > 4


def test_providers_that_have_the_recipe_and_refuse_alike_share_a_sentence() -> None:
    point = replace(published_point("linear", "fp8_axiswise", 4096), shape=K_4095)
    with pytest.raises(PredictError) as caught:
        predict_point(point, "calibrated", published_sources())
    assert str(caught.value) == (
        "triton, triton_products and torchao take fp8_axiswise with k in multiples of 16, "
        "got k=4095; the nearest that works: k=4080 or 4096"
    )


def test_a_kernel_for_more_tokens_is_no_refusal_of_few() -> None:
    few = PlanPoint(
        op="mixed_gemm",
        provider="",
        recipe="int4_groupwise_g128",
        shape={"m": 16, "n": 28672, "k": 8192},
        device="nvidia-h200",
    )
    sources = replace(published_sources(), spec=SPEC)
    assert predict_point(few, "datasheet", sources).refused == {}
    named = replace(few, provider="triton_specialised")
    with pytest.raises(PredictError, match="with m of 17 and more, got 16"):
        predict_point(named, "datasheet", sources)


def test_refusals_for_other_reasons_stay_apart() -> None:
    reasons = {"a": "a takes r with k", "b": "b takes r with n", "c": "c takes r with k"}
    assert joined_refusals(reasons) == ["a and c take r with k", "b takes r with n"]


def test_the_text_of_a_cast_has_no_rate_of_operations() -> None:
    cast = published_point("cast", "fp8_tensorwise", 1)
    cast = replace(cast, shape={"rows": 8192, "cols": 8192})
    texts = [
        str(predict_point(point, "calibrated", sources))
        for point, sources in (
            (cast, published_sources()),
            (product(4096, 4096, 4096), SOURCES),
        )
    ]
    assert ["TFLOP/s" in text for text in texts] == [False, True]
    assert all(" TB/s" in text for text in texts)


def test_what_was_measured_at_the_shape_stands_beside_the_prediction() -> None:
    point = PlanPoint(
        op="mixed_gemm", provider="triton_chained", recipe="int4_groupwise_g128",
        shape={"m": 16, "n": 3584, "k": 8192}, device="nvidia-h200",
    )  # fmt: skip
    (measured,) = [
        one
        for one in measured_points(PUBLISHED, "mixed_gemm")
        if (one.provider, one.recipe, one.shape) == (point.provider, point.recipe, point.shape)
    ]
    answer = predict_point(point, "calibrated", published_sources(), PUBLISHED)
    record = answer.answer
    assert record["measured_s"] == measured.median_s
    assert (record["measured_low_s"], record["measured_high_s"]) == (
        measured.low_s,
        measured.high_s,
    )
    said = "measured at this shape: 8.404 us (95 %: 8.359 us to 8.449 us), predicted +14.1%"
    assert said in str(answer)

    elsewhere = replace(point, shape={"m": 17, "n": 3584, "k": 8192})
    answer = predict_point(elsewhere, "calibrated", published_sources(), PUBLISHED)
    record = answer.answer
    assert record["measured_s"] is None
    assert "measured at this shape" not in str(answer)


def test_what_was_measured_counts_whichever_sweep_measured_it() -> None:
    point = product(256, 28672, 8192, provider="cublaslt")
    answer = predict_point(point, "calibrated", published_sources(), PUBLISHED)
    medians = [
        one.median_s
        for op in ("gemm", "mixed_gemm")
        for one in measured_points(PUBLISHED, op)
        if (one.provider, one.recipe, one.shape) == ("cublaslt", point.recipe, point.shape)
    ]
    assert len(set(medians)) == 2
    assert answer.measured is not None
    assert answer.measured.median_s == median(medians)
    key = point_key("gemm", "cublaslt", point.recipe, point.shape)
    assert answer.measured == measured_evidence(PUBLISHED).by_key[key]


def test_a_formula_is_refused_by_providers_that_have_the_recipe() -> None:
    point = PlanPoint(op="mixed_gemm", provider="", recipe="int4_groupwise_g128",
                      shape={"m": 8, "n": 64, "k": 65}, device="nvidia-h200")  # fmt: skip
    with pytest.raises(PredictError) as caught:
        predict_point(point, "datasheet", Sources(spec=SPEC))
    providers = str(caught.value).partition(" take int4")[0]
    assert providers == "triton, triton_chained, triton_specialised, tinygemm and gemlite"
