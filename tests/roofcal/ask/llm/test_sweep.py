"""Cuts of a model over GPUs: which there are, the smallest that fits, which are worth having."""

from dataclasses import replace

import pytest

from roofcal.ask.llm.estimate import estimate
from roofcal.ask.llm.sweep import cuts_of, frontier, sweep, with_smallest_cut
from roofcal.models.errors import PredictError
from roofcal.ops.time_models import Sources
from tests.roofcal.ask.llm.deployments import LINKED, SOURCES, deployment, model
from tests.roofcal.models.runs import SPEC

SWEPT = sweep(deployment("llama3-70b"), SOURCES, "calibrated")


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


def test_a_sweep_is_the_estimates_of_its_cuts() -> None:
    batches = [answer.deployment.workload.batch for answer in SWEPT.estimates[8, 1]]
    assert batches[:3] == [1, 4, 16]
    assert batches[-1] == SWEPT.estimates[8, 1][-1].memory.largest_batch
    expected = estimate(deployment("llama3-70b", tp=4, pp=2, batch=4), SOURCES)
    assert SWEPT.estimates[4, 2][1] == expected
    assert list(SWEPT.too_large) == [(1, 1)]


def test_nothing_beats_the_frontier() -> None:
    best = frontier(SWEPT.answers)
    for answer in SWEPT.answers:
        beaten_by = [
            other
            for other in best
            if other.decode.total.value_s <= answer.decode.total.value_s
            and other.tokens_per_s_per_gpu >= answer.tokens_per_s_per_gpu
        ]
        assert beaten_by


def test_a_datasheet_sweeps_too_and_is_faster() -> None:
    by_datasheet = sweep(deployment("llama3-70b"), Sources(spec=LINKED), "datasheet")
    for cut, answers in by_datasheet.estimates.items():
        for bound, answer in zip(answers, SWEPT.estimates[cut], strict=True):
            assert bound.decode.total.value_s < answer.decode.total.value_s
