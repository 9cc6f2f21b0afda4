"""From which M on a linear in a narrow recipe, its casts included, is faster than in bf16.

Both times are predicted, each by the providers of products and casts that are the fastest at that M
(ask.linear_options), so that `advise` predicts the same speed-up at the same shape. docs/models.md
has the interval of a speed-up, the grid of M, and what the map of a run (breakeven.csv) holds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from roofcal.ask.answers import (
    WEIGHTS_WORDS,
    Answer,
    Record,
    Verdict,
    csv_text,
    filled,
    origin_words,
)
from roofcal.ask.linear_options import BASELINE, LinearTimes, Option, Part
from roofcal.ask.shape_limits import FAR, joined_refusals, memory_refusal, refusals
from roofcal.core.names import did_you_mean, names_with_part
from roofcal.core.recipes import WEIGHT_ONLY_RECIPES
from roofcal.core.records import PlanPoint
from roofcal.core.times import Array, BeyondProbes, Times
from roofcal.models.calibrations import read_calibration
from roofcal.models.errors import PredictError, checked_sizes
from roofcal.models.registry import MODELS
from roofcal.ops import BY_NAME
from roofcal.ops.linear.model import (
    BF16_GRAD_WEIGHT,
    FASTEST,
    PASSES,
    UNCAST,
    Linear,
    cast_providers,
    has_casts,
    usual_weights,
)
from roofcal.ops.time_models import Model, Sources

STEP: Final = 16  # between the M of GRID up to 1024
LARGEST_M: Final = 1 << 17
_PER_DOUBLING: Final = 64
GRID: Final[NDArray[np.float64]] = np.array(
    [1, 2, 4, 8, *range(STEP, 1024, STEP)]
    + [(1 << p) + (i << p) // _PER_DOUBLING for p in range(10, 17) for i in range(_PER_DOUBLING)]
    + [LARGEST_M],
    dtype=np.float64,
)

COLUMNS: Final = (
    *("recipe", "pass", "casts", "m", "n", "k", "speedup", "low", "high", "class"),
    *("breakeven_m", "breakeven_m_low", "breakeven_m_high", "extrapolated_doublings"),
)
# (n, k) of the weights of the map that are layers of Llama 3, of 8B parameters on one GPU and of
# 70B on two -> which layer that is. The others are squares.
LAYERS: Final = {
    (6144, 4096): "8B qkv",
    (28672, 4096): "8B gate/up",
    (4096, 14336): "8B down",
    (5120, 8192): "70B qkv",
    (28672, 8192): "70B gate/up",
    (8192, 14336): "70B down",
}
WEIGHTS: Final = (
    *((side, side) for side in (512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384)),
    *LAYERS,
)
# Powers of two and the middles between them that are multiples of 16.
TOKENS: Final = tuple(
    m
    for power in range(STEP.bit_length() - 1, int(GRID[-1]).bit_length())
    for m in (1 << power, 3 << (power - 1))
    if m % STEP == 0 and m <= GRID[-1]
)
_BLOCK_RECIPE: Final = "fp8_blockwise_128x128"
_AT_TOKENS: Final[NDArray[np.int64]] = np.searchsorted(GRID, TOKENS)

Class = Literal["faster", "slower", "uncertain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedups:
    """t_bf16 / t_recipe of many shapes, with the ends of the 95 % interval.

    value      NaN where no provider runs the shape in the recipe
    low, high  None for a model without intervals
    beyond     how far the part lies beyond the probes that lies farthest; None where nobody knows
    by         the option of the recipe that is timed at each shape
    """

    value: Array
    low: Array | None
    high: Array | None
    beyond: BeyondProbes | None = None
    by: Sequence[Option] = ()

    @property
    def doublings(self) -> Array | None:
        """Doublings outside of the probes; None where nobody knows."""
        return None if self.beyond is None else self.beyond.doublings

    @property
    def best(self) -> int:
        """The place on the grid of the largest speed-up: within the probes, where any M is.

        Raises ValueError where no M has a speed-up.
        """
        is_within = (
            np.zeros(self.value.shape, bool) if self.doublings is None else self.doublings == 0
        )
        runs = ~np.isnan(self.value)
        if not runs.any():
            raise ValueError("no provider runs the linear at any M: there is no best speed-up")
        is_within &= runs
        return int(np.where(runs & (is_within | ~is_within.any()), self.value, -np.inf).argmax())

    @property
    def breakeven(self) -> tuple[int | None, int | None, int | None]:
        """The break-even M of GRID, from where on it may be, and from where it is."""
        ratios = (self.value, self.high, self.low)
        value, low, high = (first_lasting_m(ratio, self.doublings) for ratio in ratios)
        return value, low, high

    def classes(self) -> list[Class]:
        """faster where low > 1, slower where high < 1, else uncertain."""
        low = self.value if self.low is None else self.low
        high = self.value if self.high is None else self.high
        classes: list[Class] = np.select(
            [high < 1, low > 1], ["slower", "faster"], "uncertain"
        ).tolist()
        return classes


@dataclass(frozen=True, kw_only=True)
class Breakeven(Answer):
    """Smallest M of GRID from which on a recipe is faster than bf16; None: never up to LARGEST_M.

    Attributes:
        m: by the model's best estimate, as far as the probes reach; so are the two ends.
        m_low: from here on it may be faster: the high end of the speed-up stays above 1.
        m_high: from here on it is faster: the low end stays above 1. It lies beyond the probes
            where the low end is not above 1 at the largest M within them.
        speedups: on GRID; m_low and m_high are None for a model without intervals.
        answer: everything as `roofcal breakeven --json` prints it.
    """

    device: str
    model: str
    environment: str | None
    linear: Linear = field(repr=False)
    n: int
    k: int
    m: int | None
    m_low: int | None
    m_high: int | None
    speedups: Speedups = field(repr=False)

    @property
    def answer(self) -> dict[str, Any]:
        """JSON values. m, m_low, m_high: None for never up to largest_m.

        products_by, casts_by: who is timed at m, or at best_m where that is None.
        probed_m: the smallest and the largest M whose products and casts all lie within the probes;
            as all that says how far the answer lies beyond them, None where nobody knows.
        """
        ratios, best = self.speedups, self.speedups.best
        ends = {"m": self.m, "m_low": self.m_low, "m_high": self.m_high}
        places = {name: int(GRID.searchsorted(m)) for name, m in ends.items() if m is not None}
        place = places.get("m", best)
        own, best_own = ratios.by[place], ratios.by[best]
        probed, unprobed, doublings = None, None, dict[str, float | None]()
        if ratios.beyond is not None:
            outside = ratios.beyond.doublings
            doublings = {name: float(outside[at]) for name, at in (places | {"best": best}).items()}
            within = GRID[outside == 0]
            probed = [int(within[0]), int(within[-1])] if len(within) else None
            unprobed = bool(ratios.beyond.is_unprobed[place])
        return {
            "model": self.model,
            "device": self.device,
            "environment": self.environment,
            "n": self.n,
            "k": self.k,
            "recipe": self.linear.recipe,
            "baseline": BASELINE,
            "pass": self.linear.passes,
            "casts": self.linear.casts,
            "weights": None if self.linear.casts == "none" else self.linear.weights,
            **ends,
            "largest_m": LARGEST_M,
            "best_m": int(GRID[best]),
            "best_speedup": float(ratios.value[best]),
            "best_speedup_low": None if ratios.low is None else float(ratios.low[best]),
            "best_speedup_high": None if ratios.high is None else float(ratios.high[best]),
            "products_by": own.products_by,
            "casts_by": own.casts_by,
            "best_products_by": best_own.products_by,
            "best_casts_by": best_own.casts_by,
            "extrapolated": None if unprobed is None else any(doublings.values()),
            "extrapolated_doublings": doublings.get("m"),
            "m_low_extrapolated_doublings": doublings.get("m_low"),
            "m_high_extrapolated_doublings": doublings.get("m_high"),
            "best_extrapolated_doublings": doublings.get("best"),
            "probed_m": probed,
            "unprobed": unprobed,
        }

    def parts(self) -> Iterator[str]:
        """Five sentences, and the reservations."""
        return sentences(self.answer)


def sentences(answer: Record) -> Iterator[str]:
    """The `answer` of a break-even for a person."""
    counted = "casts not counted" if answer["casts"] == "none" else "casts included"
    pair = f"{answer['recipe']}, {counted}, is faster than {answer['baseline']}"
    most = answer["largest_m"]
    if answer["m"] is None:
        perhaps = filled(" (95 %: perhaps from M = {m_low} on)", answer)
        if answer["best_speedup"] > 1:
            at_best = filled("at best {best_speedup:.2f}x at M = {best_m}", answer)
            no_m = f"there is no M up to {most} from which on it stays so"
            yield Verdict(f"{pair} at some M ({at_best}), and {no_m}{perhaps}")
        else:
            never = "Keep {baseline}: there is no M up to {largest_m} from which on {recipe}, "
            yield Verdict(f"{filled(never, answer)}{counted}, stays faster{perhaps}")
    elif answer["best_speedup_low"] is None:
        yield Verdict(f"{pair} from M = {answer['m']} on (no interval: this model states none)")
    elif answer["m_low"] == answer["m_high"]:
        yield Verdict(f"{pair} from M = {answer['m']} on (95 %: the same M)")
    else:
        high = answer["m_high"] or f"beyond {most}"
        between = f"that M lies from {answer['m_low']} to {high}"
        yield Verdict(f"{pair} from M = {answer['m']} on (95 %: {between})")
    casts = "no casts"
    if answer["casts"] != "none":
        whose = "the fastest provider" if answer["casts"] == FASTEST else answer["casts"]
        casts = f"casts by {whose}, weights {WEIGHTS_WORDS[answer['weights']]}"
    names = {"m": "", "m_low": "m_low_", "m_high": "m_high_", "best_m": "best_"}
    at_m = {answer[m]: answer[f"{name}extrapolated_doublings"] for m, name in names.items()}
    outside = {m: doublings for m, doublings in at_m.items() if doublings}
    is_guess = max(outside.values(), default=0.0) > FAR
    linear = filled("y[M,{n}] = x[M,{k}] @ w[{n},{k}].T", answer)
    yield f"{answer['pass'].replace('_', ' and ')} of {linear}, {casts}"
    span = filled(" (95 %: {best_speedup_low:.2f}x to {best_speedup_high:.2f}x)", answer)
    best = filled("at best {best_speedup:.2f}x", answer)
    yield f"{best}{span}, {counted}, at M = {answer['best_m']}"
    # advise does not rank what lies so far outside
    is_ranked = answer["casts"] == FASTEST and not is_guess
    yield _who_is_timed(answer, ", as advise ranks them" if is_ranked else "")
    yield origin_words(answer)
    probed = answer["probed_m"]
    span = f"M from {probed[0]} to {probed[1]}" if probed else "no M of these weights"
    if probed and not outside and answer["m"] is not None and probed[1] < most:
        yield f"the probes cover {span}; larger M are not considered"
    if outside:
        places = ", ".join(f"{doublings:.1f} at M = {m}" for m, doublings in outside.items())
        guess = "; treat the answer as a guess" if is_guess else ""
        yield (
            f"extrapolated: doublings outside the probed range: {places} (the probes cover "
            f"{span}); intervals are wider there{guess}"
        )
    if answer["unprobed"]:
        yield "one of its products or casts is unlike any probe: treat the interval as a guess"


def _who_is_timed(answer: Record, as_ranked: str) -> str:
    """Whose products and casts at the break-even M, and where the speed-up is the largest."""
    if answer["products_by"] == "any":
        return "this model does not tell providers apart"
    at: dict[tuple[str, str], dict[int, None]] = {}  # whose products and casts -> M
    for name, m in (("", answer["m"]), ("best_", answer["best_m"])):
        by = answer[f"{name}products_by"], answer[f"{name}casts_by"]
        if m is not None:
            at.setdefault(by, {})[m] = None
    listed = "; ".join(
        f"{products}{'' if casts == 'none' else f', casts by {casts}'} "
        f"(M = {' and '.join(map(str, own))})"
        for (products, casts), own in at.items()
    )
    return f"products by the fastest provider at each M{as_ranked}: {listed}"


def breakeven(model: Model, sources: Sources, linear: Linear, n: int, k: int) -> Breakeven:
    """The break-even M of y[M,N] = x[M,K] @ w[N,K].T.

    Raises PredictError for a recipe, casts or sizes that cannot be compared, with those that can.
    """
    check_linear(model, sources, linear)
    n, k = checked_sizes(n=n, k=k).values()
    weights = PlanPoint(
        op="gemm", provider="", recipe=BASELINE, shape={"m": 1, "n": n, "k": k}, device=""
    )
    if (too_large := memory_refusal(weights, sources.spec)) is not None:
        raise PredictError(too_large)
    times = LinearTimes(model, sources)
    speedups = linear_speedups(times, linear, n, k)
    if np.isnan(speedups.value).all():
        providers: dict[Part, list[str]] = {}
        for part in (part for option in times.options(linear) for part in option.parts):
            own = part.providers(sources)
            providers.setdefault(replace(part, provider=""), []).extend(own)
        sizes, reasons = {"m": LARGEST_M, "n": n, "k": k}, list[str]()
        for part, own in providers.items():
            if refused := refusals(BY_NAME[part.op], own, part.recipe, part.shape(sizes)):
                reasons.append(part.in_linear("; ".join(joined_refusals(refused))))
        raise PredictError(
            f"no provider runs {linear.recipe} with {n} x {k} (n x k) weights: {'; '.join(reasons)}"
        )
    m, m_low, m_high = speedups.breakeven
    return Breakeven(
        device=sources.device,
        model=model.MODEL,
        environment=sources.environment,
        linear=linear,
        n=n,
        k=k,
        m=m,
        m_low=m_low,
        m_high=m_high,
        speedups=speedups,
    )


def linear_speedups(times: LinearTimes, linear: Linear, n: int, k: int) -> Speedups:
    """Speed-ups on GRID of a linear with n x k weights; raises KeyError for one without options."""
    baseline = replace(linear, recipe=BASELINE)
    sizes = {"m": GRID, "n": np.full_like(GRID, float(n)), "k": np.full_like(GRID, float(k))}
    (bf16, _), (ours, ours_by) = (times.fastest(one, sizes) for one in (baseline, linear))
    return replace(speedup_ratio(bf16, ours), by=ours_by)


def speedup_ratio(baseline: Times, ours: Times) -> Speedups:
    """baseline / ours, with the interval of this module; NaN where one has no time."""
    value, beyond = baseline.total / ours.total, ours.beyond
    if baseline.beyond is not None and beyond is not None:
        beyond = beyond.farther(baseline.beyond)
    if baseline.low is None or baseline.high is None or ours.low is None or ours.high is None:
        return Speedups(value=value, low=None, high=None, beyond=beyond)
    up = np.hypot(np.log(baseline.high / baseline.total), np.log(ours.total / ours.low))
    down = np.hypot(np.log(baseline.total / baseline.low), np.log(ours.high / ours.total))
    low, high = value * np.exp(-down), value * np.exp(up)
    return Speedups(value=value, low=low, high=high, beyond=beyond)


def first_lasting_m(speedup: Array | None, doublings: Array | None = None) -> int | None:
    """The first M of GRID from which on a speed-up on GRID stays above 1; None for never.

    An M that no provider runs is passed over. doublings: outside of the probes. Larger M than the
    last one inside the probed range count only if the result lies there, too: their intervals are
    too wide to tell anything.
    """
    if speedup is None:
        return None
    runs = ~np.isnan(speedup)
    slow = np.flatnonzero(runs & ~(speedup > 1))
    within = np.flatnonzero(runs & (doublings == 0)) if doublings is not None else slow[:0]
    if len(within) and speedup[within[-1]] > 1:
        slow = slow[slow < within[-1]]
    fast = np.flatnonzero(runs)
    fast = fast[fast > slow[-1]] if len(slow) else fast
    return int(GRID[fast[0]]) if len(fast) else None


def comparable_recipes(model: Model, sources: Sources) -> list[str]:
    """Recipes that a model can compare with bf16."""
    recipes = model.product_recipes(sources)
    if BASELINE not in recipes:
        return []
    narrow = [name for name in recipes if name != BASELINE]
    return [*narrow, BF16_GRAD_WEIGHT] if "fp8_axiswise" in narrow else narrow


def check_linear(model: Model, sources: Sources, linear: Linear) -> None:
    """Raises PredictError unless the model can compare a linear with bf16."""
    recipe, recipes = linear.recipe, comparable_recipes(model, sources)
    if not recipes:
        raise PredictError(
            f"model '{model.MODEL}' knows no {BASELINE} products here: nothing to compare with"
        )
    names = f"recipes to compare with {BASELINE}: {', '.join(recipes)}"
    if recipe == BASELINE:
        raise PredictError(f"--recipe {BASELINE} is what others are compared with; {names}")
    if names_with_part(recipe, WEIGHT_ONLY_RECIPES) and not names_with_part(recipe, recipes):
        raise PredictError(
            f"recipe '{recipe}' packs the weights, which serves inference alone: `advise` ranks it "
            f"beside {BASELINE}. There are {names}"
        )
    if recipe not in recipes:
        nearest = did_you_mean(recipe, recipes, otherwise=".")
        raise PredictError(
            f"model '{model.MODEL}' has no recipe '{recipe}' here{nearest} There are {names}"
        )
    if linear.casts == "none" or recipe in UNCAST:
        return
    if not has_casts(recipe):
        raise PredictError(
            f"recipe '{recipe}' has no measured casts; --casts none compares its products"
        )
    providers = cast_providers(model, sources, linear)
    if not providers or linear.casts not in (FASTEST, *providers):
        by = "" if linear.casts == FASTEST else f" by {linear.casts}"
        raise PredictError(
            f"model '{model.MODEL}' knows no casts of {recipe}{by} here; "
            f"give --casts {' or '.join((*providers, 'none'))}, which compares products alone"
        )


def run_map(run: Path, calibration: Path) -> str:
    """The map of a run folder by the calibrated model, as CSV with the header COLUMNS.

    The header alone for a calibration without products to compare. Raises PredictError for the
    calibration of another device, RecordsError for a bad file.
    """
    sources = Sources(calibration=read_calibration(calibration, run.parent.name))
    return map_csv(MODELS["calibrated"], sources)


def map_csv(model: Model, sources: Sources) -> str:
    """The map of all linears that a model can compare with bf16, as CSV with the header COLUMNS.

    Recipes whose casts are measured, in both passes: without casts, and with the fastest.
    BF16_GRAD_WEIGHT has the backward pass alone: forward it is fp8_axiswise. Blocks need casts that
    the model knows, which calibrations from before those were measured lack.
    """
    linears = list[Linear]()
    for recipe, passes in product(comparable_recipes(model, sources), PASSES):
        if not has_casts(recipe) or (recipe, passes) == (BF16_GRAD_WEIGHT, "forward"):
            continue
        weights = usual_weights(passes)
        linear = Linear(recipe=recipe, passes=passes, casts=FASTEST, weights=weights)
        has_providers = bool(cast_providers(model, sources, linear))
        if has_providers or recipe != _BLOCK_RECIPE:
            linears += [replace(linear, casts="none"), *([linear] if has_providers else [])]
    times = LinearTimes(model, sources)  # linears share most of their products and casts
    every = ((linear, n, k) for linear, (n, k) in product(linears, WEIGHTS))
    return csv_text(COLUMNS, (row for one in every for row in _rows(times, *one)))


def _rows(times: LinearTimes, linear: Linear, n: int, k: int) -> Iterator[dict[str, Any]]:
    """The row of a weight at each of TOKENS that runs."""
    speedups = linear_speedups(times, linear, n, k)
    m, m_low, m_high = speedups.breakeven
    of_weight = {
        "recipe": linear.recipe, "pass": linear.passes, "casts": linear.casts, "n": n, "k": k,
        "breakeven_m": m, "breakeven_m_low": m_low, "breakeven_m_high": m_high,
    }  # fmt: skip
    ratios = {"speedup": speedups.value, "low": speedups.low, "high": speedups.high}
    classes, doublings = speedups.classes(), speedups.doublings
    for tokens, place in zip(TOKENS, _AT_TOKENS, strict=True):
        if np.isnan(speedups.value[place]):
            continue
        yield {
            **of_weight,
            "m": tokens,
            **{name: f"{ratio[place]:.4g}" for name, ratio in ratios.items() if ratio is not None},
            "class": classes[place],
            "extrapolated_doublings": None if doublings is None else f"{doublings[place]:.3g}",
        }
