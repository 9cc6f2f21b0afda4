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

from roofcal.ask.measured import measured_points, point_key
from roofcal.ask.points import (
    PredictedTime,
    checked_point,
    predict_csv,
    predict_point,
    recipe_named,
)
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
        ("recipe,M,N,K\nbf16,1,1,1\n", r"did you mean m by 'M'\?; did you mean n by 'N'\?"),
        ("recipes,m,n,k\nbf16,1,1,1\n", r"did you mean recipe by 'recipes'\?"),
        ("recipe,m,n,k\nbf61,1,2,3\n",
         r":2: unknown recipe 'bf61' of op gemm; did you mean 'bf16'\?"),
        ("recipe,m,n,k\nint4_groupwise_g64,1,2,3\n",
         ":2: unknown recipe 'int4_groupwise_g64' of op gemm; --op mixed_gemm has it"),
        ("op,recipe,m,n,k\nlinear,bf16,1,2,3\n", ":2: op='linear', and .* for --op gemm"),
        ("world_size,recipe,m,n,k\n2,bf16,1,2,3\n", ":2: world_size='2', and .*--world-size 1"),
        *((f"recipe,m,n,k\nbf16,{m},2,3\n", f":2: m='{m[:5]}") for m in
          (f"1{'0' * 400}", "1" * 5000)),
        (f"recipe,m,n,k\n{'x' * 140_000},1,2,3\n", ":2: is not CSV"),
        ("recipe,m,n,k\n\n\nbf16,0,2,3\n", r":4: m='0' is not a whole number from 1 to 2\^30"),
        ("recipe,m,n,k\n" + "bf16,0,0,0\n" * 50, r"(.*\n){20}\.\.\. and 130 more$"),
        ("recipe,m,n,k\nb\xe9,1,1,1\n", r"points\.csv:2: is not UTF-8"),
    ],
)  # fmt: skip
def test_a_bad_csv_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "points.csv"
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
        ("gemm", "int4_groupwise_g64", "--op mixed_gemm has it"),
        ("gemm", "int4", r"did you mean 'int4_groupwise_g32' or .* \(with --op mixed_gemm\)"),
        ("gemm", "int4_groupwise_g256", r"did you mean 'int4_groupwise.* \(with --op mixed_gemm\)"),
        ("mixed_gemm", "mxfp8", "--op linear, --op norm_linear_sigmoid and 1 more have it"),
        ("cast", "fp8_axiswise", "did you mean 'fp8_rowwise_dim0' or 'fp8_rowwise_dim1' or "
         "'fp8_rowwise_both'.; --op gemm, --op mixed_gemm and 4 more have it"),
    ],
)  # fmt: skip
def test_an_unknown_recipe_names_those_that_may_be_meant_and_their_op(
    op: str, recipe: str, says: str
) -> None:
    with pytest.raises(PredictError, match=f"unknown recipe '{recipe}' of op {op}; {says}"):
        checked_point(PlanPoint(op=op, provider="", recipe=recipe, shape={}, device="d"))


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


def test_every_model_answers_and_says_whose_it_is() -> None:
    anyone, times = product(4096, 4096, 4096, provider=""), {}
    for model in ("datasheet", "torchao", "wave", "calibrated"):
        answer = predict_point(anyone, model, SOURCES)
        assert "TFLOP/s" in str(answer)
        times[model] = answer.seconds
        assert answer.provider == ("cublaslt" if model == "calibrated" else "any")
        rate = 2 * 4096**3 / answer.seconds
        assert answer.answer["predicted_flops_per_s"] == pytest.approx(rate)
    assert predict_point(FEW, "datasheet", Sources(spec=SPEC)).refused == {}
    assert times["datasheet"] < times["torchao"] < times["calibrated"]
    assert times["datasheet"] < times["wave"]


def published(
    op: str = "gemm", recipe: str = "bf16", *, provider: str = "", world_size: int = 1, **sizes: int
) -> PredictedTime:
    """The answer of the published H200, with its measured points."""
    usual = {"rows": 4096, "cols": 8192, "m": 4096, "n": 8192, "k": 8192}
    shape = {axis: sizes.get(axis, usual[axis]) for axis in BY_NAME[op].axes}
    point = PlanPoint(
        op=op, provider=provider, recipe=recipe, shape=shape, device="nvidia-h200",
        world_size=world_size,
    )  # fmt: skip
    return predict_point(point, "calibrated", published_sources(), PUBLISHED)


def test_a_shape_that_one_provider_refuses_is_answered_for_another() -> None:
    answer = published("gemm", "fp8_axiswise", n=4095)
    assert (answer.provider, list(answer.refused)) == ("triton", ["cublaslt"])
    with pytest.raises(PredictError, match=r"cublaslt takes fp8_axiswise with n in multiples"):
        published("gemm", "fp8_axiswise", n=4095, provider="cublaslt")
    gathered = published("all_gather_matmul", "fp8_axiswise", n=4095, world_size=2)
    assert gathered.provider == "symm_mem_fused"
    assert list(gathered.refused) == ["nccl_then_gemm", "torch_fused", "gemm_only"]
    with pytest.raises(PredictError, match="gemm takes fp8_axiswise with n in multiples of 16"):
        published(
            "all_gather_matmul", "fp8_axiswise", n=4095, provider="nccl_then_gemm", world_size=2
        )


