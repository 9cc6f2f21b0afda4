"""How well calibrations of other environments predict the points of a run, beside its own."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pandas as pd

from roofcal.core.environments import origin_environment, origin_labels, transferred_model
from roofcal.points.columns import MODEL
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.prediction_errors import residuals
from roofcal.report.data.tidy import models_in
from roofcal.report.kit.blocks import Block, Prose
from roofcal.report.kit.columns import code, count, fraction, text
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import CsvTable, Section, filled_table

FILE: Final = "transfer.csv"
# Statistic -> its label
_STATISTICS: Final = {"mape": "MAPE", "median_error": "bias", "coverage": "in interval"}
_CALIBRATIONS: Final = ("own", "other")
KEYS: Final = (
    *("op", "other_environment", "count"),
    *(f"{name}_{calibration}" for name in _STATISTICS for calibration in _CALIBRATIONS),
)
COLUMNS: Final = (
    text("op", "op"),
    text("origin", "calibrated in", about="what the environment has that this one has not"),
    count("count", "points"),
    *(
        fraction(f"{name}_{calibration}", f"{label}, {calibration}", signed=name == "median_error")
        for name, label in _STATISTICS.items()
        for calibration in _CALIBRATIONS
    ),
    code("other_environment", "environment"),
)


def transfers(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per other environment that predicts points of the tidy frame of an op.

    MAPE, median signed error (a bias) and share of points inside the 95 % interval of the own and
    the other calibration, over the `count` judged points that both predict: an environment may lack
    a recipe of another.
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
    for calibration, predicted in (("own", own), ("other", other)):
        rows = predicted[predicted["point_id"].isin(shared)]
        values = (rows["error"].abs().mean(), rows["error"].median(), rows["inside"].mean())
        names = (f"{name}_{calibration}" for name in _STATISTICS)
        row |= dict(zip(names, map(float, values), strict=True))
    return row | {"op": errors["op"].iloc[0] if len(errors) else None}


def with_origin(table: pd.DataFrame, environment_id: str) -> pd.DataFrame:
    """The rows of `transfers` with `origin`, what the other environment has that the own has not.

    environment_id: of the run.
    """
    models = [transferred_model(name) for name in table["other_environment"]]
    labels = origin_labels(environment_id, dict.fromkeys(models))
    return table.assign(origin=[labels[model] for model in models])


def _contents(analysis: Analysis) -> pd.DataFrame:
    """The transfers of all ops, with their origin; empty where the device has one environment."""
    tables = [transfers(frame) for frame in analysis.frames.values()]
    filled = [table for table in tables if len(table)]
    if not filled:
        return pd.DataFrame(columns=list(KEYS))
    return with_origin(pd.concat(filled, ignore_index=True), analysis.environment_id)


def _blocks(table: pd.DataFrame, writer: SectionWriter) -> Iterator[Block]:
    if table.empty:
        return
    yield Prose(
        text="How well constants of another driver or torch predict what was measured here: "
        "the calibrated model with the calibration of every other environment of this "
        "device, beside its own, over the points that both predict."
    )
    name = "Own calibration against those of other environments"
    yield writer.table("transfers", name, table, COLUMNS, FILE)


def _tables(table: pd.DataFrame) -> Iterable[CsvTable]:
    return filled_table(FILE, table[list(KEYS)])


SECTION = Section("Calibrations of other environments", "trust", _contents, _blocks, tables=_tables)
