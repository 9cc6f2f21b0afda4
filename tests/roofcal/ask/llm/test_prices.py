"""Prices: the calibrated model's own where it has one, stated formulas elsewhere."""

from dataclasses import replace

import numpy as np
import pytest

from roofcal.ask.llm.architecture import Side
from roofcal.ask.llm.prices import (
    ATTENTION_SHARE,
    CACHE_SHARE,
    Prices,
    can_price,
    prices_of,
    recipes_of,
)
from roofcal.models import calibrated as calibrated_model
from roofcal.models.errors import PredictError
from roofcal.models.sources import Sources
from tests.roofcal.ask.llm.questions import LINKED, SOURCES, calibrated
from tests.roofcal.models.runs import calibration

SIDE = Side(n=8192, k=4096)
PRICES = prices_of(SOURCES, "bf16")


@pytest.mark.parametrize("recipe", ["bf16", "fp8_tensorwise"])
def test_a_product_is_that_of_the_calibrated_model(recipe: str) -> None:
    priced = PRICES.product(recipe, 64, SIDE)
    sizes = (np.array([x]) for x in (64.0, 8192.0, 4096.0))
    times = calibrated_model.product_times(SOURCES, recipe, *sizes)
    assert times.low is not None
    assert priced.duration.value_s == times.total[0]
    assert priced.duration.low_s == times.low[0]
    assert priced.bound_by == times.bound_by[0]


@pytest.mark.parametrize("rows", [1, 16, 300, 8192])
def test_int4_is_never_slower_than_bf16_and_keeps_its_ends_in_order(rows: int) -> None:
    small, large = PRICES.product("int4", rows, SIDE), PRICES.product("bf16", rows, SIDE)
    d = small.duration
    assert d.low_s <= d.value_s <= d.high_s
    assert d.value_s <= large.duration.value_s


def test_int4_saves_bytes_and_no_math() -> None:
    def gain(rows: int) -> float:
        by = [PRICES.product(r, rows, SIDE).duration.value_s for r in ("bf16", "int4")]
        return by[0] / by[1]

    assert gain(1) > 1.5
    assert gain(8192) == pytest.approx(1, abs=0.01)


def test_int4_is_not_faster_than_its_bytes() -> None:
    least = 4.25 / 8 * SIDE.n * SIDE.k / 4.6e12
    assert PRICES.product("int4", 1, SIDE).duration.low_s > least


def test_a_group_of_one_is_a_product() -> None:
    alone, grouped = PRICES.product("bf16", 64, SIDE), PRICES.grouped("bf16", 64, 1, SIDE)
    assert grouped == alone


def test_a_group_reads_the_weights_of_all_its_experts() -> None:
    one = PRICES.product("bf16", 1, SIDE).duration.value_s
    many = PRICES.grouped("bf16", 32, 32, SIDE).duration.value_s
    assert 20 * one < many < 32 * one


@pytest.mark.parametrize("recipe", ["bf16", "fp8_tensorwise", "int4"])
def test_a_groups_high_end_reads_the_rows_again(recipe: str) -> None:
    grouped = PRICES.grouped(recipe, 4096, 8, SIDE).duration
    wide = PRICES.product(recipe, 512, Side(n=8 * SIDE.n, k=SIDE.k)).duration
    assert (grouped.value_s, grouped.low_s) == (wide.value_s, wide.low_s)
    width = 1 if recipe == "fp8_tensorwise" else 2
    again = width * (4096 - 512) * SIDE.k / 4.4e12
    assert grouped.high_s - wide.high_s == pytest.approx(again, rel=0.01)


def test_a_cast_is_that_of_the_fastest_provider() -> None:
    priced = PRICES.cast("fp8_rowwise_dim0", 64, 4096)
    sizes = np.array([64.0]), np.array([4096.0])
    quick, slow = (
        calibrated_model.cast_times(SOURCES, provider, "fp8_rowwise_dim0", *sizes)
        for provider in ("torch_compile", "torch_eager")
    )
    assert quick.high is not None
    assert quick.total[0] < slow.total[0]
    assert priced.duration.value_s == quick.total[0]
    assert priced.duration.high_s == quick.high[0]
    assert priced.bound_by == quick.bound_by[0]


