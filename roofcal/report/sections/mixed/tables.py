"""Products with narrow weights in the report: which format wins where, the roofs, the two errors.

Launches that are chained (programmatic dependent launch) start under the end of the kernel before;
they stand apart from plain ones: `mode` is "plain", or "chained" where int4 kernels are chained and
the other formats, which have no such launch here, are plain.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from roofcal.core.recipes import RECIPES
from roofcal.core.records import Calibration
from roofcal.ops.constants import calibrated_pairs
from roofcal.ops.mixed_gemm.model import Parts
from roofcal.ops.mixed_gemm.predict import narrow_parts
from roofcal.report.data.tidy import ok_rows, standard_protocol
from roofcal.report.kit.blocks import Column
from roofcal.report.kit.columns import count, ratio, seconds, text
from roofcal.report.kit.numbers import percent

OP: Final = "mixed_gemm"
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
WINNERS_SOURCE: Final = "mixed_winners.csv"
ROOFS_SOURCE: Final = "mixed_roofs.csv"
ERRORS_SOURCE: Final = "mixed_errors.csv"
_SIZES: Final = ("m", "n", "k")
_NUMBERS: Final = {
    "measured": ("median_s", "ci95_low_s", "ci95_high_s"),
    "predicted": ("predicted_s", "predicted_low_s", "predicted_high_s"),
}


def _error(key: str, label: str, about: str = "") -> Column:
    def show(value: float) -> str:
        return percent(value, 2)

    return Column(key=key, label=label, kind="number", show=show, about=about)


WINNERS: Final[tuple[Column, ...]] = (
    text("kind", "by"),
    text("mode", "launches", about="chained: those of int4 kernels, with dependent launch"),
    *(count(axis, axis) for axis in ("n", "k", "m")),
    text("format", "fastest"),
    text("class", "certainty", about="uncertain: its 95 % interval overlaps another's"),
    text("recipe", "recipe"),
    text("provider", "provider"),
    seconds("seconds", "time"),
    text("next_recipe", "fastest of the other formats"),
    text("next_provider", "by"),
    seconds("next_s", "its time"),
    ratio("ratio", "ratio"),
)
ROOF_COLUMNS: Final[tuple[Column, ...]] = (
    text("provider", "provider"),
    text("recipe", "recipe"),
    count("n", "n"),
    count("k", "k"),
    count("m_from", "from m"),
    count("m_to", "to m"),
    text("bound_by", "bound by", about="largest part of the calibrated model's time"),
)
ERRORS: Final[tuple[Column, ...]] = (
    text("recipe", "recipe"),
    text("provider", "provider"),
    count("points", "points"),
    _error("kernel_median", "kernel, median", "against float64 of the stored weights"),
    _error("kernel_worst", "kernel, worst"),
    _error("quantisation_median", "format, median", "stored operands against those before"),
    _error("quantisation_worst", "format, worst"),
)


def weight_format(recipe: str) -> str:
    """How the weights of a recipe are stored: one of FORMATS."""
    return RECIPES[recipe].b.dtype.removesuffix("_e4m3")


def timed(frame: pd.DataFrame) -> pd.DataFrame:
    """Points with a time, measured as the study does, and their column `format`."""
    rows = ok_rows(frame[standard_protocol(frame)])
    return rows.assign(format=[weight_format(str(recipe)) for recipe in rows["recipe"]])


def winners(frame: pd.DataFrame) -> pd.DataFrame:
    """Per kind, mode and shape the fastest format, the fastest other one, and whether it is sure.

    Shapes with a time in one format alone are left out.
    """
    rows = timed(frame)
    found = [
        {"kind": kind, "mode": mode} | winner
        for kind in KINDS
        for mode in MODES
        for winner in _winners(_of_mode(rows, mode), *_NUMBERS[kind])
    ]
    keys = [column.key for column in WINNERS]
    return pd.DataFrame(found, columns=[*keys, "low_s", "high_s"])


def _of_mode(rows: pd.DataFrame, mode: str) -> pd.DataFrame:
    chained = rows["provider"] == CHAINED
    return rows[~chained] if mode == "plain" else rows[chained | (rows["format"] != "int4")]


def _winners(rows: pd.DataFrame, value: str, low: str, high: str) -> Iterator[dict[str, Any]]:
    known = rows[rows[value].notna()]
    for (n, k, m), some in known.groupby(["n", "k", "m"]):
        best = some.loc[some.groupby("format")[value].idxmin()].sort_values(value, kind="stable")
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
            "seconds": first[value],
            "next_recipe": second["recipe"],
            "next_provider": second["provider"],
            "next_s": second[value],
            "ratio": second[value] / first[value],
            "low_s": first[low],
            "high_s": first[high],
        }


def calibrated(calibration: Calibration | None) -> list[tuple[str, str]]:
    """(provider, recipe) of the narrow weights whose roofs were calibrated."""
    return [] if calibration is None else calibrated_pairs(calibration.constants, OP)


def roofs_of(calibration: Calibration, provider: str, recipe: str, n: float, k: float) -> Parts:
    """Parts of the calibrated time at 1 to 256 tokens; KeyError for a pair not calibrated."""
    sizes = (TOKENS, np.full_like(TOKENS, n), np.full_like(TOKENS, k))
    return narrow_parts(calibration, provider, recipe, sizes)


def roofs_table(frame: pd.DataFrame, calibration: Calibration | None) -> pd.DataFrame:
    """The ranges of m in which each roof binds, by provider, recipe and shape of many m."""
    rows = [
        {"provider": provider, "recipe": recipe, "n": n, "k": k} | span
        for provider, recipe in calibrated(calibration)
        for n, k in curves(timed(frame))
        if calibration is not None
        for span in _spans(roofs_of(calibration, provider, recipe, n, k).bound_by)
    ]
    return pd.DataFrame(rows, columns=[column.key for column in ROOF_COLUMNS])


def _spans(bound_by: Sequence[str]) -> Iterator[dict[str, Any]]:
    start = 0
    for index in range(1, len(bound_by) + 1):
        if index == len(bound_by) or bound_by[index] != bound_by[start]:
            span = {"m_from": int(TOKENS[start]), "m_to": int(TOKENS[index - 1])}
            yield span | {"bound_by": ROOFS[bound_by[start]]}
            start = index


def curves(rows: pd.DataFrame) -> list[tuple[int, int]]:
    """Weights n x k that were timed at four numbers of tokens and more, smallest first."""
    counts = rows.groupby(["n", "k"])["m"].nunique()
    found = [(int(n), int(k)) for n, k in counts[counts >= 4].index]
    return sorted(found, key=lambda sizes: (sizes[0] * sizes[1], sizes))


def errors_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Error of the kernel and of the format, by recipe and provider."""
    rows = timed(frame)
    found = [
        {
            "recipe": recipe,
            "provider": provider,
            "points": len(some),
            "kernel_median": some["numeric_error"].median(),
            "kernel_worst": some["numeric_error"].max(),
            "quantisation_median": some["quantisation_error"].median(),
            "quantisation_worst": some["quantisation_error"].max(),
        }
        for (recipe, provider), some in rows.groupby(["recipe", "provider"], sort=False)
    ]
    table = pd.DataFrame(found, columns=[column.key for column in ERRORS])
    order = [list(RECIPES).index(recipe) for recipe in table["recipe"]]
    keyed = table.assign(order=order).sort_values(["order", "provider"], kind="stable")
    return keyed.drop(columns="order").reset_index(drop=True)
