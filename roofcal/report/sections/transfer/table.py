"""How well calibrations of other environments predict the points of a run, beside its own.

Compared are judged points that both predict: an environment may lack a recipe of another.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pandas as pd

from roofcal.core.environments import origin_environment, origin_labels, transferred_model
from roofcal.report.data.prediction_errors import residuals
from roofcal.report.data.tidy import MODEL, models_in
from roofcal.report.kit.blocks import Column
from roofcal.report.kit.columns import count, fraction, text

SOURCE: Final = "transfer.csv"
_STATISTICS: Final = ("mape", "median_error", "coverage")
_NUMBERS: Final = tuple(f"{name}_{whose}" for name in _STATISTICS for whose in ("own", "other"))
KEYS: Final = ("op", "other_environment", "count", *_NUMBERS)

COLUMNS: Final[tuple[Column, ...]] = (
    text("op", "op"),
    text("origin", "calibrated in", about="what the environment has that this one has not"),
    count("count", "points"),
    fraction("mape_own", "MAPE, own"),
    fraction("mape_other", "MAPE, other"),
    fraction("median_error_own", "bias, own", signed=True),
    fraction("median_error_other", "bias, other", signed=True),
    fraction("coverage_own", "in interval, own"),
    fraction("coverage_other", "in interval, other"),
    Column(key="other_environment", label="environment", kind="code"),
)


def labels_of(own: str, models: Iterable[str]) -> dict[str, str]:
    """Model -> how people read it, for models with the constants of another environment.

    own: the environment of the run.
    """
    return {model: f"calibrated of {name}" for model, name in origin_labels(own, models).items()}


def with_labels(frame: pd.DataFrame, labels: Mapping[str, str]) -> pd.DataFrame:
    """A frame whose column `model` holds the names that people read."""
    return frame.assign(model=frame["model"].replace(dict(labels))) if labels else frame


def transfers(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per other environment that predicts points of the tidy frame of an op.

    Own and other's MAPE, median signed error (a bias) and share of points inside the 95 % interval,
    all over the `count` points that the calibrated model predicts with the constants of both.
    """
    models = [model for model in models_in(frame) if origin_environment(model) is not None]
    if not models:
        return pd.DataFrame(columns=list(KEYS))
    errors = residuals(frame)
    rows = [_compared(errors, model) for model in models]
    return pd.DataFrame([row for row in rows if row["count"]], columns=list(KEYS))


def _compared(errors: pd.DataFrame, model: str) -> dict[str, Any]:
    own, other = (errors[errors["model"] == name] for name in (MODEL, model))
    shared = set(own["point_id"]) & set(other["point_id"])
    row: dict[str, Any] = {"count": len(shared), "other_environment": origin_environment(model)}
    for whose, rows in (("own", own), ("other", other)):
        some = rows[rows["point_id"].isin(shared)]
        values = (some["error"].abs().mean(), some["error"].median(), some["inside"].mean())
        names = (f"{name}_{whose}" for name in _STATISTICS)
        row |= dict(zip(names, map(float, values), strict=True))
    return row | {"op": errors["op"].iloc[0] if len(errors) else None}


def shown(table: pd.DataFrame, own: str) -> pd.DataFrame:
    """The rows of `transfers` with `origin`, the other environment as people read it."""
    models = [transferred_model(name) for name in table["other_environment"]]
    names = origin_labels(own, dict.fromkeys(models))
    return table.assign(origin=[names[model] for model in models])
