"""Where a linear in a narrow recipe, its casts included, is faster than in bf16.

speed-up = t_bf16 / t_recipe. Its interval takes the errors of the two times as independent in log
space: the half-widths of the two 95 % intervals, as logarithms, add as squares,

    high = speed-up * exp(sqrt(ln(t_bf16_high / t_bf16)^2 + ln(t / t_low)^2)),  low alike.

Adding them as they are would say that bf16 is slowest exactly when the recipe is fastest. On the
published H200 records (152 study shapes of op gemm, no casts) the two errors correlate by 0.59
(fp8_tensorwise) and -0.16 (fp8_axiswise); squares cover 100 % and 95 % of the measured ratios, sums
100 % and 99 %: squares are wide enough, sums too wide. (A product that both have in common, such
as a bf16 grad_weight, is counted as two independent ones; that too is on the wide side.)

Break-even is the smallest M from which on the speed-up stays above 1. Time is not smooth in M
(waves of tiles), so M runs over a grid, GRID: every multiple of 16 to 1024, then 64 steps per
doubling, to 131072. What happens between two steps, at most 1.6 % apart, is not looked at.
"""

import difflib
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from roofcal.core.recipes import GEMM_RECIPES
from roofcal.core.times import Array, Times
from roofcal.models.errors import PredictError
from roofcal.models.linear import (
    BF16_GRAD_WEIGHT,
    Linear,
    cast_providers,
    has_casts,
    linear_times,
    product_recipes,
)
from roofcal.models.registry import Model
from roofcal.models.sources import Sources
from roofcal.ops import BY_NAME

