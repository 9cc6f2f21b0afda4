"""Break-even by hand: crossing, interval, never, waves, linears that are refused; and the map."""

import csv
import math
from dataclasses import replace
from io import StringIO
from typing import Any

import numpy as np
import pytest

from roofcal.ask.advise import Adviser
from roofcal.ask.breakeven import (
    COLUMNS,
    GRID,
    LARGEST_M,
    TOKENS,
    WEIGHTS,
    Breakeven,
    Speedups,
    breakeven,
    comparable_recipes,
    first_lasting_m,
    linear_speedups,
    map_csv,
    sentences,
    speedup_ratio,
)
from roofcal.ask.linear_options import LinearTimes
from roofcal.ask.shape_limits import FAR
from roofcal.core.times import Array, BeyondProbes, Times
from roofcal.models import calibrated
from roofcal.models.errors import PredictError
from roofcal.ops.linear.model import (
    BF16_GRAD_WEIGHT,
    FASTEST,
    PASSES,
    Linear,
    Passes,
    usual_weights,
)
from roofcal.ops.time_models import Sources
from tests.roofcal.ask.published_run import published_sources
from tests.roofcal.models.runs import SPEC
from tests.roofcal.models.stand_in import Seconds, StandIn

NO_TIME = Sources()
PUBLISHED_TIMES = LinearTimes(calibrated, published_sources())
ALONE = Linear(recipe="fp8_axiswise", casts="none")
GAP = 1.2  # factor between a speed-up and the ends of its interval
FACTOR = GAP ** (1 / math.sqrt(2))  # of each time: sqrt(2) ln(FACTOR) = ln(GAP)


def crossing(at: float, factor: float | None = None, wave: Seconds | None = None) -> StandIn:
    """Speed-up 2 m / (m + at): 1 at m = `at`. `wave` is added to the seconds of fp8."""

    def narrow(sizes: Array) -> Array:
        added = wave(sizes) if wave else np.zeros_like(sizes[0])
        return np.asarray(sizes[0] + at + added)

    return StandIn(products={"bf16": lambda s: 2 * s[0], "fp8_axiswise": narrow}, factor=factor)


def answer_of(model: StandIn, linear: Linear = ALONE) -> Breakeven:
    return breakeven(model, NO_TIME, linear, 4096, 4096)


@pytest.mark.parametrize(
    ("at", "factor", "ends"),
    [
        (1000, None, (None, 1008, None)),
        (1008, None, (None, 1024, None)),  # equal is not faster
        (0.5, None, (None, 1, None)),
        # high > 1: 2m / (m + 1000) > 1 / 1.2, m > 714.3; low > 1: 2m / (m + 1000) > 1.2, m > 1500
        (1000, FACTOR, (720, 1008, 1504)),
        (2 * LARGEST_M, None, (None, None, None)),
        (1.1 * LARGEST_M, FACTOR, (103424, None, None)),
        (LARGEST_M / 1.3, FACTOR, (72704, 101376, None)),
    ],
)
def test_break_even_and_its_ends_are_the_first_m_beyond_the_crossing(
    at: float, factor: float | None, ends: tuple[int | None, ...]
) -> None:
    answer = answer_of(crossing(at, factor))
    assert (answer.m_low, answer.m, answer.m_high) == ends
    assert (answer.speedups.low is None) == (factor is None)


def test_what_lies_far_beyond_the_probes_takes_back_no_break_even() -> None:
    speedup = np.where((GRID >= 1024) & (GRID <= 65536), 1.5, 0.9)
    doublings = np.where(GRID <= 16384, 0.0, 1.0)
    assert first_lasting_m(speedup) is None
    assert first_lasting_m(speedup, doublings) == 1024
    assert first_lasting_m(speedup, np.where(GRID <= 512, 0.0, 1.0)) is None
    assert first_lasting_m(speedup, np.ones_like(GRID)) is None
    beyond = BeyondProbes(doublings=doublings, is_unprobed=np.zeros(GRID.shape, bool))
    speedups = Speedups(value=speedup, low=speedup / 1.2, high=speedup * 1.2, beyond=beyond)
    assert speedups.breakeven == (1024, 1, 1024)


