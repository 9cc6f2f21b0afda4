"""Every op by a model of time: its own, linears, and gathered products, in one order."""

from roofcal.core.records import PlanPoint
from roofcal.models import calibrated
from roofcal.models.composed import predict
from tests.roofcal.models.runs import product
from tests.roofcal.models.test_gathered_points import LINKED, gathered


def test_answers_stand_in_the_order_of_the_points() -> None:
    shape = {"m": 512, "n": 1024, "k": 2048}
    linear = PlanPoint(op="linear", provider="x", recipe="bf16", shape=shape, device="made-up")
    points = [gathered("nccl_then_gemm"), linear, product(64, 64, 64), gathered("torch_fused", 4)]
    found = predict(calibrated, points, LINKED)
    assert [made.point_id for made in found] == [point.point_id for point in points[:3]]
    assert predict(calibrated, [], LINKED) == []
