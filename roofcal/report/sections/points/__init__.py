"""Every point of every op: the tidy frames."""

from collections.abc import Iterator, Sequence
from typing import Final

import pandas as pd

from roofcal.points.columns import COLUMNS, RARE, VISITS
from roofcal.points.columns import Column as Quantity
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.quality import half_width, readable_states
from roofcal.report.data.tidy import axes_of, sqnr_columns, with_protocol
from roofcal.report.kit import columns as col
from roofcal.report.kit.blocks import Column, Table, absence
from roofcal.report.kit.numbers import MICROSECONDS
from roofcal.report.section import CsvTable, Item, Section, tidy_file

_UNITS: Final = {"s": (MICROSECONDS, 1e6, 4), "B": ("GB", 1e-9, 3), "Hz": ("MHz", 1e-6, 4)}


def show(analysis: Analysis) -> Iterator[Item]:
    """The table of each op, and its tidy frame as a file."""
    for op, frame in analysis.frames.items():
        yield CsvTable(tidy_file(analysis, op), frame, labels_last=True)
        if frame.empty:
            yield absence(f"The plan of {op} is empty.")
            continue
        several = ["world_size"] if (frame["world_size"] > 1).any() else []
        columns = point_columns([*axes_of(frame), *several], sqnr_columns(frame))
        name, file = f"Points of {op}", tidy_file(analysis, op)
        yield Table(f"points-{op}", name, readable_points(frame), columns, file)


def readable_points(frame: pd.DataFrame) -> pd.DataFrame:
    """A tidy frame and three columns for people: `protocol`, `half_width` and `states`."""
    return with_protocol(frame).assign(half_width=half_width(frame), states=readable_states(frame))


def point_columns(axes: Sequence[str], outputs: Sequence[str] = ()) -> list[Column]:
    """Columns of the table of all points of an op; the page leaves out those without a value.

    Args:
        axes: columns of the sizes of its shapes.
        outputs: columns of signal to quantisation noise, see tidy.sqnr_columns.
    """
    half_interval = "half the 95 % interval of the median"
    return [
        *col.named("recipe"),
        *col.counts(*axes),
        *col.named("provider", "protocol", "regime", "status"),
        col.seconds("median_s", "median"),
        col.fraction("half_width", "\N{PLUS-MINUS SIGN}", about=half_interval),
        *col.named("states", "achieved_flops_per_s", "achieved_bytes_per_s"),
        col.seconds("predicted_s", "predicted", about="calibrated model"),
        col.fraction("relative_error", "error", signed=True),
        col.text("bound_by", "bound by", about="largest part of the calibrated model's time"),
        col.seconds("burst_median_s", "burst", about="median of the first turn, before settling"),
        *col.named("sm_clock_hz", "power_w"),
        *(_column_of(quantity) for quantity in (*RARE, *COLUMNS) if quantity.label),
        *(col.decibels(name) for name in outputs),
        col.count("samples", "samples"),
        col.count(VISITS, "visits"),
        *col.named("sweeps"),
        col.code("point_id", "point"),
    ]


def _column_of(quantity: Quantity) -> Column:
    """A column of the page, for a quantity that has a label."""
    key, label, about = quantity.name, quantity.label, quantity.note
    if quantity.kind == "text":
        return col.text(key, label, about)
    if quantity.kind == "count":
        return col.count(key, label, about)
    if quantity.unit == "relative":
        return Column(key=key, label=label, kind="number", show="{:.1e}".format, about=about)
    if quantity.unit == "fraction":
        return col.fraction(key, label, about=about)
    unit, factor, digits = _UNITS.get(quantity.unit, (quantity.unit, 1.0, 3))
    return col.number(key, label, unit, factor, digits, about)


SECTION = Section("All points", "how", show)