def test_the_best_speedup_is_one_within_the_probes_where_there_is_any() -> None:
    rising = GRID / 1000
    doublings = np.where(GRID <= 16384, 0.0, 1.0)
    speedups = Speedups(value=rising, low=None, high=None)
    assert GRID[speedups.best] == LARGEST_M
    nothing_probed = np.zeros(GRID.shape, bool)
    for outside, best in ((doublings, 16384), (doublings + 1, LARGEST_M)):
        beyond = BeyondProbes(doublings=outside, is_unprobed=nothing_probed)
        assert GRID[replace(speedups, beyond=beyond).best] == best


def test_weights_that_no_memory_holds_are_refused() -> None:
    with pytest.raises(PredictError, match=r"does not fit made-up"):
        breakeven(calibrated, replace(published_sources(), spec=SPEC), ALONE, 1 << 24, 1 << 24)


def test_half_widths_add_as_squares() -> None:
    def times(total: float, low: float, high: float) -> Times:
        low_s, high_s = np.array([low]), np.array([high])
        return Times(total=np.array([total]), low=low_s, high=high_s, bound_by=["math"])

    three, four = math.exp(3), math.exp(4)
    answer = speedup_ratio(times(1.0, 1 / three, four), times(1.0, 1 / three, four))
    assert answer.low is not None
    assert answer.high is not None
    assert answer.high[0] == pytest.approx(math.exp(5))  # bf16 slower by e^4, ours faster by e^3
    assert answer.low[0] == pytest.approx(math.exp(-5))


AXISWISE = Linear(recipe="fp8_axiswise", casts=FASTEST)


@pytest.mark.parametrize(
    ("linear", "k", "message"),
    [
        (replace(AXISWISE, recipe="bf16"), 16, "--recipe bf16 is what others are compared with"),
        (replace(AXISWISE, recipe="fp8_axiswize"), 16, "did you mean 'fp8_axiswise'"),
        (replace(AXISWISE, recipe="nvfp9"), 16, "recipes to compare with bf16: fp8_axiswise"),
        (ALONE, 100, "no provider runs fp8_axiswise with 16 x 100 .n x k. weights: cublaslt and "
         "triton take .*got k=100; the nearest that works: k=96 or 112"),
        (ALONE, 9, "the nearest that works: k=16$"),
        (ALONE, 1 << 31, "from 1 to 2\\^30"),
        (AXISWISE, 16, "knows no casts of fp8_axiswise here; give --casts none, which "),
        (replace(AXISWISE, recipe="int8"), 16, "'int8' has no measured casts; --casts none"),
    ],
)  # fmt: skip
def test_a_linear_that_cannot_be_compared_says_which_can(
    linear: Linear, k: int, message: str
) -> None:
    model = crossing(1)
    model.products["int8"] = model.products["bf16"]
    with pytest.raises(PredictError, match=message):
        breakeven(model, NO_TIME, linear, 16, k)


@pytest.mark.parametrize(("passes", "n", "k", "says"), [
    ("forward", 28672, 8208, "weights: cublaslt and triton take .*got k=8208;"),
    ("forward_backward", 28688, 8192, "weights: grad_input: .*got k=28688; .*k is n here"),
])  # fmt: skip
def test_weights_that_no_provider_runs_are_refused_with_the_reason(
    passes: Passes, n: int, k: int, says: str
) -> None:
    linear = Linear(recipe="fp8_blockwise_128x128", passes=passes, casts=FASTEST, weights="cast")
    with pytest.raises(PredictError, match=says):
        breakeven(calibrated, published_sources(), linear, n, k)
    speedups = linear_speedups(PUBLISHED_TIMES, linear, n, k)
    with pytest.raises(ValueError, match="at any M"):
        _ = speedups.best


