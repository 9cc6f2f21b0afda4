"""Collectives: by formula, from the calibration, from the datasheet with a stated assumption."""

from dataclasses import replace

import pytest

from roofcal.models.errors import PredictError
from roofcal.models.link import ASSUMED_LATENCY, ASSUMED_SHARE, Link, Source, link_of
from tests.roofcal.ask.llm.deployments import LINKED, calibrated
from tests.roofcal.models.runs import SPEC

EIGHT = {
    "all_reduce__8__bytes_per_s": 3e11,
    "all_reduce__8__latency_s": 1e-5,
    "all_gather__8__bytes_per_s": 2e11,
    "all_gather__8__latency_s": 2e-5,
}


def link(
    constants: dict[str, float] | None = None,
    source: Source = "auto",
    *,
    tensor: int = 8,
    pipeline: int = 1,
) -> Link:
    return link_of(calibrated(**constants or {}), LINKED, source, tensor, pipeline)


def test_bytes_by_rate_and_a_latency() -> None:
    reduced, gathered = (link(EIGHT).collective(n, 8, 8e6) for n in ("all_reduce", "all_gather"))
    assert reduced.duration.value_s == pytest.approx(1e-5 + 2 * 7 / 8 * 8e6 / 3e11)
    assert gathered.duration.value_s == pytest.approx(2e-5 + 7 / 8 * 8e6 / 2e11)
    sent = link(None, "datasheet", tensor=1, pipeline=2).send(450e9 * 0.7).duration
    assert sent.value_s == pytest.approx(1 + 12e-6)
    bounds = [link().collective("all_reduce", 8, count).bound_by for count in (10, 1e9)]
    assert bounds == ["link latency", "link"]


def test_calibrated_constants_win_and_without_them_the_assumption_is_said_in_one_line() -> None:
    assert link(EIGHT).provenance == "link: times of collectives are calibrated"
    assert "assumed" in str(link(EIGHT, "datasheet").provenance)
    provenance = str(link().provenance)
    said = "link: not calibrated, assumed 0.7 (0.5 to 0.9) of the datasheet's 450 G"
    assert provenance.startswith(said)
    assert "\n" not in provenance


def test_the_assumption_has_an_interval() -> None:
    duration = link().collective("all_reduce", 8, 8e8).duration
    seconds = 2 * 7 / 8 * 8e8 / 450e9
    assert duration.low_s == pytest.approx(ASSUMED_LATENCY.low_s + seconds / ASSUMED_SHARE.high)
    assert duration.high_s == pytest.approx(ASSUMED_LATENCY.high_s + seconds / ASSUMED_SHARE.low)


def test_a_world_size_that_was_not_calibrated_is_named_with_those_that_were() -> None:
    with pytest.raises(PredictError) as caught:
        link(EIGHT, "calibrated", tensor=4)
    message = str(caught.value)
    assert "no link constants for all_reduce of 4 GPUs, all_gather of 4 GPUs" in message
    assert "world sizes it has: 8 (all_gather), 8 (all_reduce); give --link auto" in message
    with pytest.raises(PredictError, match="world sizes it has: none"):
        link(None, "calibrated")


def test_a_datasheet_without_a_link_is_named() -> None:
    spec = replace(SPEC, link_bytes_per_s=None)
    with pytest.raises(PredictError, match=r"made-up.yaml states no link_gb_per_s; give --tp 1"):
        link_of(calibrated(), spec, "auto", 2, 1)


def test_one_gpu_needs_no_link() -> None:
    alone = link_of(calibrated(), SPEC, "calibrated", 1, 1)
    assert (alone.lines, alone.provenance) == ({}, None)
