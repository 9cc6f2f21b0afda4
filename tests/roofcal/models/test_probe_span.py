"""How far a shape lies outside of the probes, and that wider intervals hold out there."""

import math

import pytest

from roofcal.ask.measured import measured_points
from roofcal.ask.shape_limits import refusal
from roofcal.core.records import PlanPoint
from roofcal.models.probe_span import doublings_outside, probe_spans
from roofcal.models.registry import model_named, predict_points
from roofcal.ops import BY_NAME
from roofcal.ops.gemm.bench import build
from roofcal.ops.spec import Unsupported
from tests.roofcal.ask.published_run import PUBLISHED, published_sources

SPANS = probe_spans(PUBLISHED, "gemm", "cast")
GEMM, CAST = BY_NAME["gemm"], BY_NAME["cast"]


def test_probes_span_their_own_sizes() -> None:
    span = SPANS["gemm", "cublaslt", "bf16"]
    assert span["m"][0] == 1
    assert span["n"][1] > 20_000
    assert not any(op == "mixed_gemm" for op, _, _ in SPANS)


@pytest.mark.parametrize(
    ("rows", "cols", "doublings"),
    [(64, 4096, 0), (1, 4096, math.log2(5)), (64, 256, 1), (1, 256, math.log2(15387 / 772))],
)
def test_the_axis_that_is_farthest_outside_counts(rows: int, cols: int, doublings: float) -> None:
    shape = {"rows": rows, "cols": cols}
    outside = doublings_outside(SPANS, CAST, "triton", "fp8_rowwise_dim0", shape)
    assert outside == pytest.approx(doublings, abs=0.7 if (rows, cols) == (1, 256) else 0.01)


def test_nobody_knows_the_span_of_what_was_not_probed() -> None:
    shape = {"m": 1, "n": 1, "k": 1}
    assert doublings_outside(SPANS, GEMM, "nobody", "bf16", shape) is None


def test_casts_far_outside_are_within_the_wider_interval() -> None:
    """As wide as inside, the intervals hold seven in ten of them."""
    within, within_wider = [], []
    for measured in measured_points(PUBLISHED, "cast"):
        doublings = doublings_outside(
            SPANS, CAST, measured.provider, measured.recipe, measured.shape
        )
        if not doublings or doublings < 1:
            continue
        point = PlanPoint(
            op="cast",
            provider=measured.provider,
            recipe=measured.recipe,
            shape=measured.shape,
            device="nvidia-h200",
        )
        (told,) = predict_points(model_named("calibrated"), [point], published_sources())
        assert told.high_s is not None
        error = abs(math.log(measured.median_s / told.total_s))
        half_width = math.log(told.high_s / told.total_s)
        within.append(error <= half_width)
        within_wider.append(error <= half_width * (1 + doublings))
    assert len(within) >= 20
    assert sum(within) / len(within) < 0.8
    assert sum(within_wider) / len(within_wider) > 0.9


@pytest.mark.parametrize("shape", [(64, 64, 4095), (64, 4095, 64), (64, 64, 128), (64, 8, 24)])
@pytest.mark.parametrize("recipe", ["bf16", "fp8_tensorwise", "fp8_axiswise"])
def test_cublaslt_is_refused_what_its_bench_refuses(
    shape: tuple[int, int, int], recipe: str
) -> None:
    sizes = dict(zip("mnk", shape, strict=True))
    try:
        build("cublaslt", recipe, sizes)
    except Unsupported:
        assert refusal(GEMM, "cublaslt", recipe, sizes) is not None
    else:
        assert refusal(GEMM, "cublaslt", recipe, sizes) is None


def test_no_measured_point_is_refused() -> None:
    for op in ("gemm", "mixed_gemm", "probe_math", "probe_mixed_gemm", "cast", "linear"):
        for point in measured_points(PUBLISHED, op):
            assert refusal(BY_NAME[op], point.provider, point.recipe, point.shape) is None, point
