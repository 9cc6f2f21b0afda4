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

from roofcal.ask.measured import measured_by_key, measured_points, point_key
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


def answered(
    path: Path, sources: Sources = SOURCES, model: str = "calibrated", **asked: Any
) -> list[dict[str, str]]:
    """The rows of the CSV that answers a CSV."""
    text = str(predict_csv(path, model, sources, **asked))
    return list(csv.DictReader(StringIO(text)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recipe,m,n\nbf16,1,1\n", r":1: column k is missing; the header has recipe, m, n"),
        ("recipe,M,N,K\nbf16,1,1,1\n", r"did you mean m by 'M'\?; did you mean n by 'N'\?"),
        ("recipes,m,n,k\nbf16,1,1,1\n", r"did you mean recipe by 'recipes'\?"),
        ("recipe,m,n,k\n", "has no rows"),
        ("", "column recipe, m, n, k is missing"),
        ("recipe,m,n,k\nbf16,1,2\n", ":2: has 3 values"),
        ("recipe,m,n,k\nbf61,1,2,3\n",
         r":2: unknown recipe 'bf61' of op gemm; did you mean 'bf16'\?"),
        ("recipe,m,n,k\nint4_groupwise_g64,1,2,3\n",
         ":2: unknown recipe 'int4_groupwise_g64' of op gemm; --op mixed_gemm has it"),
        ("op,recipe,m,n,k\nlinear,bf16,1,2,3\n", ":2: op='linear', and .* for --op gemm"),
        ("world_size,recipe,m,n,k\n2,bf16,1,2,3\n", ":2: world_size='2', and .*--world-size 1"),
        *((f"recipe,m,n,k\nbf16,{m},2,3\n", f":2: m='{m[:5]}") for m in
          ("0", "1.5", "-1", "many", "1073741825", f"1{'0' * 400}", "1" * 5000)),
        (f"recipe,m,n,k\n{'x' * 140_000},1,2,3\n", ":2: is not CSV"),
        ("recipe,m,n,k\n\n\nbf16,0,2,3\n", r":4: m='0' is not a whole number from 1 to 2\^30"),
        ("recipe,m,n,k\n" + "bf16,0,0,0\n" * 50, r"(.*\n){20}\.\.\. and 130 more$"),
        ("recipe,m,n,k\nb\xe9,1,1,1\n", r"points\.csv:2: is not UTF-8"),
        (None, r"points\.csv: cannot be read"),
    ],
)  # fmt: skip
def test_a_bad_csv_is_named_with_its_line(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "points.csv"
    if text is not None:
        path.write_bytes(text.encode("latin-1"))
    with pytest.raises(CsvError, match=message):
        predict_csv(path, "calibrated", SOURCES)


def test_a_csv_of_a_spreadsheet_is_read(tmp_path: Path) -> None:
    # byte order mark, spaces behind commas, line ends of Windows, blank lines, other columns
    plain = answered(written(tmp_path, "recipe,m,n,k\nbf16,16,64,64\n"))
    text = "\ufeffnote, m, n , k,recipe\r\nx, 16, 64, 64,bf16\r\n\r\n,,,,\r\n"
    assert answered(written(tmp_path, text)) == plain


@pytest.mark.parametrize(
    ("op", "world_size", "rows"),
    [
        ("gemm", 1, [("bf16", 4096, 4096, 4096), ("rowwise", 16, 8192, 4096)]),
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
    found = answered(path, sources, op=op, world_size=world_size)
    for row, (recipe, *sizes) in zip(found, rows, strict=True):
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
        assert float(row["predicted_low_s"]) == pytest.approx(alone.low_s, rel=1e-5)
        assert (row["recipe"], row["provider"]) == (point.recipe, alone.provider)
        assert row["bound_by"] == alone.bound_by
        assert [int(row[axis]) for axis in axes] == sizes


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
        ("cast", "fp8_axiswise", "did you mean 'fp8_rowwise_dim0' or 'fp8_rowwise_dim1' or "
         "'fp8_rowwise_both'.; --op gemm, --op mixed_gemm and 4 more have it"),
    ],
)  # fmt: skip
def test_an_unknown_recipe_names_those_that_may_be_meant_and_their_op(
    op: str, recipe: str, says: str
) -> None:
    with pytest.raises(PredictError, match=f"unknown recipe '{recipe}' of op {op}; {says}"):
        check_point(PlanPoint(op=op, provider="", recipe=recipe, shape={}, device="d"))


H200_INT4 = PlanPoint(op="mixed_gemm", provider="", recipe="int4_groupwise_g128",
                      shape={"m": 8, "n": 64, "k": 65}, device="nvidia-h200")  # fmt: skip
FEW = replace(H200_INT4, shape={"m": 16, "n": 28672, "k": 8192})


@pytest.mark.parametrize(
    ("point", "model", "sources", "says"),
    [
        (product(64, 64, 64), "datasheet", Sources(), r"config/devices/made-up\.yaml"),
        (product(64, 64, 64), "wave", Sources(spec=SPEC), r"up\.yaml has no section 'wave'"),
        (product(64, 64, 64, "int8"), "calibrated", SOURCES, "the products bf16, fp8_tensorwise"),
        (product(64, 64, 64, provider="triton"), "calibrated", SOURCES,
         r"bf16 by triton on made-up: it knows .* by cublaslt"),
        (product(1, 1, 1, "fp8_axswise"), "calibrated", SOURCES, "did you mean 'fp8_axiswise'"),
        (replace(product(1, 1, 1), op="gem"), "calibrated", SOURCES,
         "unknown op 'gem'; did you mean 'gemm'"),
        (product(1, 1, 1, provider="tritn"), "calibrated", SOURCES,
         "unknown provider 'tritn' of op gemm; did you mean 'triton'"),
        (replace(product(1, 1, 1), world_size=2), "calibrated", SOURCES, "runs on one device"),
        (replace(product(1, 1, 1, provider=""), op="all_gather_matmul"), "calibrated", SOURCES,
         "runs on several devices; give --world-size 2 or more"),
        *((product(1 << 30, 1 << 30, 64), model, SOURCES,
           r"does not fit made-up: .* memory has 141") for model in ("calibrated", "datasheet")),
        (replace(FEW, provider="triton_specialised"), "datasheet", Sources(spec=SPEC),
         "with m of 17 and more, got 16"),
        (H200_INT4, "datasheet", Sources(spec=SPEC),
         "^triton, triton_chained, triton_specialised, tinygemm and gemlite take int4"),
    ],
)  # fmt: skip
def test_a_point_without_an_answer_says_why_and_what_there_is(
    point: PlanPoint, model: str, sources: Sources, says: str
) -> None:
    with pytest.raises(PredictError, match=says):
        predict_point(point, model, sources)


def test_what_all_rows_share_is_refused_once(tmp_path: Path) -> None:
    path = written(tmp_path, "recipe,m,n,k\nbf16,64,64,64\nbf16,64,64,64\n")
    for asked in ({"op": "gem"}, {"provider": "tritn"}, {"world_size": 2}):
        with pytest.raises(PredictError):
            answered(path, **asked)


def test_every_model_answers_and_says_whose_it_is() -> None:
    anyone, times = product(4096, 4096, 4096, provider=""), {}
    for model in ("datasheet", "torchao", "wave", "calibrated"):
        answer = predict_point(anyone, model, SOURCES)
        times[model] = answer.seconds
        assert answer.provider == ("cublaslt" if model == "calibrated" else "any")
        rate = 2 * 4096**3 / answer.seconds
        assert answer.answer["predicted_flops_per_s"] == pytest.approx(rate)
    assert predict_point(FEW, "datasheet", Sources(spec=SPEC)).refused == {}
    assert times["datasheet"] < times["torchao"] < times["calibrated"]
    assert times["datasheet"] < times["wave"]


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
                asked = {"provider": provider, "op": op, "world_size": world_size}
                (row,) = answered(path, published_sources(), model, **asked)
                assert row["predicted_s"] + row["predicted_low_s"] + row["predicted_high_s"] == ""
                assert "got k=4095" in row["refused"]


def test_providers_that_refuse_alike_share_a_sentence() -> None:
    point = replace(published_point("linear", "fp8_axiswise", 4096), shape=K_4095)
    with pytest.raises(PredictError) as caught:
        predict_point(point, "calibrated", published_sources())
    assert str(caught.value) == (
        "triton, triton_products and torchao take fp8_axiswise with k in multiples of 16, "
        "got k=4095; the nearest that works: k=4080 or 4096"
    )
    reasons = {"a": "a takes r with k", "b": "b takes r with n", "c": "c takes r with k"}
    assert joined_refusals(reasons) == ["a and c take r with k", "b takes r with n"]


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
    assert answer.slower == ("triton",)
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
    far = replace(product(1, 1, 1), device="nvidia-h200", provider="cublaslt")
    text = str(predict_point(far, "calibrated", published_sources()))
    assert "95 %" not in text
    assert re.search(r"extrapolated: \d{2}\.\d doublings .* treat it as a guess", text)
    linears = [
        predict_point(
            published_point("linear", "fp8_axiswise", m), "calibrated", published_sources()
        )
        for m in (4096, 1 << 20)
    ]
    doublings = [answer.extrapolated_doublings or 0.0 for answer in linears]
    assert doublings[0] == 0
    assert doublings[1] > 4


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
    assert answer.measured == measured_by_key(PUBLISHED)[key]