def test_no_row_that_is_refused_has_a_time_for_any_op_and_model(tmp_path: Path) -> None:
    """By every provider of the op with the recipe, and without a provider."""
    for op in ("gemm", "linear", "all_gather_matmul"):
        path = written(tmp_path, "recipe,m,n,k\nfp8_axiswise,64,64,4095\n")
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
    with pytest.raises(PredictError) as caught:
        published("linear", "fp8_axiswise", n=4096, k=4095)
    assert str(caught.value) == (
        "triton, triton_products and torchao take fp8_axiswise with k in multiples of 16, "
        "got k=4095; the nearest that works: k=4080 or 4096"
    )
    reasons = {"a": "a takes r with k", "b": "b takes r with n", "c": "c takes r with k"}
    assert joined_refusals(reasons) == ["a and c take r with k", "b takes r with n"]


def test_the_fastest_provider_is_named_with_its_probability_and_what_such_choices_cost() -> None:
    answer = published("gemm", "fp8_axiswise", n=4096, k=4096)
    slower = published("gemm", "fp8_axiswise", n=4096, k=4096, provider="triton")
    alone = published("gemm", "fp8_axiswise", n=4096, k=4096, provider=answer.provider)
    assert answer.slower == ("triton",)
    assert answer.seconds == alone.seconds < slower.seconds
    assert answer.fastest_probability is not None
    assert 0.5 < answer.fastest_probability < 0.9
    assert answer.choices is not None
    assert answer.choices.points >= 25
    assert answer.choices.right >= 0.62 * answer.choices.points
    assert answer.choices.mean_regret < 0.0265


def test_a_shape_outside_of_the_probes_is_extrapolated_with_a_wider_interval() -> None:
    inside, outside = (published(m=m, provider="cublaslt") for m in (4096, 1 << 20))
    assert inside.extrapolated_doublings == 0
    assert outside.extrapolated_doublings is not None
    assert outside.extrapolated_doublings > 5
    narrow, wide = ((one.high_s or 0.0) / one.seconds for one in (inside, outside))
    assert wide == pytest.approx(narrow ** (1 + GROWTH * MOST_DOUBLINGS))
    text = published(m=1, n=1, k=1, provider="cublaslt").text(1000)
    assert "95 %" not in text
    assert re.search(r"extrapolated: \d{2}\.\d doublings .* treat it as a guess", text)
    near, far = (published("linear", "fp8_axiswise", m=m) for m in (4096, 1 << 20))
    assert near.extrapolated_doublings == 0
    assert (far.extrapolated_doublings or 0.0) > 4


def test_a_kind_of_shape_that_was_not_probed_is_named_and_less_sure() -> None:
    aligned, off = (
        published("gemm", "fp8_axiswise", n=n, k=4096, provider="triton") for n in (4096, 4097)
    )
    assert aligned.unprobed == ()
    (words,) = off.unprobed
    assert words.startswith("gemm fp8_axiswise by triton with rows of A, B or C off 16 bytes")
    assert words.endswith("(the nearest aligned: n=4096 or 4104)")
    widths = [math.log((a.high_s or 0) / a.seconds) for a in (aligned, off)]
    assert widths[1] > 1.5 * widths[0]
    assert off.answer["unprobed"] == [words]
    assert "no probe is of this kind: gemm fp8_axiswise by triton" in str(off)


@pytest.mark.parametrize(
    ("op", "recipe", "provider", "world_size"),
    [("linear", "fp8_axiswise", "triton", 1), ("all_gather_matmul", "bf16", "symm_mem_fused", 2)],
)
def test_an_op_made_of_others_names_its_provider_and_no_bound(
    op: str, recipe: str, provider: str, world_size: int
) -> None:
    answer = published(op, recipe, world_size=world_size)
    same = published(op, recipe, provider=provider, world_size=world_size)
    assert (answer.provider, answer.seconds) == (provider, same.seconds)


def test_what_was_measured_counts_whichever_sweep_measured_it() -> None:
    answer = published(m=256, n=28672, provider="cublaslt")
    medians = [
        one.median_s
        for op in ("gemm", "mixed_gemm")
        for one in measured_points(PUBLISHED, op).values()
        if (one.provider, one.recipe, one.shape) == ("cublaslt", "bf16", answer.shape)
    ]
    assert len(set(medians)) == 2
    assert answer.measured is not None
    assert answer.measured.median_s == median(medians)
    key = point_key("gemm", "cublaslt", "bf16", answer.shape)
    assert answer.measured == measured_points(PUBLISHED)[key]
