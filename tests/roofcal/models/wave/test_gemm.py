"""Products by hand, and what must hold of every shape."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofcal.core.devices import load_device
from roofcal.core.recipes import GEMM_RECIPES
from roofcal.models.errors import PredictError
from roofcal.models.wave.gemm import (
    narrow_product_times,
    product_times,
    tile_clocks,
)
from tests.paths import ROOT
from tests.roofcal.models.runs import WAVE
from tests.roofcal.models.wave_layer import product

SIDES = st.integers(1, 1 << 15)
ONE_TILE = replace(WAVE, tiles=((128, 128),))
H200 = ROOT / "config/devices/nvidia-h200.yaml"


def test_a_tile_by_hand() -> None:
    clocks = tile_clocks(ONE_TILE, GEMM_RECIPES["bf16"], np.array([1000.0]), np.array([[100.0]]))
    math = 2 * 128 * 128 * 1000 / 4000
    l2 = ((128 + 128) * 1000 * 2 + 128 * 128 * 2) / 80
    lds = (2 * 128 + 2 * 128) * 1000 * 2 / 256
    assert clocks[:, 0, 0] == pytest.approx([math, l2, lds])


def test_one_full_wave_by_hand() -> None:
    time = product(ONE_TILE, "bf16", 1280, 1280, 1000)  # 100 tiles on 100 units
    assert time.total_s == pytest.approx(1e-6 + 2 * 128 * 128 * 1000 / 4000 / 0.5e9)
    assert time.bound_by == "math"


def test_one_token_is_bound_by_memory() -> None:
    time = product(WAVE, "bf16", 1, 8192, 8192)
    assert time.bound_by == "dram"
    moved = 2 * (8192 * 8192 + 2 * 8192)
    assert time.total_s == pytest.approx(1e-6 + moved / 2e12)


@pytest.mark.parametrize(
    ("slow", "bound"), [("lds_bytes_per_clock", "lds"), ("l2_read_bytes_per_clock", "l2")]
)
def test_slow_lds_or_a_slow_cache_bounds_a_product(slow: str, bound: str) -> None:
    device = replace(ONE_TILE, **{slow: 16.0})  # type: ignore[arg-type]
    assert product(device, "bf16", 4096, 4096, 4096).bound_by == bound


@given(m=SIDES, n=SIDES, k=SIDES, axis=st.integers(0, 2), more=st.integers(1, 5000))
def test_a_larger_product_never_takes_less(m: int, n: int, k: int, axis: int, more: int) -> None:
    sizes = [np.array([float(size)] * 2) for size in (m, n, k)]
    sizes[axis][1] += more
    total = product_times(WAVE, GEMM_RECIPES["bf16"], *sizes).total
    assert total[1] >= total[0] * (1 - 1e-12)


@given(m=SIDES, n=SIDES, k=SIDES)
def test_no_product_beats_its_roofline(m: int, n: int, k: int) -> None:
    seconds = product(WAVE, "fp8_tensorwise", m, n, k).total_s
    assert seconds >= 2 * m * n * k / (8000 * 100 * 1e9) * (1 - 1e-12)
    assert seconds >= ((m + n) * k + 2 * m * n) / 4e12


def test_mistakes_are_named() -> None:
    with pytest.raises(PredictError, match="has no 'int8'"):
        product(WAVE, "int8", 4, 4, 4)
    with pytest.raises(KeyError):
        product(WAVE, "bf61", 4, 4, 4)


def test_sixteen_rows_take_about_as_long_as_fifteen() -> None:
    """The tiled product once took 128 us on an H200, the skinny one 7.6."""
    h200 = load_device(H200).wave
    assert h200 is not None
    few, more = (product(h200, "bf16", m, 64, 65536).total_s for m in (15, 16))
    assert few < more < 1.2 * few


def test_packed_weights_save_no_tile_time_beyond_decode() -> None:
    wave = load_device(H200).wave
    assert wave is not None
    sizes = [np.array([1.0, 4096.0, 16384.0]), *(np.full(3, 8192.0) for _ in "nk")]
    full = product_times(wave, GEMM_RECIPES["bf16"], *sizes)
    narrow = narrow_product_times(wave, np.zeros(3), *sizes)
    assert narrow.tiles[1:] == pytest.approx(full.tiles[1:])
    assert narrow.limit[1:] == full.limit[1:]
    assert narrow.tiles[0] < full.tiles[0]
