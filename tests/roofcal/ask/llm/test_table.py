"""The table of all models: which rows there are, and that they are the estimates."""

import csv
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from roofcal.ask.llm.estimate import estimate
from roofcal.ask.llm.table import COLUMNS, CUTS, rows, run_table
from roofcal.core.jsonl import write_records
from roofcal.models.errors import PredictError
from roofcal.models.sources import Sources
from tests.roofcal.ask.llm.questions import LINKED, SOURCES, calibrated, model, question
from tests.roofcal.models.runs import SPEC, calibration

MODELS = {name: model(name) for name in ("llama3-8b", "llama3-70b")}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "made-up/e1"
    write_records(folder / "calibration.jsonl", [calibrated()])
    return folder


def test_every_model_has_every_recipe_and_cut() -> None:
    found = list(rows(SOURCES, MODELS))
    kinds = {(r["model"], r["recipe"], r["tensor_parallel"], r["pipeline_parallel"]) for r in found}
    assert len(kinds) == len(MODELS) * 3 * len(CUTS)


def test_batches_go_up_to_the_largest() -> None:
    found = [r for r in rows(SOURCES, {"llama3-8b": model()}) if r["recipe"] == "bf16"]
    one = [r["batch"] for r in found if r["tensor_parallel"] == 1]
    assert one == [1, 4, 16, 64, 256, found[0]["largest_batch"]]


def test_a_row_is_the_estimate() -> None:
    row = next(r for r in rows(SOURCES, MODELS) if r["batch"] == 4)
    found = estimate(question("llama3-8b", "bf16", batch=4), SOURCES)
    assert row["decode_step_s"] == found.decode.total.value_s
    assert row["fits"] == "yes"


def test_what_does_not_fit_has_no_times() -> None:
    found = list(rows(SOURCES, {"llama3-70b": model("llama3-70b")}))
    alone = [r for r in found if r["recipe"] == "bf16" and r["tensor_parallel"] == 1]
    assert [(r["fits"], r["batch"], r["largest_batch"]) for r in alone] == [("no", 1, 0)]
    assert "decode_step_s" not in alone[0]


def test_without_a_link_there_is_one_gpu() -> None:
    alone = replace(SOURCES, spec=SPEC)
    assert {r["tensor_parallel"] for r in rows(alone, MODELS)} == {1}


def test_cuts_that_do_not_divide_are_left_out() -> None:
    known = model().architecture
    assert known is not None
    odd = model().model_copy(
        update={"architecture": known.model_copy(update={"heads": 33, "kv_heads": 33})}
    )
    assert {r["tensor_parallel"] for r in rows(SOURCES, {"x": odd})} == {1}


@pytest.mark.parametrize(
    "sources",
    [
        Sources(spec=LINKED),
        Sources(calibration=calibrated()),
        Sources(calibration=calibration(), spec=LINKED),
        Sources(calibration=replace(calibrated(), constants={}), spec=LINKED),
    ],
)
def test_what_cannot_be_priced_has_no_rows(sources: Sources) -> None:
    assert list(rows(sources, MODELS)) == []


def test_a_model_without_architecture_has_no_rows() -> None:
    bare = model().model_copy(update={"architecture": None})
    assert list(rows(SOURCES, {"x": bare})) == []


def test_the_csv_has_all_columns_and_nothing_for_what_is_missing(run: Path) -> None:
    text = run_table(run, run / "calibration.jsonl", LINKED, MODELS)
    read = list(csv.DictReader(StringIO(text)))
    assert tuple(read[0]) == COLUMNS
    assert len(read) == len(list(rows(SOURCES, MODELS)))
    assert {r["decode_step_s"] for r in read if r["fits"] == "no"} == {""}
    assert all(float(r["decode_step_s"]) > 0 for r in read if r["fits"] == "yes")


def test_a_device_that_cannot_be_priced_is_a_header(run: Path) -> None:
    text = run_table(run, run / "calibration.jsonl", None, MODELS)
    assert text == ",".join(COLUMNS) + "\n"


def test_the_calibration_of_another_device_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(PredictError, match="was fitted on made-up, not on other"):
        run_table(tmp_path / "other/e1", run / "calibration.jsonl", LINKED, MODELS)
