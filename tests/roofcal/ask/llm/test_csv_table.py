"""The record of an estimate, and the table of all models: its rows are the estimates."""

import csv
import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from roofcal.ask.llm.estimate import estimate
from roofcal.ask.llm.sweep import COLUMNS, CUTS, run_table, table_rows
from roofcal.core.jsonl import write_records
from roofcal.models.errors import PredictError
from roofcal.ops.time_models import Sources
from tests.roofcal.ask.llm.deployments import LINKED, SOURCES, calibrated, deployment, model
from tests.roofcal.models.runs import SPEC, calibration

MODELS = {name: model(name) for name in ("llama3-8b", "llama3-70b")}
ESTIMATE = estimate(deployment(tp=2, batch=4), SOURCES)
ANSWER = ESTIMATE.answer


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "made-up/e1"
    write_records(folder / "calibration.jsonl", [calibrated()])
    return folder


def test_every_model_has_every_recipe_and_cut() -> None:
    columns = ("model", "recipe", "tensor_parallel", "pipeline_parallel")
    kinds = {tuple(row[c] for c in columns) for row in table_rows(SOURCES, MODELS)}
    assert len(kinds) == len(MODELS) * 3 * len(CUTS)


def test_batches_go_up_to_the_largest() -> None:
    in_bf16 = [r for r in table_rows(SOURCES, {"llama3-8b": model()}) if r["recipe"] == "bf16"]
    on_one_gpu = [r["batch"] for r in in_bf16 if r["tensor_parallel"] == 1]
    assert on_one_gpu == [1, 4, 16, 64, 256, in_bf16[0]["largest_batch"]]


def test_a_row_is_the_estimate() -> None:
    row = next(r for r in table_rows(SOURCES, MODELS) if r["batch"] == 4)
    expected = estimate(deployment("llama3-8b", "bf16", batch=4), SOURCES)
    assert row["decode_step_s"] == expected.decode.total.value_s
    assert row["fits"] == "yes"


def test_what_does_not_fit_has_no_times() -> None:
    all_rows = table_rows(SOURCES, {"llama3-70b": model("llama3-70b")})
    alone = [r for r in all_rows if r["recipe"] == "bf16" and r["tensor_parallel"] == 1]
    assert [(r["fits"], r["batch"], r["largest_batch"]) for r in alone] == [("no", 1, 0)]
    assert "decode_step_s" not in alone[0]


def test_cuts_without_a_link_or_that_do_not_divide_have_no_row() -> None:
    alone = replace(SOURCES, spec=SPEC)
    assert {r["tensor_parallel"] for r in table_rows(alone, MODELS)} == {1}
    architecture = model().architecture
    assert architecture is not None
    odd_heads = architecture.model_copy(update={"heads": 33, "kv_heads": 33})
    odd, bare = (model().model_copy(update={"architecture": one}) for one in (odd_heads, None))
    assert {r["tensor_parallel"] for r in table_rows(SOURCES, {"x": odd, "y": bare})} == {1}


@pytest.mark.parametrize(
    "sources",
    [
        Sources(spec=LINKED),
        Sources(calibration=calibrated()),
        Sources(calibration=calibration(), spec=LINKED),
        Sources(calibration=replace(calibrated(), constants={}), spec=LINKED),
    ],
)
def test_a_device_that_cannot_be_timed_has_no_rows(sources: Sources) -> None:
    assert list(table_rows(sources, MODELS)) == []


def test_the_csv_has_all_columns_and_nothing_for_what_is_missing(run: Path) -> None:
    text = run_table(run, run / "calibration.jsonl", LINKED, MODELS)
    read = list(csv.DictReader(StringIO(text)))
    assert tuple(read[0]) == COLUMNS
    assert len(read) == len(list(table_rows(SOURCES, MODELS)))
    assert {r["decode_step_s"] for r in read if r["fits"] == "no"} == {""}
    assert all(float(r["decode_step_s"]) > 0 for r in read if r["fits"] == "yes")
    whose = {r["products_by"] for r in read if r["fits"] == "yes"}
    assert whose == {"cublaslt", "cublaslt (bf16), cublaslt"}
    empty = run_table(run, run / "calibration.jsonl", None, MODELS)
    assert empty == ",".join(COLUMNS) + "\n"


def test_the_calibration_of_another_device_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(PredictError, match="was fitted on made-up, not on other"):
        run_table(tmp_path / "other/e1", run / "calibration.jsonl", LINKED, MODELS)


def test_the_record_is_json_and_repeats_the_deployment() -> None:
    assert json.loads(json.dumps(ANSWER)) == ANSWER
    expected = {"model": "llama3-8b", "device": "made-up", "environment": "e1", "recipe": "bf16",
              "tensor_parallel": 2, "pipeline_parallel": 1, "batch": 4, "prompt_tokens": 2048,
              "output_tokens": 256, "chunk_tokens": 8192}  # fmt: skip
    assert ANSWER.items() >= expected.items()
    assert any(line.startswith("link: not calibrated") for line in ANSWER["notes"])
    assert set(ANSWER) - set(ESTIMATE.record) == {"prefill", "decode"}
    for rate in ("request_tokens_per_s", "decode_tokens_per_s", "output_tokens_per_s"):
        assert ANSWER[f"{rate}_low"] < ANSWER[rate] < ANSWER[f"{rate}_high"]


@pytest.mark.parametrize(
    ("phase", "total"), [("prefill", "first_token"), ("decode", "decode_step")]
)
def test_operators_add_up(phase: str, total: str) -> None:
    for end in ("s", "low_s", "high_s"):
        added = sum(row[f"total_{end}"] for row in ANSWER[phase])
        assert added == pytest.approx(ANSWER[f"{total}_{end}"])
    for row in ANSWER[phase]:
        assert row["calls"] * row["call_s"] == pytest.approx(row["total_s"])
        assert row["bound_by"]


def test_bytes_add_up() -> None:
    parts = sum(ANSWER[f"{part}_bytes_per_gpu"] for part in ("weight", "kv_cache", "activation"))
    assert parts == ANSWER["needed_bytes_per_gpu"] <= ANSWER["usable_bytes_per_gpu"]
    assert ANSWER["largest_batch"] >= 4
