"""How far a shape lies outside of the probes, and that wider intervals hold out there."""

import math

import numpy as np
import pytest

from roofcal.ask.measured import measured_points
from roofcal.ask.shape_limits import refusal
from roofcal.models.registry import model_named, predict_points
from roofcal.ops import BY_NAME
from roofcal.ops.gemm.bench import build
from roofcal.ops.predictions import MOST_FACTOR, doublings_outside, widened
from roofcal.ops.spec import OpSpec, Shape, Unsupported
from tests.roofcal.ask.published_run import PUBLISHED, published_calibration, published_sources
from tests.roofcal.calibrate.probe_runs import read_probes
from tests.roofcal.made_up_records import point_of

CALIBRATION = published_calibration()
GEMM, CAST = BY_NAME["gemm"], BY_NAME["cast"]


def outside(op: OpSpec, provider: str, recipe: str, shape: Shape) -> float | None:
    doublings = doublings_outside(CALIBRATION, op, provider, recipe, shape)
    return None if doublings is None else float(doublings)


def test_a_calibration_spans_the_probes_that_were_measured() -> None:
    probes = [
        probe.shape
        for probe in read_probes(PUBLISHED.folder, "probe_math")
        if (probe.point.provider, probe.point.recipe) == ("cublaslt", "bf16")
    ]
    span = CALIBRATION.probe_spans["gemm.cublaslt.bf16"]
    assert list(span["m"]) == [min(p["m"] for p in probes), max(p["m"] for p in probes)]
    assert span["flops"][1] == max(2 * p["m"] * p["n"] * p["k"] for p in probes)
    assert CALIBRATION.probe_spans.keys() == CALIBRATION.probe_errors.keys()


def test_intervals_grow_with_the_distance_up_to_a_limit() -> None:
    inside, doublings = np.full(4, 0.1), np.array([0.0, 1.0, 4.0, 40.0])
    assert widened(inside, doublings) == pytest.approx([0.1, 0.125, 0.2, 0.2])
    wide = np.array([0.8, 2.0])
    assert widened(wide, np.full(2, 40.0)) == pytest.approx([math.log(MOST_FACTOR), 2.0])


@pytest.mark.parametrize("size", [(1, 1, 1), (1 << 30, 16, 16), (131072, 131072, 131072)])
def test_no_interval_far_outside_is_absurd(size: tuple[int, int, int]) -> None:
    shape = dict(zip("mnk", size, strict=True))
    point = point_of("gemm", "bf16", shape, provider="cublaslt")
    (answer,) = predict_points(model_named("calibrated"), [point], published_sources())
    assert answer.low_s is not None
    assert answer.high_s is not None
    constants = CALIBRATION.constants
    work = GEMM.work("bf16", shape)
    assert answer.high_s <= 4.0001 * answer.total_s
    assert answer.low_s >= constants["launch_graph_s"].value
    assert answer.low_s > 0.9 * work.dram_bytes / constants["dram_read_bytes_per_s"].value
    ceiling = constants["gemm.cublaslt.bf16.ceiling_flops_per_s"].value
    assert answer.low_s > 0.8 * work.flops / ceiling  # no lower than the interval inside


@pytest.mark.parametrize(
    ("recipe", "rows", "cols", "farthest"),
    [
        ("fp8_rowwise_dim0", 64, 4096, None),
        ("mxfp8_dim0", 1, 4096, "bytes"),
        ("fp8_rowwise_dim0", 64, 256, "cols"),
    ],
)
def test_the_axis_that_is_farthest_outside_counts(
    recipe: str, rows: int, cols: int, farthest: str | None
) -> None:
    shape = {"rows": rows, "cols": cols}
    least = CALIBRATION.probe_spans[f"cast.triton.{recipe}"]
    sizes = shape | {"bytes": CAST.work(recipe, shape).dram_bytes}
    doublings = {axis: math.log2(least[axis][0] / size) for axis, size in sizes.items()}
    assert max(doublings, key=doublings.__getitem__) == farthest or farthest is None
    expected = doublings[farthest] if farthest else 0.0
    answer = outside(CAST, "triton", recipe, shape)
    assert answer == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("name", "least"), [("gemm", 10), ("cast", 16)])
def test_points_far_outside_are_within_their_intervals(name: str, least: int) -> None:
    op, within = BY_NAME[name], []
    for measured in measured_points(PUBLISHED, name).values():
        doublings = outside(op, measured.provider, measured.recipe, measured.shape)
        if not doublings or doublings < 1:
            continue
        point = point_of(name, measured.recipe, measured.shape, provider=measured.provider)
        (told,) = predict_points(model_named("calibrated"), [point], published_sources())
        assert told.low_s is not None
        assert told.high_s is not None
        within.append(told.low_s <= measured.median_s <= told.high_s)
    assert len(within) >= least
    assert sum(within) / len(within) > 0.9


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
        for point in measured_points(PUBLISHED, op).values():
            assert refusal(BY_NAME[op], point.provider, point.recipe, point.shape) is None, point
