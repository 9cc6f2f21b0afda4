"""Calibrated predictions of every op: whose constants answer, with which interval, and in order."""

from dataclasses import replace

import numpy as np
import pytest

from roofcal.core.records import Calibration, PlanPoint, Prediction
from roofcal.models import calibrated
from roofcal.ops.all_gather_matmul.model import fastest_times
from roofcal.ops.gemm import model as gemm
from roofcal.ops.predictions import answer_of
from roofcal.ops.time_models import Sources
from tests.roofcal.made_up_records import exactly
from tests.roofcal.models.runs import SOURCES, calibration, cast, product

SIZES = (np.array([300.0]), np.array([4096.0]), np.array([8192.0]))
TILES, DIM0 = "any_tile_split_k", "fp8_rowwise_dim0"


def with_ours(recipe: str = "bf16", launch_s: float = 1e-6, error: float = 0.3) -> Sources:
    """The made-up calibration and, by `triton`, one that differs in the launch and the error."""
    library = calibration()
    name, ours = f"gemm.cublaslt.{recipe}", f"gemm.triton.{recipe}"
    copied = {k.replace(name, ours): v for k, v in library.constants.items() if k.startswith(name)}
    copied[f"{ours}.launch_s"] = exactly(launch_s, "s")
    errors = {**library.probe_errors, ours: {"mape": 0.1, "log_p95": error}}
    constants = {**library.constants, **copied}
    return Sources(calibration=replace(library, constants=constants, probe_errors=errors))


def one(point: PlanPoint, sources: Sources = SOURCES) -> Prediction:
    (prediction,) = calibrated.predict([point], sources)
    return prediction


@pytest.mark.parametrize(
    ("point", "error"),
    [
        (product(300, 4096, 8192), 0.1),
        (product(300, 4096, 8192, provider="triton"), 0.3),
        (cast(4096, 4096, DIM0), 0.2),
    ],
)
def test_the_interval_is_the_providers_error_on_probes_left_out(
    point: PlanPoint, error: float
) -> None:
    told = one(point, with_ours(error=0.3))
    assert told.low_s == pytest.approx(told.total_s * np.exp(-error))
    assert told.high_s == pytest.approx(told.total_s * np.exp(error))


@pytest.mark.parametrize(("launch_s", "fastest"), [(1e-6, "triton"), (9e-6, "cublaslt")])
def test_a_point_without_a_provider_is_that_of_the_fastest(launch_s: float, fastest: str) -> None:
    both = with_ours(launch_s=launch_s)
    named, unnamed = (one(product(300, 4096, 8192, provider=p), both) for p in (fastest, ""))
    assert named.total_s == unnamed.total_s
    assert one(cast(64, 64, DIM0, "")).total_s == one(cast(64, 64, DIM0)).total_s


def test_what_was_not_calibrated_has_no_prediction_and_is_a_key_error() -> None:
    one_size = np.ones(1)
    points = [product(64, 64, 64, "fp8_axiswise"), product(64, 64, 64, provider="triton")]
    points += [cast(64, 64, "fp8_tensorwise"), cast(64, 64, DIM0, "triton")]
    assert calibrated.predict(points, SOURCES) == []
    assert list(calibrated.product_recipes(SOURCES)) == ["bf16", "fp8_tensorwise"]
    with pytest.raises(KeyError, match="triton"):
        calibrated.products_by(SOURCES, "triton", "bf16", *SIZES)
    with pytest.raises(KeyError, match="triton"):
        calibrated.cast_times(SOURCES, "triton", DIM0, one_size, one_size)
    with pytest.raises(KeyError, match="tinygemm"):
        calibrated.narrow_times(SOURCES, "tinygemm", "int4_groupwise_g64", *SIZES)


def test_chunks_do_not_show_and_no_points_are_no_predictions() -> None:
    count, nothing = 2 * 4096 + 3, np.array([])
    m = np.arange(1.0, count + 1, dtype=np.float64)
    n = np.full(count, 512.0, dtype=np.float64)
    whole = calibrated.product_times(SOURCES, "bf16", m, n, n).total
    part = calibrated.product_times(SOURCES, "bf16", m[4090:4100], n[:10], n[:10]).total
    assert len(whole) == count
    assert (whole[4090:4100] == part).all()
    assert len(calibrated.product_times(SOURCES, "bf16", nothing, nothing, nothing).total) == 0
    assert calibrated.predict([], SOURCES) == []


def test_vectors_without_a_provider_are_the_librarys_even_where_it_is_slower() -> None:
    both = with_ours(launch_s=1e-6)
    library, ours = (
        calibrated.products_by(both, name, "bf16", *SIZES).total[0]
        for name in ("cublaslt", "triton")
    )
    assert ours < library
    assert calibrated.product_times(both, "bf16", *SIZES).total[0] == library


def test_a_recipe_that_ours_alone_has_is_answered_by_ours() -> None:
    both = with_ours()
    assert both.calibration is not None
    own = {k: v for k, v in both.calibration.constants.items() if "gemm.cublaslt.bf16" not in k}
    sources = Sources(calibration=replace(both.calibration, constants=own))
    assert set(calibrated.product_recipes(sources)) == {"fp8_tensorwise", "bf16"}
    total = calibrated.product_times(sources, "bf16", *SIZES).total[0]
    assert total == one(product(300, 4096, 8192, provider="triton"), both).total_s


def limited_to(flops_per_s: float) -> Calibration:
    """The made-up calibration of a card whose power allows so many operations per second."""
    made, name = calibration(), "gemm.cublaslt.bf16.sustained_flops_per_s"
    return replace(made, constants={**made.constants, name: exactly(flops_per_s, "flop/s")})


def test_a_card_that_rests_is_faster_by_the_squares_of_rest_and_error() -> None:
    sizes = [np.array([8192.0])] * 3
    limited, resting = limited_to(4e14), limited_to(1e30)
    error = limited.probe_errors["gemm.cublaslt.bf16"]["log_p95"]
    slow, fast = (
        float(answer_of(gemm, c, "cublaslt", "bf16", sizes).times.total[0])
        for c in (limited, resting)
    )
    rest = np.log(slow / fast)
    assert rest > error
    low = fastest_times(limited, "cublaslt", "bf16", sizes)
    assert low == pytest.approx(slow / np.exp(np.hypot(rest, error)), rel=1e-6)