def test_a_cast_that_was_not_calibrated_moves_its_least_bytes() -> None:
    assert PRICES.cast("fp8_tensorwise", 64, 4096) == PRICES.moved(5 * 64 * 4096 + 4)


def test_bytes_move_at_the_copy_bandwidth_after_a_launch() -> None:
    priced = PRICES.moved(4e9)
    assert priced.duration.value_s == pytest.approx(1e-6 + 1e-3)
    assert priced.duration.low_s == pytest.approx(1e-6 + 4e9 / 4.1e12)
    cast = PRICES.cast("fp8_rowwise_dim0", round(4e9 / 3 / 8192), 8192).duration
    assert priced.duration.high_s == pytest.approx(max(cast.value_s, 1e-6 + 4e9 / 3.9e12))
    assert (priced.bound_by, PRICES.moved(10).bound_by) == ("dram", "launch")


def test_a_small_kernel_may_take_as_long_as_a_small_cast() -> None:
    small = PRICES.moved(3 * 8192).duration
    assert small.value_s == pytest.approx(1e-6 + 3 * 8192 / 4e12)
    assert small.high_s == PRICES.cast("fp8_rowwise_dim0", 1, 8192).duration.value_s
    assert small.high_s > 1.5 * small.value_s


def test_without_calibrated_casts_the_streams_own_interval_is_left() -> None:
    known = calibrated()
    left = {k: v for k, v in known.constants.items() if not k.startswith("cast.")}
    bare = Prices(calibration=replace(known, constants=left), spec=LINKED)
    assert bare.moved(4e9).duration.high_s == pytest.approx(1e-6 + 4e9 / 3.9e12)


def test_attention_is_bound_by_the_longer_of_math_and_cache() -> None:
    math = PRICES.attention(1e12, 1)
    assert math.bound_by == "math"
    assert math.duration.value_s == pytest.approx(1e-6 + 1e-3 / ATTENTION_SHARE.value)
    read = PRICES.attention(1, 4.5e9)
    assert read.bound_by == "dram"
    assert read.duration.value_s == pytest.approx(1e-6 + 1e-3)
    assert read.duration.high_s == pytest.approx(1e-6 + 4.5e9 / 4.4e12 / CACHE_SHARE)
    assert PRICES.attention(1, 1).bound_by == "launch"


def test_recipes_are_those_calibrated_and_int4() -> None:
    assert recipes_of(SOURCES) == ("bf16", "fp8_tensorwise", "int4")
    assert recipes_of(Sources(spec=LINKED)) == ()


def test_an_unknown_recipe_is_answered_with_those_known() -> None:
    with pytest.raises(PredictError, match="'fp8_axiswise' of `llm`; it knows bf16, fp8_tensorw"):
        prices_of(SOURCES, "fp8_axiswise")


def test_a_missing_bandwidth_is_named_with_its_probe() -> None:
    with pytest.raises(PredictError, match=r"has no dram_read_bytes_per_s; run `make study` again"):
        prices_of(Sources(calibration=calibration(), spec=LINKED), "bf16")


@pytest.mark.parametrize("known", [Sources(spec=LINKED), replace(SOURCES, spec=None)])
def test_a_device_needs_a_calibration_and_a_datasheet(known: Sources) -> None:
    with pytest.raises(PredictError, match="needs a calibration and a file in config/devices"):
        prices_of(known, "bf16")


def test_what_can_be_priced_is_known_beforehand() -> None:
    assert can_price(SOURCES)
    assert not can_price(replace(SOURCES, spec=None))
    assert not can_price(Sources(calibration=calibration(), spec=LINKED))
    assert not can_price(Sources(spec=LINKED))


def test_prices_may_be_made_directly() -> None:
    assert Prices(calibration=calibrated(), spec=LINKED) == PRICES
