"""Cuts of a model over GPUs, which of them are worth having, and the table of all models."""

import csv
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from roofcal.ask.llm.estimate import estimate
from roofcal.ask.llm.sweep import (
    COLUMNS,
    CUTS,
    Sweep,
    cuts_of,
    frontier,
    run_table,
    sweep,
    table_rows,
    with_smallest_cut,
)
from roofcal.core.jsonl import write_records
from roofcal.models.errors import PredictError
from roofcal.ops.time_models import Sources
from tests.roofcal.ask.llm.deployments import LINKED, SOURCES, calibrated, deployment, model
from tests.roofcal.models.runs import SPEC, calibration

MODELS = {name: model(name) for name in ("llama3-8b", "llama3-70b")}


@pytest.fixture(scope="module")
def swept() -> Sweep:
    return sweep(deployment("llama3-70b"), SOURCES, "calibrated")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, object]]:
    """Those of the table of MODELS."""
    return list(table_rows(SOURCES, MODELS))


def test_cuts_have_few_gpus_first_and_stay_within_a_host() -> None:
    cuts = cuts_of(model(), (1, 2, 4, 8), 16)
    assert cuts[:4] == [(1, 1), (2, 1), (1, 2), (4, 1)]
    assert max(tensor for tensor, _ in cuts) == 8
    assert all(tensor * pipeline <= 16 for tensor, pipeline in cuts)


def test_the_smallest_cut_holds_the_model_and_none_of_fewer_gpus_does() -> None:
    cut = with_smallest_cut(deployment("llama3-70b"), SOURCES, "calibrated")
    assert (cut.tensor, cut.pipeline) == (2, 1)
    estimate(cut, SOURCES)
    with pytest.raises(PredictError, match="does not fit 1 x made-up"):
        estimate(deployment("llama3-70b"), SOURCES)


def test_a_device_without_a_link_has_one_gpu() -> None:
    alone = replace(SOURCES, spec=SPEC)
    assert with_smallest_cut(deployment(), alone, "datasheet").gpus == 1
    with pytest.raises(PredictError, match=r"no cut of one GPU \(its file states no link"):
        with_smallest_cut(deployment("llama3-70b"), alone, "datasheet")
    assert {row["tensor_parallel"] for row in table_rows(alone, MODELS)} == {1}


def test_a_sweep_is_the_estimates_of_its_cuts_and_a_datasheet_sweeps_faster(
    swept: Sweep,
) -> None:
    batches = [answer.deployment.workload.batch for answer in swept.estimates[8, 1]]
    assert batches[:3] == [1, 4, 16]
    assert batches[-1] == swept.estimates[8, 1][-1].memory.largest_batch
    expected = estimate(deployment("llama3-70b", tp=4, pp=2, batch=4), SOURCES)
    assert swept.estimates[4, 2][1] == expected
    assert list(swept.too_large) == [(1, 1)]
    by_datasheet = sweep(deployment("llama3-70b"), Sources(spec=LINKED), "datasheet")
    for cut, answers in by_datasheet.estimates.items():
        for bound, answer in zip(answers, swept.estimates[cut], strict=True):
            assert bound.decode.total.value_s < answer.decode.total.value_s


def test_nothing_beats_the_frontier(swept: Sweep) -> None:
    best = frontier(swept.answers)
    for answer in swept.answers:
        assert any(
            other.decode.total.value_s <= answer.decode.total.value_s
            and other.tokens_per_s_per_gpu >= answer.tokens_per_s_per_gpu
            for other in best
        )


def test_the_table_has_a_row_for_every_model_recipe_cut_and_batch_that_fits(
    rows: list[dict[str, object]],
) -> None:
    columns = ("model", "recipe", "tensor_parallel", "pipeline_parallel")
    assert len({tuple(row[name] for name in columns) for row in rows}) == 2 * 3 * len(CUTS)
    small, large = (
        [r for r in rows if (r["model"], r["recipe"], r["tensor_parallel"]) == (name, "bf16", 1)]
        for name in MODELS
    )
    assert [row["batch"] for row in small] == [1, 4, 16, 64, 256, small[0]["largest_batch"]]
    expected = estimate(deployment(batch=4), SOURCES)
    assert (small[1]["decode_step_s"], small[1]["fits"]) == (expected.decode.total.value_s, "yes")
    assert [(r["fits"], r["batch"], r["largest_batch"]) for r in large] == [("no", 1, 0)]
    assert "decode_step_s" not in large[0]


def test_models_without_an_architecture_and_cuts_that_do_not_divide_have_no_row() -> None:
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


def test_the_csv_has_all_columns_and_nothing_for_what_is_missing(
    tmp_path: Path, rows: list[dict[str, object]]
) -> None:
    run = tmp_path / "made-up/e1"
    fitted = run / "calibration.jsonl"
    write_records(fitted, [calibrated()])
    read = list(csv.DictReader(StringIO(run_table(run, fitted, LINKED, MODELS))))
    assert (tuple(read[0]), len(read)) == (COLUMNS, len(rows))
    assert {r["decode_step_s"] for r in read if r["fits"] == "no"} == {""}
    assert all(float(r["decode_step_s"]) > 0 for r in read if r["fits"] == "yes")
    whose = {r["products_by"] for r in read if r["fits"] == "yes"}
    assert whose == {"cublaslt", "cublaslt (bf16), cublaslt"}
    assert run_table(run, fitted, None, MODELS) == ",".join(COLUMNS) + "\n"
    with pytest.raises(PredictError, match="was fitted on made-up, not on other"):
        run_table(tmp_path / "other/e1", fitted, LINKED, MODELS)
