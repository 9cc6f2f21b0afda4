"""Products with narrow weights: which format wins where, the roofs, the two errors.

A chained launch (programmatic dependent launch) starts under the end of the kernel before, so it is
kept apart from plain ones: `mode` is "plain", or "chained" for int4 kernels that are chained beside
plain launches of the other formats, which have no chained launch here.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from roofcal.core.recipes import RECIPES
from roofcal.core.records import Calibration
from roofcal.ops.constants import calibrated_pairs
from roofcal.ops.mixed_gemm.model import NarrowParts, narrow_parts
from roofcal.ops.mixed_gemm.spec import OP as MIXED_GEMM
from roofcal.report.data.tidy import standard_rows
from roofcal.report.kit.blocks import Column
from roofcal.report.kit.columns import count, counts, fraction, ratio, seconds, text, texts

OP: Final = MIXED_GEMM.name
CHAINED: Final = "triton_chained"
OURS: Final = ("triton", CHAINED)
MODES: Final = ("plain", "chained")
KINDS: Final = ("measured", "predicted")
FORMATS: Final = ("bf16", "fp8", "int4")
TOKENS: Final[NDArray[np.float64]] = np.arange(1.0, 257.0, dtype=np.float64)
ROOFS: Final = {
    "dram": "memory",
    "slots": "issue slots",
    "math": "matrix unit and activations",
    "launch": "launch",
}
WINNERS_FILE: Final = "mixed_winners.csv"
ROOFS_FILE: Final = "mixed_roofs.csv"
ERRORS_FILE: Final = "mixed_errors.csv"
_FEWEST_TOKENS: Final = 4  # numbers of tokens that make a curve
_TIMES: Final = {
    "measured": ("median_s", "ci95_low_s", "ci95_high_s"),
    "predicted": ("predicted_s", "predicted_low_s", "predicted_high_s"),
}

WINNERS: Final = (
    text("kind", "by"),
    text("mode", "launches", about="chained: those of int4 kernels, with dependent launch"),
    *counts("n", "k", "m"),
    text("format", "fastest"),
    text("class", "certainty", about="uncertain: its 95 % interval overlaps another's"),
    *texts("recipe", "provider"),
    seconds("seconds", "time"),
    text("next_recipe", "fastest of the other formats"),
    text("next_provider", "by"),
    seconds("next_s", "its time"),
    ratio("ratio", "ratio"),
)
ROOF_COLUMNS: Final[tuple[Column, ...]] = (
    *texts("provider", "recipe"),
    *counts("n", "k"),
    count("m_from", "from m"),
    count("m_to", "to m"),
    text("bound_by", "bound by", about="largest part of the calibrated model's time"),
)
ERRORS: Final[tuple[Column, ...]] = (
    *texts("recipe", "provider"),
    count("points", "points"),
    fraction(
        "kernel_median", "kernel, median", digits=2, about="against float64 of the stored weights"
    ),
    fraction("kernel_worst", "kernel, worst", digits=2),
    fraction(
        "quantisation_median",
        "format, median",
        digits=2,
        about="stored operands against those before",
    ),
    fraction("quantisation_worst", "format, worst", digits=2),
)


def weight_format(recipe: str) -> str:
    """How the weights of a recipe are stored: one of FORMATS."""
    return RECIPES[recipe].b.dtype.removesuffix("_e4m3")


def rows_with_format(frame: pd.DataFrame) -> pd.DataFrame:
    """Points with a time, measured as the study does, and their column `format`."""
    rows = standard_rows(frame)
    return rows.assign(format=[weight_format(str(recipe)) for recipe in rows["recipe"]])


def winners_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Per kind, mode and shape the fastest format, the fastest other one, and whether it is sure.

    Shapes with a time in one format alone are left out, and so are those without int4.
    """
    rows = rows_with_format(frame)
    winners = [
        {"kind": kind, "mode": mode} | winner
        for kind in KINDS
        for mode in MODES
        for winner in _winners(_rows_of_mode(rows, mode), *_TIMES[kind])
    ]
    keys = [column.key for column in WINNERS]
    return pd.DataFrame(winners, columns=[*keys, "low_s", "high_s"])


def _rows_of_mode(rows: pd.DataFrame, mode: str) -> pd.DataFrame:
    is_chained = rows["provider"] == CHAINED
    return rows[~is_chained] if mode == "plain" else rows[is_chained | (rows["format"] != "int4")]


