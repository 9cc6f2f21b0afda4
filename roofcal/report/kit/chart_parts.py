"""Parts of the specifications of charts, made with Altair: axes, layers of marks, maps."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import altair as alt

from roofcal.report.kit.charts import LegendEntry
from roofcal.report.kit.styles import PAPER

# The colours of styles.SLOWER_FASTER, from half as fast to twice as fast.
_RATIOS: Final = (0.5, 0.7071, 1, 1.4142, 2)
_RATIO_COLOURS: Final = ("#a63d00", "#d98a56", "#f3efe9", "#6aa5cf", "#0a5592")

# Labels of an axis of bytes, at powers of two.
_BINARY: Final = " : ".join(
    f"datum.value >= {2**power} ? format(datum.value / {2**power}, '~g') + ' {prefix}B'"
    for power, prefix in ((30, "Gi"), (20, "Mi"), (10, "Ki"))
)


def byte_axis(key: str, title: str) -> alt.X:
    """The axis of a size in bytes, with ticks at powers of two: '1 MiB'."""
    label = f"{_BINARY} : datum.value + ' B'"
    axis = alt.Axis(title=title, labelExpr=label, tickCount=6)
    scale = alt.Scale(type="log", base=2, nice=False, padding=8)
    return alt.X(key, type="quantitative", axis=axis, scale=scale)


# Of a logarithmic axis: labels at 1, 2 and 5 times a power of ten, since all of them would collide.
_ROUND: Final = (
    "indexof([1, 2, 5], round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-6)))) < 0"
    " ? '' : "
)


def quantity(channel: Any, key: str, title: str, *, unit: str = "", linear: bool = False) -> Any:
    """The axis of a quantity, altair.X or altair.Y, its ticks with SI prefixes of `unit`.

    A linear axis begins at zero; others are logarithmic.
    """
    label = f"format(datum.value, '~s') + '{unit}'"
    scale = alt.Scale(zero=True) if linear else alt.Scale(type="log", nice=False, padding=8)
    axis = alt.Axis(title=title, labelExpr=label if linear else f"{_ROUND}{label}", tickCount=4)
    return channel(key, type="quantitative", axis=axis, scale=scale)


def count_axis(key: str, title: str) -> alt.X:
    """The axis of a number with ticks at powers of two, in full: '1,024'."""
    axis = alt.Axis(title=title, labelExpr="format(datum.value, ',')", tickCount=6)
    scale = alt.Scale(type="log", base=2, nice=False, padding=8)
    return alt.X(key, type="quantitative", axis=axis, scale=scale)


def ratio_axis(key: str, title: str, ticks: Sequence[float]) -> alt.Y:
    """The logarithmic axis of a ratio from the first tick to the last; others sit on its edges."""
    axis = alt.Axis(title=title, labelExpr="format(datum.value, '~g')", values=list(ticks))
    scale = alt.Scale(type="log", domain=[ticks[0], ticks[-1]], clamp=True, nice=False)
    return alt.Y(key, type="quantitative", axis=axis, scale=scale)


def marks(table: str, entries: Iterable[LegendEntry], **encodings: Any) -> alt.Chart:
    """A layer of rows in the colour of their column `colour`, but for rows the legend hides.

    The caller chooses the mark; `entries` are those whose columns the table has.
    """
    names = dict.fromkeys(entry.field for entry in entries)
    layer = alt.Chart(alt.NamedData(table)).encode(
        color=alt.Color("colour", type="nominal", scale=None, legend=None), **encodings
    )
    if not names:
        return layer
    visible = " && ".join(f"indexof(hidden_{name}, datum['{name}']) < 0" for name in names)
    return layer.encode(opacity=alt.condition(visible, alt.value(1), alt.value(0)))


def dots(entries: Iterable[LegendEntry], size: int = 55, **encodings: Any) -> Any:
    """The layer of `points`, each with the marker of its column `marker`."""
    shape = alt.Shape("marker", type="nominal", scale=None, legend=None)
    layer = marks("points", entries, shape=shape, **encodings)
    return layer.mark_point(filled=True, size=size, stroke=PAPER, strokeWidth=0.6, clip=True)


DASH: Final = (6, 4)


def lines(table: str, entries: Iterable[LegendEntry], width: float = 2, **encodings: Any) -> Any:
    """A layer of lines, those whose column `dashed` is 1 with strokes of DASH.

    encodings: x, y, and the `detail` that tells lines apart.
    """
    dash = alt.condition("datum.dashed == 1", alt.value([*DASH]), alt.value([1, 0]))
    layer = marks(table, entries, strokeDash=dash, **encodings)
    return layer.mark_line(strokeWidth=width, clip=True)


def rules(table: str, entries: Iterable[LegendEntry], **encodings: Any) -> Any:
    """A layer of level lines (`y`) or upright ones (`x`); see `lines`."""
    dash = alt.condition("datum.dashed == 1", alt.value([*DASH]), alt.value([1, 0]))
    return marks(table, entries, strokeDash=dash, **encodings).mark_rule(strokeWidth=1.4, clip=True)


def cells(
    x: str,
    x_title: str,
    y: str,
    y_title: str,
    x_order: Sequence[str] | None = None,
    y_order: Sequence[str] | None = None,
) -> list[alt.Chart]:
    """The layers of a map: cells coloured by `ratio`, slower to faster, with their `label`.

    x_order, y_order: texts of an axis in order; an axis without them has numbers.
    """

    def axis(channel: Any, key: str, title: str, order: Sequence[str] | None) -> Any:
        label = "datum.value" if order is not None else "format(datum.value, ',')"
        axis = alt.Axis(title=title or None, labelAngle=0, labelLimit=150, labelExpr=label)
        sort = "ascending" if order is None else list(order)
        return channel(key, type="ordinal", axis=axis, sort=sort)

    base = alt.Chart(alt.NamedData("points")).encode(
        x=axis(alt.X, x, x_title, x_order), y=axis(alt.Y, y, y_title, y_order)
    )
    scale = alt.Scale(
        type="log", domain=[*_RATIOS], range=[*_RATIO_COLOURS], interpolate="rgb", clamp=True
    )
    fill = alt.Fill("ratio", type="quantitative", scale=scale, legend=None)
    is_dark = "datum.ratio > 1.6 || datum.ratio < 0.6"
    ink = alt.condition(is_dark, alt.value("#ffffff"), alt.value("#111111"))
    return [
        base.mark_rect(stroke=PAPER, strokeWidth=1).encode(fill=fill),
        base.mark_text(fontSize=11).encode(text=alt.Text("label", type="nominal"), color=ink),
    ]


def layered(layers: Sequence[alt.Chart], legend: Iterable[LegendEntry]) -> dict[str, Any]:
    """The specification of layers above one another; the last one can be moved if it has axes."""
    hidden = [
        alt.param(name=f"hidden_{name}", value=[])
        for name in dict.fromkeys(entry.field for entry in legend)
    ]
    return alt.layer(*layers).add_params(*hidden).to_dict()


def movable(layer: alt.Chart) -> alt.Chart:
    """A layer whose axes follow the pointer, and the wheel while Ctrl or Alt is held.

    The wheel alone scrolls the page.
    """
    # Altair would name the layer by a counter of the process, and bytes would differ
    return layer.properties(name="moved").add_params(
        alt.selection_interval(
            name="zoom",
            bind="scales",
            zoom="wheel![event.ctrlKey || event.altKey]",
            clear="dblclick",
        )
    )
