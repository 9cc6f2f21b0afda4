"""Every op by a model of time: its own, linears, and gathered products, in one order."""

from roofcal.predict import calibrated
from roofcal.predict.composed import predict
from roofcal.records import PlanPoint
from tests.roofcal.predict.runs import product
from tests.roofcal.predict.test_gathered_points import LINKED, gathered


def test_answers_stand_in_the_order_of_the_points() -> None:
    shape = {"m": 512, "n": 1024, "k": 2048}
    linear = PlanPoint(op="linear", provider="x", recipe="bf16", shape=shape, device="made-up")
    points = [gathered("nccl_then_gemm"), linear, product(64, 64, 64), gathered("torch_fused", 4)]
    found = predict(calibrated, points, LINKED)
    assert [made.point_id for made in found] == [point.point_id for point in points[:3]]
    assert predict(calibrated, [], LINKED) == []