def test_an_m_that_no_provider_runs_has_no_speedup_and_ends_none() -> None:
    recipe = "fp8_blockwise_128x128"
    linear = Linear(recipe=recipe, passes="forward_backward", casts=FASTEST, weights="cast")
    answer = breakeven(calibrated, published_sources(), linear, 28672, 8192)
    assert np.isnan(answer.speedups.value).tolist() == (GRID % 128 != 0).tolist()
    assert answer.m is not None
    assert answer.m % 128 == 0
    assert answer.m < 8192
    assert not np.isnan(answer.speedups.value[answer.speedups.best])


def test_every_recipe_is_compared_with_bf16_where_bf16_is_there() -> None:
    model = crossing(1)
    assert comparable_recipes(model, NO_TIME) == ["fp8_axiswise", BF16_GRAD_WEIGHT]
    model.products["int8"] = lambda s: s[0]  # which takes any size
    assert breakeven(model, NO_TIME, Linear(recipe="int8", casts="none"), 100, 7).m == 1
    with pytest.raises(PredictError, match="knows no bf16 products"):
        breakeven(StandIn(products={}), NO_TIME, ALONE, 16, 16)


@pytest.mark.parametrize(
    ("n", "k", "passes"),
    [(28665, 8192, "forward"), (28672, 8192, "forward"), (4096, 4096, "forward_backward")],
)
def test_advise_and_break_even_predict_one_speedup(n: int, k: int, passes: Passes) -> None:
    weights = usual_weights(passes)
    places = [*range(0, len(GRID), 32), int(GRID.searchsorted(1024))]
    adviser = Adviser(calibrated, published_sources(), passes, weights)
    advice = adviser.advise([{"m": int(GRID[place]), "n": n, "k": k} for place in places])
    compared = 0
    for recipe in ("fp8_axiswise", "fp8_tensorwise", "fp8_blockwise_128x128"):
        linear = Linear(recipe=recipe, passes=passes, casts=FASTEST, weights=weights)
        speedups = linear_speedups(PUBLISHED_TIMES, linear, n, k)
        for place, answer in zip(places, advice, strict=True):
            best = answer.best_by_recipe
            if recipe not in best:
                assert np.isnan(speedups.value[place])
                continue
            ours, bf16 = best[recipe], best["bf16"]
            assert speedups.value[place] == pytest.approx(bf16.seconds / ours.seconds)
            by = speedups.by[place]
            assert (by.products_by, by.casts_by) == (ours.products_by, ours.casts_by)
            compared += 1
    assert compared > (0 if n % 16 else 2) * len(places)  # odd sides are triton's alone


ANSWER: dict[str, Any] = {
    "model": "calibrated", "device": "made-up", "environment": "e1", "n": 64, "k": 32,
    "products_by": "cublaslt", "casts_by": "triton", "best_products_by": "triton",
    "best_casts_by": "triton", "recipe": "fp8_axiswise", "baseline": "bf16",
    "pass": "forward_backward", "casts": "fastest", "weights": "cast", "m": 1008, "m_low": 720,
    "m_high": 1504, "largest_m": 131072, "best_m": 8192, "best_speedup": 1.5,
    "best_speedup_low": 1.25, "best_speedup_high": 1.8, "extrapolated": False,
    "extrapolated_doublings": 0.0, "m_low_extrapolated_doublings": 0.0,
    "m_high_extrapolated_doublings": 0.0, "best_extrapolated_doublings": 0.0,
    "probed_m": [16, 16384], "unprobed": False,
}  # fmt: skip


