"""Points of op all_gather_matmul by hand: which product, which link, which ends of intervals."""

from dataclasses import replace

import pytest

from roofcal.ask.points import predict_point
from roofcal.core.records import PlanPoint, Prediction
from roofcal.models import calibrated, datasheet
from roofcal.models.errors import PredictError
from roofcal.models.registry import predict_points
from roofcal.models.wave import model as wave
from roofcal.ops.all_gather_matmul.model import predict_composed
from roofcal.ops.time_models import Model, Sources
from tests.roofcal.models.links import GATHERED, LINKED, K, M, N, gathered, linked
from tests.roofcal.models.runs import SOURCES, product


def one(point: PlanPoint, sources: Sources = LINKED, model: Model = calibrated) -> Prediction:
    (prediction,) = predict_points(model, [point], sources)
    return prediction


def alone(m: int = M) -> Prediction:
    (prediction,) = calibrated.predict([product(m, N, K)], LINKED)
    return prediction


def test_bounds_are_the_product_and_the_calibrated_gather() -> None:
    only = one(gathered("gemm_only"))
    assert (only.total_s, only.high_s) == pytest.approx((alone().total_s, alone().high_s))
    # cards that rest between samples may run faster than the power limit left them in the probes
    assert (only.low_s or 0) < (alone().low_s or 0)
    assert only.bound_by == alone().bound_by
    gather = one(gathered("all_gather_only", 8))
    moved = GATHERED * 7 / 8
    assert gather.total_s == gather.link_s == pytest.approx(30e-6 + moved / 250e9)
    assert gather.low_s == pytest.approx(27e-6 + moved / 275e9)
    assert gather.high_s == pytest.approx(33e-6 + moved / 225e9)
    assert gather.bound_by == "link"
    in_sequence = one(gathered("nccl_then_gemm"))
    for end in ("total_s", "low_s", "high_s"):
        both = getattr(only, end) + getattr(one(gathered("all_gather_only")), end)
        assert getattr(in_sequence, end) == pytest.approx(both)


def test_fused_hides_the_gather_behind_the_product() -> None:
    ours, torchs = one(gathered("symm_mem_fused")), one(gathered("torch_fused"))
    assert ours.total_s == pytest.approx(16e-6 + alone().total_s)
    own_copy = 2 * GATHERED / 2 / 4e12
    assert torchs.total_s == pytest.approx(16e-6 + own_copy + 2 * alone(M // 2).total_s)
    assert (ours.low_s or 0) < ours.total_s < (ours.high_s or 0)


def test_a_point_without_a_provider_is_the_fastest_that_is_no_bound() -> None:
    names = ("nccl_then_gemm", "torch_fused", "symm_mem_fused")
    expected = min(one(gathered(name)).total_s for name in names)
    assert one(gathered("")).total_s == expected


def test_a_world_size_that_was_not_calibrated_has_no_prediction_and_no_crash() -> None:
    points = [gathered("nccl_then_gemm", size) for size in (2, 4, 8)]
    predictions = predict_points(calibrated, points, LINKED)
    assert [p.point_id for p in predictions] == [points[0].point_id, points[2].point_id]
    assert one(gathered("gemm_only", 4)).total_s == alone().total_s


def test_what_it_does_not_know_has_no_prediction() -> None:
    sources = linked("all_gather")  # no symmetric memory
    assert one(gathered("nccl_then_gemm"), sources).total_s > 0
    fused = [gathered(name) for name in ("torch_fused", "symm_mem_fused")]
    assert predict_composed(calibrated, fused, sources) == []
    points = [gathered("nccl_then_gemm", recipe="fp8_axiswise"), gathered("gemm_only", 1)]
    assert predict_composed(calibrated, points, LINKED) == []


def test_the_wave_model_knows_links_and_states_no_interval() -> None:
    assert LINKED.wave is not None
    answer = one(gathered("all_gather_only"), model=wave)
    device = LINKED.wave
    rate = device.link_bytes_per_s * device.link_fraction / device.link_peers
    assert answer.total_s == pytest.approx(device.link_latency_s + GATHERED / 2 / rate)
    assert (answer.low_s, answer.high_s) == (None, None)
    beyond = 2 * device.link_ranks
    assert predict_points(wave, [gathered("nccl_then_gemm", beyond)], LINKED) == []


def test_the_datasheet_has_the_link_as_a_third_roof() -> None:
    math = 2 * M * N * K / 1e15
    link = GATHERED / 2 / 450e9
    whole = one(gathered("symm_mem_fused"), model=datasheet)
    assert (whole.link_s, whole.math_s) == pytest.approx((link, math))
    assert whole.total_s == pytest.approx(max(link, math))
    assert whole.bound_by == "math"
    (narrow,) = datasheet.predict([gathered("nccl_then_gemm", m=8)], LINKED)
    assert narrow.bound_by == "dram"
    gather = one(gathered("all_gather_only"), model=datasheet)
    assert gather.total_s == pytest.approx(link)
    assert gather.bound_by == "link"
    assert one(gathered("gemm_only"), model=datasheet).link_s is None
    assert predict_points(datasheet, [gathered("all_gather_only")], SOURCES) == []


# fmt: off
REFUSED: list[tuple[PlanPoint, str, Sources, str]] = [
    (gathered("nccl_then_gemm", 4), "calibrated", LINKED,
     "no link constants of world size 4; world sizes it has: 2, 8; measure probe_link there"),
    (gathered(""), "calibrated", SOURCES, "world sizes it has: none"),
    (gathered("nccl_then_gemm"), "torchao", LINKED, "knows no link between 2 devices"),
    (gathered("", 1), "calibrated", LINKED, "several devices; give --world-size 2 or more"),
    (gathered("", 8, m=1001), "calibrated", LINKED, "m=1001 is no multiple of world size 8.*8"),
    (replace(product(64, 64, 64), world_size=2), "calibrated", LINKED, "gemm runs on one device"),
]
# fmt: on


@pytest.mark.parametrize(("point", "model", "sources", "said"), REFUSED)
def test_what_has_no_answer_is_refused_with_the_reason(
    point: PlanPoint, model: str, sources: Sources, said: str
) -> None:
    with pytest.raises(PredictError, match=said):
        predict_point(point, model, sources)


def test_an_answer_says_for_how_many_devices_it_is() -> None:
    point = gathered("symm_mem_fused", 8)
    assert predict_point(point, "calibrated", LINKED).answer["world_size"] == 8
    alone_point = product(M, N, K)
    answer = predict_point(alone_point, "calibrated", LINKED).answer
    assert "world_size" not in answer