def _winners(rows: pd.DataFrame, time: str, low: str, high: str) -> Iterator[dict[str, Any]]:
    for (n, k, m), timed in rows[rows[time].notna()].groupby(["n", "k", "m"]):
        best = timed.loc[timed.groupby("format")[time].idxmin()].sort_values(time, kind="stable")
        if len(best) < 2 or "int4" not in set(best["format"]):
            continue
        first, second = best.iloc[0], best.iloc[1]
        overlapped = bool((best[low].iloc[1:] <= first[high]).any())
        yield {
            "n": n,
            "k": k,
            "m": m,
            "format": first["format"],
            "class": "uncertain" if overlapped else "sure",
            "recipe": first["recipe"],
            "provider": first["provider"],
            "seconds": first[time],
            "next_recipe": second["recipe"],
            "next_provider": second["provider"],
            "next_s": second[time],
            "ratio": second[time] / first[time],
            "low_s": first[low],
            "high_s": first[high],
        }


def pairs_with_roofs(calibration: Calibration | None) -> list[tuple[str, str]]:
    """(provider, recipe) of the narrow weights whose roofs were calibrated."""
    return [] if calibration is None else calibrated_pairs(calibration.constants, OP)


def tokens_of_pair(provider: str, recipe: str) -> NDArray[np.float64]:
    """Up to 256 tokens, from the least that the provider takes."""
    return TOKENS[MIXED_GEMM.least_sizes(provider, recipe).get("m", 1) <= TOKENS]


def roofs_of_pair(
    calibration: Calibration, provider: str, recipe: str, n: float, k: float
) -> NarrowParts:
    """Parts of the calibrated time at `tokens_of_pair`; KeyError for a pair not calibrated."""
    tokens = tokens_of_pair(provider, recipe)
    sizes = (tokens, np.full_like(tokens, n), np.full_like(tokens, k))
    return narrow_parts(calibration, provider, recipe, sizes)


def roofs_table(frame: pd.DataFrame, calibration: Calibration | None) -> pd.DataFrame:
    """The ranges of m in which each roof binds, by provider, recipe and shape of many m."""
    rows = [
        {"provider": provider, "recipe": recipe, "n": n, "k": k}
        | {"m_from": int(tokens[first]), "m_to": int(tokens[last]), "bound_by": ROOFS[roof]}
        for provider, recipe in pairs_with_roofs(calibration)
        for tokens in [tokens_of_pair(provider, recipe)]
        for n, k in weights_with_curves(rows_with_format(frame))
        if calibration is not None
        for first, last, roof in runs_of_equal(
            roofs_of_pair(calibration, provider, recipe, n, k).bound_by
        )
    ]
    return pd.DataFrame(rows, columns=[column.key for column in ROOF_COLUMNS])


def runs_of_equal(values: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """(first index, last index, value) of every run of equal neighbours."""
    first = 0
    for index in range(1, len(values) + 1):
        if index == len(values) or values[index] != values[first]:
            yield first, index - 1, values[first]
            first = index


def weights_with_curves(rows: pd.DataFrame) -> list[tuple[int, int]]:
    """Weights n x k that were timed at several numbers of tokens, smallest first."""
    tokens = rows.groupby(["n", "k"])["m"].transform("nunique")
    return weights_by_size(rows[tokens >= _FEWEST_TOKENS])


def weights_by_size(rows: pd.DataFrame) -> list[tuple[int, int]]:
    """Every n x k among the rows, smallest first."""
    weights = {(int(n), int(k)) for n, k in rows[["n", "k"]].to_numpy()}
    return sorted(weights, key=lambda sizes: (sizes[0] * sizes[1], sizes))


def errors_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Error of the kernel and of the format, by recipe and provider."""
    groups = rows_with_format(frame).groupby(["recipe", "provider"], sort=False, as_index=False)
    table = groups.agg(
        points=("recipe", "size"),
        kernel_median=("numeric_error", "median"),
        kernel_worst=("numeric_error", "max"),
        quantisation_median=("quantisation_error", "median"),
        quantisation_worst=("quantisation_error", "max"),
    )
    order = [list(RECIPES).index(recipe) for recipe in table["recipe"]]
    ordered = table.assign(order=order).sort_values(["order", "provider"], kind="stable")
    return ordered.drop(columns="order").reset_index(drop=True)
