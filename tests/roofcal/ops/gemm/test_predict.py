"""Products by provider: whose constants answer, and who answers where nobody is named."""

from dataclasses import replace

import numpy as np
import pytest

from roofcal.core.records import Calibration
from roofcal.models import calibrated
from roofcal.ops.gemm import model as calibrated_products
from roofcal.ops.gemm.model import evaluate
from roofcal.ops.gemm.tiles import describe
from roofcal.ops.time_models import Sources
from tests.roofcal.calibrate.probe_runs import TRUTH, UNITS
from tests.roofcal.models.runs import calibration, exactly, product

SIZES = (np.array([300.0]), np.array([4096.0]), np.array([8192.0]))
TILES = "any_tile_split_k"


def with_ours(recipe: str = "bf16", launch_s: float = 1e-6, error: float = 0.3) -> Calibration:
    """The made-up calibration and, by `triton`, one that differs in the launch and the error."""
    library = calibration()
    name, ours = f"gemm.cublaslt.{recipe}", f"gemm.triton.{recipe}"
    copied = {k.replace(name, ours): v for k, v in library.constants.items() if k.startswith(name)}
    copied[f"{ours}.launch_s"] = exactly(launch_s, "s")
    errors = {**library.probe_errors, ours: {"mape": 0.1, "log_p95": error}}
    return replace(library, constants={**library.constants, **copied}, probe_errors=errors)


def seconds(both: Calibration, provider: str) -> float:
    point = product(300, 4096, 8192, provider=provider)
    (answer,) = calibrated.predict([point], Sources(calibration=both))
    return answer.total_s


def test_a_point_is_answered_by_its_providers_constants() -> None:
    both = with_ours(launch_s=1e-6)
    shapes = describe("bf16", *SIZES, TILES, UNITS)
    for provider, launch_s in (("cublaslt", 3e-6), ("triton", 1e-6)):
        expected = evaluate(TRUTH | {"launch_s": launch_s}, shapes, TILES).total[0]
        assert seconds(both, provider) == pytest.approx(expected)


def test_the_interval_is_the_providers_own() -> None:
    point = product(300, 4096, 8192, provider="triton")
    (answer,) = calibrated.predict([point], Sources(calibration=with_ours(error=0.3)))
    assert answer.high_s == pytest.approx(answer.total_s * np.exp(0.3))


@pytest.mark.parametrize(("launch_s", "fastest"), [(1e-6, "triton"), (9e-6, "cublaslt")])
def test_a_point_without_a_provider_is_that_of_the_fastest(launch_s: float, fastest: str) -> None:
    both = with_ours(launch_s=launch_s)
    assert seconds(both, "") == seconds(both, fastest)


def test_a_provider_that_was_not_calibrated_has_no_prediction() -> None:
    sources = Sources(calibration=calibration())
    assert calibrated.predict([product(64, 64, 64, provider="triton")], sources) == []
    with pytest.raises(KeyError, match="triton"):
        calibrated.products_by(sources, "triton", "bf16", *SIZES)


def test_points_of_several_providers_keep_their_order() -> None:
    whose = ("triton", "cublaslt", "", "triton")
    points = [product(m, 512, 512, provider=name) for m, name in enumerate(whose, start=1)]
    both = calibrated.predict(points, Sources(calibration=with_ours()))
    assert [answer.point_id for answer in both] == [point.point_id for point in points]


def test_vectors_without_a_provider_are_the_librarys_even_where_it_is_slower() -> None:
    sources = Sources(calibration=with_ours(launch_s=1e-6))
    named = [
        calibrated.products_by(sources, name, "bf16", *SIZES).total[0]
        for name in ("cublaslt", "triton")
    ]
    assert named[1] < named[0]
    assert calibrated.product_times(sources, "bf16", *SIZES).total[0] == named[0]


def test_a_recipe_that_ours_alone_has_is_answered_by_ours() -> None:
    both = with_ours()
    constants = {k: v for k, v in both.constants.items() if not k.startswith("gemm.cublaslt.bf16")}
    sources = Sources(calibration=replace(both, constants=constants))
    assert set(calibrated.product_recipes(sources)) == {"fp8_tensorwise", "bf16"}
    total = calibrated.product_times(sources, "bf16", *SIZES).total[0]
    assert total == seconds(both, "triton")


def test_the_parts_of_a_pair_nobody_calibrated_are_a_key_error() -> None:
    with pytest.raises(KeyError, match=r"mkl\.bf16"):
        calibrated_products.product_parts(calibration(), "mkl", "bf16", SIZES)


def limited_to(flops_per_s: float) -> Calibration:
    """The made-up calibration of a card whose power allows so many operations per second."""
    made, name = calibration(), "gemm.cublaslt.bf16.sustained_flops_per_s"
    return replace(made, constants={**made.constants, name: exactly(flops_per_s, "flop/s")})


def test_a_card_that_rests_is_faster_by_the_squares_of_rest_and_error() -> None:
    sizes = [np.array([8192.0])] * 3
    limited, resting = limited_to(4e14), limited_to(1e30)
    error = limited.probe_errors["gemm.cublaslt.bf16"]["log_p95"]
    times = (
        calibrated_products.product_times(c, "cublaslt", "bf16", sizes) for c in (limited, resting)
    )
    slow, fast = (float(answer.total[0]) for answer in times)
    rest = np.log(slow / fast)
    assert rest > error
    low = calibrated_products.fastest_times(limited, "cublaslt", "bf16", sizes)
    assert low == pytest.approx(slow / np.exp(np.hypot(rest, error)), rel=1e-6)
