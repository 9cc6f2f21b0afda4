"""How wrong the models of time are: |predicted / measured - 1| over the points they are judged on.

Judged are points of study ops that were measured as the study measures (graph replay, cold cache,
normal data, no repetition): the panel's other methods give other numbers, and a sentinel measured
twenty times would count twenty times.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.core.regimes import REGIMES
from roofcal.report.data.tidy import (
    interval_columns,
    models_in,
    ok_rows,
    role_of,
    standard_protocol,
)

ALL: Final = "all"
_STATISTICS: Final = (
    "count",
    "mape",
    "median_abs_error",
    "p95_abs_error",
    "median_error",
    "worst_error",
    "coverage",
    "violations",
)
COLUMNS: Final = ("op", "model", "regime", "recipe", "provider", *_STATISTICS)
_KEYS: Final = ["op", "model", "regime", "recipe", "provider"]


def judged(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows on which predictions are judged; none of a probe op, whose points were fitted on."""
    if role_of(frame) != "study":
        return frame.iloc[:0]
    return ok_rows(frame[standard_protocol(frame)])


def residuals(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per judged point and model that predicts it: the frame's columns, `model`, `error`.

    `model_s` is what the model says, `error` is model_s / median_s - 1, `inside` whether the median
    lies in the interval of the prediction: 1.0, 0.0, or NaN for a model that states none. `faster`:
    the whole interval of the measurement lies below what the model says, its interval included.
    """
    rows = judged(frame)
    parts = [_of_model(rows, model, column) for model, column in models_in(frame).items()]
    found = [part for part in parts if not part.empty]
    if not found:
        return rows.iloc[:0].assign(
            model=pd.Series(dtype=object), model_s=np.nan, error=np.nan, inside=np.nan, faster=False
        )
    return pd.concat(found, ignore_index=True)


def _of_model(rows: pd.DataFrame, model: str, column: str) -> pd.DataFrame:
    some = rows[rows[column].notna()]
    said = some.assign(model=model, model_s=some[column], error=some[column] / some["median_s"] - 1)
    low, high = interval_columns(model)
    return said.assign(inside=_inside(some, low, high), faster=_faster(some, column, low))


def _inside(rows: pd.DataFrame, low_column: str, high_column: str) -> "pd.Series[float]":
    if low_column not in rows.columns:
        return pd.Series(np.nan, index=rows.index)
    low, high = rows[low_column], rows[high_column]
    inside = (rows["median_s"] >= low) & (rows["median_s"] <= high)
    return inside.astype(float).where(low.notna() & high.notna())


def _faster(rows: pd.DataFrame, column: str, low_column: str) -> "pd.Series[bool]":
    least = rows[column]
    if low_column in rows.columns:
        least = rows[low_column].fillna(least)
    return rows["ci95_high_s"] < least


def error_by_regime(frame: pd.DataFrame) -> pd.DataFrame:
    """Errors per model, regime, recipe and provider, and over all of any of them.

    An op with one provider has no rows of it: they would say what those over all say.

    Fractions of the measured time: mape (mean of |error|), median and 95th percentile of |error|,
    median of the signed error (a bias), the signed error that is furthest from zero, and coverage:
    the share of points inside the 95 % interval of their prediction. Violations are the points that
    were faster than the model says they can be.
    """
    return summarise_errors(residuals(frame))


def summarise_errors(errors: pd.DataFrame) -> pd.DataFrame:
    """As error_by_regime, from the rows of `residuals`."""
    rows = [row for group in _groups(errors) for row in _margins(group)]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    order = table[_KEYS].copy()
    order["regime"] = [rank_of_regime(str(name)) for name in order["regime"]]
    for key in ("recipe", "provider"):
        order[key] = [(name != ALL, name) for name in order[key]]
    ranked = order.apply(tuple, axis=1)
    return table.loc[ranked.sort_values().index].reset_index(drop=True) if rows else table


def rank_of_regime(name: str) -> tuple[int, str]:
    """Sorting key: all, then the regimes of products by size, then others by name."""
    if name == ALL:
        return -1, name
    known = ("decode", "small", "mid", "large", "skinny_k", "ragged")
    assert set(known) == set(REGIMES)
    return (known.index(name), name) if name in known else (len(known), name)


def providers_in(table: pd.DataFrame, op: str) -> list[str]:
    """Providers of an op that error_by_regime tells apart: two and more, or none."""
    return [str(p) for p in dict.fromkeys(table.loc[table["op"] == op, "provider"]) if p != ALL]


def _groups(errors: pd.DataFrame) -> Iterator[pd.DataFrame]:
    for _, group in errors.groupby(["op", "model"], sort=True):
        yield group


def _margins(group: pd.DataFrame) -> Iterator[dict[str, Any]]:
    regimes = [ALL, *sorted(set(group["regime"]))]
    recipes = [ALL, *sorted(set(group["recipe"]))]
    known = sorted(set(group["provider"]))
    providers = [ALL, *(known if len(known) > 1 else ())]
    for cell in product(regimes, recipes, providers):
        keys = dict(zip(("regime", "recipe", "provider"), cell, strict=True))
        chosen = pd.Series(data=True, index=group.index)
        for key, value in keys.items():
            chosen &= (group[key] == value) | (value == ALL)
        if chosen.any():
            head = {"op": group["op"].iloc[0], "model": group["model"].iloc[0]}
            yield head | keys | _statistics(group[chosen])


def _statistics(rows: pd.DataFrame) -> dict[str, float]:
    values = rows["error"].to_numpy(dtype=float)
    size = np.abs(values)
    numbers: Sequence[float] = (
        len(values),
        float(size.mean()),
        float(np.median(size)),
        float(np.percentile(size, 95)),
        float(np.median(values)),
        float(values[size.argmax()]),
        float(rows["inside"].mean()),
        int(rows["faster"].sum()),
    )
    return dict(zip(_STATISTICS, numbers, strict=True))


def error_of(
    table: pd.DataFrame,
    model: str,
    *,
    op: str = "gemm",
    regime: str = ALL,
    recipe: str = ALL,
    provider: str = ALL,
) -> "pd.Series[Any] | None":
    """One row of error_by_regime, None where there is none."""
    chosen = (table["op"] == op) & (table["model"] == model) & (table["provider"] == provider)
    chosen &= (table["regime"] == regime) & (table["recipe"] == recipe)
    return table[chosen].iloc[0] if chosen.any() else None