NO_INTERVAL = dict.fromkeys(("m_low", "m_high", "best_speedup_low", "best_speedup_high"))
NEVER = (
    "Keep bf16: there is no M up to 131072 from which on fp8_axiswise, casts included, stays faster"
)
SLOW = {"best_speedup": 0.98}
FAR_OUT = {"extrapolated_doublings": 5.0, "probed_m": None, "unprobed": True}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"m_low": 1008, "m_high": 1008}, "from M = 1008 on (95 %: the same M)"),
        ({"m_high": None}, "(95 %: that M lies from 720 to beyond 131072)"),
        (SLOW | {"m": None, "m_high": None}, f"{NEVER} (95 %: perhaps from M = 720 on)"),
        (SLOW | dict.fromkeys(("m", "m_low", "m_high")), f"{NEVER}\n"),
        (
            dict.fromkeys(("m", "m_low", "m_high")),
            "fp8_axiswise, casts included, is faster than bf16 at some M (at best 1.50x at M = "
            "8192), and there is no M up to 131072 from which on it stays so\n",
        ),
        (NO_INTERVAL, "from M = 1008 on (no interval: this model states none)"),
        ({"extrapolated_doublings": FAR}, "as advise ranks them"),
        ({"casts": "none"}, "fp8_axiswise, casts not counted, is faster than bf16 from M = 1008"),
        ({"casts": "none"}, "(95 %: 1.25x to 1.80x), casts not counted, at M = 8192"),
        *(({"casts": casts}, "at each M: ") for casts in ("none", "triton")),
        ({"extrapolated_doublings": FAR + 0.1}, "at each M: "),
        ({"best_extrapolated_doublings": 1.5}, "\nextrapolated: doublings outside the probed "
         "range: 1.5 at M = 8192 (the probes cover M from 16 to 16384); intervals are wider "
         "there\n"),
        ({"m_high": 32768, "m_high_extrapolated_doublings": 1.0}, "range: 1.0 at M = 32768 ("),
        (FAR_OUT, "(the probes cover no M of these weights); intervals are wider there; "
         "treat the answer as a guess\none of its products or casts is unlike any probe"),
    ],
)  # fmt: skip
def test_what_a_person_reads_goes_with_the_answer(changes: dict[str, Any], says: str) -> None:
    assert says in "".join(f"{line}\n" for line in sentences(ANSWER | changes))


def test_an_answer_has_the_keys_that_are_said_and_few_tokens_count() -> None:
    answer = breakeven(calibrated, published_sources(), AXISWISE, 28672, 8192)
    assert set(answer.answer) == set(ANSWER)
    assert answer.m == 1
    assert answer.speedups.value[0] == pytest.approx(1.926, abs=0.01)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(text)))


def test_every_linear_has_every_point_without_casts_and_with_the_fastest() -> None:
    products: dict[str, Seconds] = {
        "bf16": lambda s: 2 * s[0],
        "fp8_tensorwise": lambda s: s[0] + 1000.0,
        "int8": lambda s: s[0],  # whose casts nobody knows
    }
    table = rows(map_csv(StandIn(products=products, casts=("torch_eager",)), NO_TIME))
    assert tuple(table[0]) == COLUMNS
    kinds = {(row["recipe"], row["pass"], row["casts"]) for row in table}
    assert kinds == {
        ("fp8_tensorwise", passes, casts) for passes in PASSES for casts in ("none", "fastest")
    }
    assert len(table) == 4 * len(WEIGHTS) * len(TOKENS)
    assert (TOKENS[:5], TOKENS[-1]) == ((16, 32, 48, 64, 96), LARGEST_M)
    assert (table[0]["low"], table[0]["high"], table[0]["class"]) == ("", "", "slower")
    alone = {row["class"] for row in table if (row["pass"], row["casts"]) == ("forward", "none")}
    assert alone == {"slower", "faster"}, "without an interval nothing is uncertain"

    by_m = {
        int(row["m"]): row
        for row in rows(map_csv(StandIn(products=products, factor=1.1), NO_TIME))
        if (row["pass"], row["n"]) == ("forward", "512")
    }
    assert [by_m[m]["class"] for m in (64, 1024, 8192)] == ["slower", "uncertain", "faster"]
    assert float(by_m[1024]["speedup"]) == pytest.approx(2048 / 2024, rel=1e-3)
    assert float(by_m[1024]["low"]) < 1 < float(by_m[1024]["high"])