BASELINE: Final = str(BY_NAME["gemm"].baseline_recipe)
MULTIPLE: Final = 16  # torch._scaled_mm refuses fp8 with N or K off it
LARGEST_M: Final = 1 << 17
_LARGEST_SIDE: Final = 1 << 30
_PER_DOUBLING: Final = 64
GRID: Final[NDArray[np.float64]] = np.array(
    [*range(MULTIPLE, 1024, MULTIPLE)]
    + [(1 << p) + (i << p) // _PER_DOUBLING for p in range(10, 17) for i in range(_PER_DOUBLING)]
    + [LARGEST_M],
    dtype=np.float64,
)

Class = Literal["faster", "slower", "uncertain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedups:
    """t_bf16 / t_recipe of many shapes; low and high: 95 %, None for a model without intervals."""

    value: Array
    low: Array | None
    high: Array | None

    def classes(self) -> list[Class]:
        """faster where low > 1, slower where high < 1, else uncertain."""
        low = self.value if self.low is None else self.low
        high = self.value if self.high is None else self.high
        kinds: dict[bool, Class] = {True: "faster", False: "uncertain"}
        return ["slower" if h < 1 else kinds[bool(s > 1)] for s, h in zip(low, high, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakeven:
    """Smallest M of GRID from which on a recipe is faster than bf16; None: never up to LARGEST_M.

    m        by the model's best estimate
    m_low    from here on it may be: the high end of the speed-up stays above 1
    m_high   from here on it surely is: the low end stays above 1
    stated   whether the model states intervals; without, m_low and m_high are None
    speedups on GRID
    """

    m: int | None
    m_low: int | None
    m_high: int | None
    stated: bool
    speedups: Speedups


def breakeven(model: Model, sources: Sources, linear: Linear, n: int, k: int) -> Breakeven:
    """The break-even M of y[M,N] = x[M,K] @ w[N,K].T.

    Raises PredictError for a recipe, casts or sizes that cannot be compared, saying what can.
    """
    check(model, sources, linear)
    check_sides(linear.recipe, n, k)
    sides = (np.full_like(GRID, float(side)) for side in (n, k))
    found = speedups(model, sources, linear, GRID, *sides)
    return Breakeven(
        m=lasting(found.value),
        m_low=lasting(found.high),
        m_high=lasting(found.low),
        stated=found.low is not None,
        speedups=found,
    )


def speedups(
    model: Model, sources: Sources, linear: Linear, m: Array, n: Array, k: Array
) -> Speedups:
    """Speed-ups of many shapes; raises KeyError for what the model does not know."""
    baseline = Linear(recipe=BASELINE, passes=linear.passes, casts="none")
    ours = linear_times(model, sources, linear, m, n, k)
    return ratio(linear_times(model, sources, baseline, m, n, k), ours)


def ratio(baseline: Times, ours: Times) -> Speedups:
    """baseline / ours with the interval of this module."""
    value = baseline.total / ours.total
    if baseline.low is None or baseline.high is None or ours.low is None or ours.high is None:
        return Speedups(value=value, low=None, high=None)
    up = np.hypot(np.log(baseline.high / baseline.total), np.log(ours.total / ours.low))
    down = np.hypot(np.log(baseline.total / baseline.low), np.log(ours.high / ours.total))
    return Speedups(value=value, low=value * np.exp(-down), high=value * np.exp(up))


def lasting(speedup: Array | None) -> int | None:
    """The first M of GRID from which on a speed-up on GRID is above 1; None for never."""
    if speedup is None:
        return None
    slow = np.flatnonzero(~(speedup > 1))
    first = int(slow[-1]) + 1 if len(slow) else 0
    return int(GRID[first]) if first < len(GRID) else None


def recipes(model: Model, sources: Sources) -> list[str]:
    """Recipes that can be compared with bf16 by a model."""
    known = model.product_recipes(sources)
    if BASELINE not in known:
        return []
    names = [name for name in known if name != BASELINE]
    return [*names, BF16_GRAD_WEIGHT] if "fp8_axiswise" in names else names


def check(model: Model, sources: Sources, linear: Linear) -> None:
    """Raises PredictError unless the model can compare a linear with bf16."""
    allowed = recipes(model, sources)
    if linear.recipe not in allowed:
        raise PredictError(_unknown(model, linear.recipe, allowed))
    if linear.casts == "none":
        return
    if not has_casts(linear.recipe):
        raise PredictError(
            f"recipe '{linear.recipe}' has no casts that are measured; --casts none compares its "
            "products alone"
        )
    known = cast_providers(model, sources, linear)
    if linear.casts not in known:
        raise PredictError(
            f"model '{model.MODEL}' knows no casts of {linear.recipe} by {linear.casts} here; "
            f"--casts can be {', '.join(('none', *known))}"
        )


def check_sides(recipe: str, n: int, k: int) -> None:
    """Raises PredictError for weights that no kernel of the recipe takes."""
    first = GEMM_RECIPES[product_recipes(recipe, "forward")["output"]]
    for name, side in (("n", n), ("k", k)):
        if not 0 < side <= _LARGEST_SIDE:
            raise PredictError(f"--{name} {side} is not a whole number from 1 to 2^30")
        if first.math_dtype == "fp8" and side % MULTIPLE:
            below = side - side % MULTIPLE
            near = f"{below} or {below + MULTIPLE}" if below else str(MULTIPLE)
            raise PredictError(
                f"--{name} {side} is not a multiple of {MULTIPLE}, which products of {recipe} "
                f"need; the nearest: {near}"
            )


def _unknown(model: Model, recipe: str, allowed: list[str]) -> str:
    if not allowed:
        return f"model '{model.MODEL}' knows no {BASELINE} products here: nothing to compare with"
    names = f"recipes to compare with {BASELINE}: {', '.join(allowed)}"
    if recipe == BASELINE:
        return f"--recipe {BASELINE} is what others are compared with; {names}"
    close = difflib.get_close_matches(recipe, allowed, n=1)
    hint = f"; did you mean '{close[0]}'?" if close else "."
    return f"model '{model.MODEL}' has no recipe '{recipe}' here{hint} There are the {names}"
