"""Planning 10,000 points (bar: 2 s, 300 MB). Run: make bench PYTEST_ARGS='-k plan'."""

import resource
import time

import pytest

from roofcal.core.records import Environment
from roofcal.study.plan import plan_op

DEVICE = Environment(
    device="d", vendor="nvidia", device_name="D", compute_units=132, torch="2", python="3"
)


@pytest.mark.bench
def test_ten_thousand_points() -> None:
    sweep = {"log_uniform": {"count": 2000, "seed": 1, "low": 64, "high": 65536}}
    recipes = ("bf16", "fp8_tensorwise", "fp8_axiswise", "fp32", "int8")
    plan_slice = {
        "op": "gemm",
        "seed": 0,
        "contenders": {recipe: ["cublaslt"] for recipe in recipes},
        "sweeps": {"many": sweep},
        "models": {},
        "sentinel": [],
    }
    start = time.perf_counter()
    points = plan_op(plan_slice, DEVICE)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\nplanned {len(points)} points in {seconds:.2f} s, peak {peak:.0f} MiB")
    assert len(points) > 9000
