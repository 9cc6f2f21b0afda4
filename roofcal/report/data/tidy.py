"""Selecting rows of a table of points, and its shapes and protocols in words."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.points.columns import COLUMNS, FORMULAS, MODEL, RARE
from roofcal.points.tables import sqnr_column
from roofcal.report.kit.numbers import shape_text

PANEL_TIME: Final = "panel_s"  # on the scale of the mean card, see panel_factors.on_panel_scale
_BEHIND_AXES: Final = ("world_size", "method", "repeat")  # one of them follows the axes of an op


def models_in(frame: pd.DataFrame) -> dict[str, str]:
    """Model -> its column of seconds, for models with at least one prediction in a tidy frame."""
    declared = {column.name for column in (*COLUMNS, *RARE)} - {f"{name}_s" for name in FORMULAS}
    ends = ("_per_s", "_low_s", "_high_s")
    seconds = [c for c in frame.columns if c.endswith("_s") and not c.endswith(ends)]
    names = [name for name in seconds if name not in declared and name != PANEL_TIME]
    columns = {name.removesuffix("_s"): name for name in names}
    columns |= {MODEL: "predicted_s"}
    return {model: name for model, name in columns.items() if frame[name].notna().any()}


def sqnr_columns(frame: pd.DataFrame) -> list[str]:
    """Columns of signal to quantisation noise in a tidy frame."""
    return [name for name in frame.columns if name.endswith(sqnr_column(""))]


def axes_of(frame: pd.DataFrame) -> list[str]:
    """The op's own axes among the columns of a frame: those between recipe and protocol."""
    names = list(frame.columns)
    end = next(names.index(name) for name in _BEHIND_AXES if name in names)
    return names[names.index("recipe") + 1 : end]


def shape_texts(frame: pd.DataFrame, axes: Sequence[str] = ()) -> "pd.Series[Any]":
    """The shape of each row, along some axes or all of its op: '16 x 3,584 x 8,192'."""
    texts = [shape_text(sizes) for sizes in frame[list(axes) or axes_of(frame)].to_numpy()]
    return pd.Series(texts, index=frame.index, dtype=object)


def weights_by_size(rows: pd.DataFrame) -> list[tuple[int, int]]:
    """Every n x k among the rows, smallest first."""
    weights = {(int(n), int(k)) for n, k in rows[["n", "k"]].to_numpy()}
    return sorted(weights, key=lambda sizes: (sizes[0] * sizes[1], sizes))


def with_shape(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame with the axes of its op in one column `shape`, so that several ops fit in a table."""
    axes, shapes = axes_of(frame), shape_texts(frame)
    shaped = frame.drop(columns=axes)
    shaped.insert(list(frame.columns).index("recipe") + 1, "shape", shapes)
    return shaped


def with_protocol(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame and its column `protocol`: how a point was timed, in words.

    'graph, cold', 'graph, cold, zeros' or 'not timed, heavy tails'.
    """
    data = ", " + frame["distribution"].str.replace("_", " ")
    timed = frame["method"].str.replace("_", " + ") + ", " + frame["cache"]
    words = timed.where(frame["method"] != "accuracy", "not timed")
    return frame.assign(protocol=words + data.where(frame["distribution"] != "normal", ""))


def standard_protocol(frame: pd.DataFrame) -> "pd.Series[bool]":
    """Rows timed as the study does: graph replay, cold cache, random normal data, first time."""
    return (
        (frame["method"] == "graph")
        & (frame["cache"] == "cold")
        & (frame["distribution"] == "normal")
        & (frame["repeat"] == 0)
    )


def ok_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with a median."""
    return frame[(frame["status"] == "ok") & frame["median_s"].notna()]


def standard_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with a median, timed as the study does."""
    return ok_rows(frame[standard_protocol(frame)])


def row_of_largest(frame: pd.DataFrame, column: str) -> "pd.Series[Any]":
    """The row with the largest value of a column; raises ValueError for a frame without any."""
    return frame.iloc[int(np.nanargmax(frame[column].to_numpy(dtype=float)))]
