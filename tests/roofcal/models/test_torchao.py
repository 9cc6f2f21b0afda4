"""torchao's products and casts of a plan by hand, and what it takes a device for."""

from dataclasses import replace

import pytest

from roofcal.core.devices import load_devices
from roofcal.models import torchao
from roofcal.models.torchao import SETS
from roofcal.ops.time_models import Sources
from tests.paths import ROOT
from tests.roofcal.models.runs import SOURCES, SPEC, cast, product


def test_a_large_product_reaches_78_percent_of_the_peak_and_on_amd_47() -> None:
    for sources, fraction in (
        (SOURCES, 0.78),
        (Sources(spec=replace(SPEC, vendor="amd")), 0.47),
    ):
        (prediction,) = torchao.predict([product(8192, 8192, 8192)], sources)
        assert prediction.total_s == pytest.approx(2 * 8192**3 / 1e15 / fraction, rel=1e-12)


def test_one_token_in_fp8_reaches_92_percent_of_the_bandwidth() -> None:
    (prediction,) = torchao.predict([product(1, 8192, 8192, "fp8_tensorwise")], SOURCES)
    moved = 8192 + 8192 * 8192 + 2 * 8192  # e4m3 in, bf16 out, scales not counted
    assert prediction.total_s == pytest.approx(moved / 4.8e12 / 0.92, rel=1e-12)


def test_nothing_is_faster_than_two_microseconds() -> None:
    (prediction,) = torchao.predict([product(16, 16, 16)], SOURCES)
    assert (prediction.total_s, prediction.bound_by) == (2e-6, "launch")


@pytest.mark.parametrize(
    ("recipe", "width", "idle"),
    [
        ("fp8_tensorwise", 5, 2e-6),  # amax 2 B, a reduction of nothing, cast 3 B
        ("fp8_rowwise_dim0", 3, 0.0),
        ("fp8_rowwise_dim1", 7, 0.0),  # transpose 4 B, cast 3 B
        ("fp8_rowwise_both", 8, 0.0),  # cast and transpose 5 B, cast 3 B
    ],
)
def test_a_cast_is_the_sum_of_its_kernels(recipe: str, width: int, idle: float) -> None:
    (prediction,) = torchao.predict([cast(16384, 16384, recipe)], SOURCES)
    assert prediction.total_s == pytest.approx(width * 16384**2 / 4.8e12 / 0.92 + idle, rel=1e-12)


def test_torchaos_devices_are_ours_and_their_peaks_the_datasheets_to_a_tenth() -> None:
    """Bandwidth apart: torchao's H100 is a custom board."""
    ours = load_devices(ROOT / "config/devices")
    for rows in SETS.values():
        for device, constants in rows.items():
            for operand, rate in constants.peak_flops_per_s.items():
                assert rate == pytest.approx(ours[device].peak_flops_per_s[operand], rel=0.101)
