"""A model of time held against products that somebody else measured.

docs/ask.md says what the file has, and what a burst is: times before the clock has come down to
what the power limit allows. `clock="burst"` multiplies predictions by burst over settled time.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

import numpy as np

from roofcal.ask.answers import Answer, Column, ManyAnswers, Part, Record, Table, Verdict, filled
from roofcal.ask.measured import measured_points
from roofcal.ask.points import recipe_named
from roofcal.ask.shape_limits import refusal
from roofcal.core.csv_files import Cells, read_rows, size_errors
from roofcal.core.names import did_you_mean_or_all
from roofcal.core.paths import RunFolder
from roofcal.models.errors import PredictError
from roofcal.ops import BY_NAME
from roofcal.ops.gemm.model import LIBRARIES
from roofcal.ops.linear.model import CASTS, Linear, cast_providers, has_casts, linear_times
from roofcal.ops.time_models import Model, Sources

Clock = Literal["settled", "burst"]
FEWEST: Final = 5
_COLUMNS: Final = ("recipe", "m", "n", "k", "seconds")
_GEMM: Final = BY_NAME["gemm"]
_LIBRARY: Final = "cublaslt"  # whose limits of shapes hold


_ERRORS: Final = (
    Column("recipe", "{recipe}", left=True),
    Column("casts", "{casts_by}", left=True),
    Column("regime", "{regime}", left=True),
    Column("products", "{products}"),
    Column("MAPE", "{mape:.1%}"),
    Column("median", "{median_error:+.1%}"),
    Column("95th", "{p95:.1%}"),
    Column("inside", "{inside:.0%}"),
    Column("beyond", "{extrapolated}"),
)
_CSV: Final = (
    *("recipe", "casts_by", "m", "n", "k", "regime", "seconds", "predicted_s"),
    *("predicted_low_s", "predicted_high_s", "error", "extrapolated"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideEvidence(Answer):
    """All products that the model answers, and how many it has no answer for by reason.

    products: rows by _CSV. error is relative to what was measured, extrapolated says whether the
    product or its cast is outside of the probes, None without probes.
    """

    title: str
    products: list[dict[str, Any]]
    unanswered: Mapping[str, int]

    @property
    def answer(self) -> dict[str, Any]:
        """Errors by recipe and regime."""
        return {"errors": errors_by_regime(self.products), "unanswered": dict(self.unanswered)}

    def rows(self) -> list[dict[str, Any]]:
        """Every product with its prediction and error."""
        words = {True: "yes", False: "no", None: None}
        return [row | {"extrapolated": words[row["extrapolated"]]} for row in self.products]

    def products_csv(self) -> ManyAnswers:
        """The rows, as a file."""
        return ManyAnswers(_CSV, self.rows())

    def parts(self) -> Iterator[Part]:
        """How wrong the model is on all products; a line per recipe and regime."""
        rows = errors_by_regime(self.products)
        mean = "Predictions are {mape:.1%} off on average, over {products} products"
        inside = "; {inside:.0%} of these lie in their 95 % intervals"
        yield Verdict(f"{filled(mean, rows[-1])}{filled(inside, rows[-1])}.")
        yield ""
        yield Table(rows, _ERRORS)
        yield ""
        yield self.title
        yield (
            "MAPE: mean of the errors without sign; median: of the errors, above 0 where predicted "
            "times are too long; 95th: what 95 % of the errors without sign do not exceed; inside: "
            "share within the 95 % interval; beyond: products outside of the probes"
        )
        yield from (f"no answer for {count}: {why}" for why, count in self.unanswered.items())


def hold_against(
    path: Path, model: Model, sources: Sources, run: RunFolder | None, clock: Clock = "settled"
) -> OutsideEvidence:
    """The products of a file beside their predictions for the library.

    Raises CsvError naming file, line and column of up to 20 mistakes, and PredictError for bursts
    where no measured points of the run say what they take.
    """
    recipes = model.product_recipes(sources)
    rows = read_rows(
        path, _COLUMNS, lambda cells: _row_errors(cells, recipes), optional=("casts_by",)
    )
    factors = burst_factors(run) if clock == "burst" else None
    groups: dict[Linear, list[tuple[dict[str, int], float]]] = {}
    refused: dict[str, int] = {}
    unknown: dict[str, int] = {}
    for _, cells in rows:
        recipe = recipe_named(cells["recipe"], recipes)
        shape = {axis: int(cells[axis]) for axis in "mnk"}
        casts: Any = cells.get("casts_by", "none")  # one of CASTS, as the row was checked
        linear = Linear(recipe=recipe, casts=casts, weights="cached")
        reasons, why = unknown, None
        if refusal(_GEMM, _LIBRARY, recipe, shape):
            multiples = _GEMM.size_multiples(_LIBRARY, recipe)
            wanted = ", ".join(f"{axis} in multiples of {n}" for axis, n in multiples.items())
            reasons, why = refused, f"{_LIBRARY} takes {recipe} with {wanted}"
        elif linear.casts != "none" and not (
            has_casts(recipe) and linear.casts in cast_providers(model, sources, linear)
        ):
            why = f"model {model.MODEL} knows no casts of {recipe} by {linear.casts}"
        elif factors is not None and (recipe, "") not in factors:
            why = f"fewer than {FEWEST} measured bursts of {recipe} by the library"
        if why is None:
            groups.setdefault(linear, []).append((shape, float(cells["seconds"])))
        else:
            reasons[why] = reasons.get(why, 0) + 1
    products = []
    for linear, members in groups.items():
        sizes = (np.array([float(shape[axis]) for shape, _ in members]) for axis in "mnk")
        times = linear_times(model, sources, linear, *sizes)
        for place, (shape, seconds) in enumerate(members):
            regime = _GEMM.regime(shape)
            factor = 1.0
            if factors:
                factor = factors.get((linear.recipe, regime), factors[linear.recipe, ""])
            predicted_s, low_s, high_s = (
                None if end is None else factor * float(end[place])
                for end in (times.total, times.low, times.high)
            )
            assert predicted_s is not None
            beyond = None if times.beyond is None else bool(times.beyond.doublings[place] > 0)
            products.append(
                {
                    "recipe": linear.recipe,
                    "casts_by": linear.casts,
                    **shape,
                    "regime": regime,
                    "seconds": seconds,
                    "predicted_s": predicted_s,
                    "predicted_low_s": low_s,
                    "predicted_high_s": high_s,
                    "error": predicted_s / seconds - 1,
                    "extrapolated": beyond,
                }
            )
    title = (
        f"{path} ({clock}) against model {model.MODEL}, products by the library, "
        f"{sources.device}, {sources.environment or 'its file'}"
    )
    return OutsideEvidence(title=title, products=products, unanswered=refused | unknown)


def burst_factors(run: RunFolder | None) -> dict[tuple[str, str], float]:
    """(recipe, regime), and (recipe, "") for all regimes -> burst over settled time, the median.

    Those with FEWEST points and more, of the library's products. Raises PredictError where the run
    has no measured bursts of them.
    """
    ratios: dict[tuple[str, str], list[float]] = {}
    for point in measured_points(run, "gemm").values():
        if point.provider in LIBRARIES and point.burst_s is not None:
            for regime in (_GEMM.regime(point.shape), ""):
                ratio = point.burst_s / point.median_s
                ratios.setdefault((point.recipe, regime), []).append(ratio)
    if not ratios:
        raise PredictError(
            "no measured products of this device say how much faster a burst is; "
            "give a settled table (--clock settled)"
        )
    return {key: median(own) for key, own in ratios.items() if len(own) >= FEWEST}


def _row_errors(cells: Cells, recipes: Sequence[str]) -> Iterator[str]:
    if recipe_named(cells["recipe"], recipes) not in recipes:
        nearest = did_you_mean_or_all(cells["recipe"], recipes)
        yield f"recipe '{cells['recipe']}'{nearest}"
    if (casts_by := cells.get("casts_by", "none")) not in CASTS:
        yield f"casts_by '{casts_by}'{did_you_mean_or_all(casts_by, CASTS)}"
    yield from size_errors(cells, "mnk")
    try:
        seconds = float(cells["seconds"])
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        yield f"seconds={cells['seconds'][:40]!r} is no time above 0"


def errors_by_regime(products: Sequence[Record]) -> list[dict[str, Any]]:
    """Errors of every recipe (with its casts) by regime, of every recipe, and of "all"."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for row in products:
        own = row["recipe"], row["casts_by"]
        for key in ((*own, row["regime"]), (*own, "all"), ("all", "", "all")):
            groups.setdefault(key, []).append(row)
    rows = []
    for key in sorted(groups, key=lambda key: (key[0] == "all", key[:2], key[2] == "all", key)):
        members = groups[key]
        errors = np.array([row["error"] for row in members])
        inside = [
            row["predicted_low_s"] <= row["seconds"] <= row["predicted_high_s"]
            for row in members
            if row["predicted_low_s"] is not None
        ]
        outside = [row["extrapolated"] for row in members if row["extrapolated"] is not None]
        rows.append(
            {
                **dict(zip(("recipe", "casts_by", "regime"), key, strict=True)),
                "products": len(members),
                "mape": float(np.abs(errors).mean()),
                "median_error": float(np.median(errors)),
                "p95": float(np.percentile(np.abs(errors), 95)),
                "inside": sum(inside) / len(inside) if inside else None,
                "extrapolated": sum(outside) if outside else None,
            }
        )
    return rows
