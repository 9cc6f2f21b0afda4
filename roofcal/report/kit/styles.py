"""How every figure looks: colours, sizes, axes.

Series colours are those of Okabe and Ito, and two of Tol's `muted` for ops with more than eight
recipes; they are told apart with any colour vision. In the page each colour below is a CSS
variable, so that figures follow a dark colour scheme.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import matplotlib as mpl
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)
from numpy.typing import NDArray

from roofcal.report.kit.numbers import TIMES, tick_text

INK: Final = "#1c2024"
MUTED: Final = "#67707b"
GRID: Final = "#e3e6ea"
PAPER: Final = "#fdfdfc"
BLUE: Final = "#0072b2"
VERMILLION: Final = "#d55e00"
GREEN: Final = "#009e73"
PURPLE: Final = "#cc79a7"
ORANGE: Final = "#e69f00"
SKY: Final = "#56b4e9"
WINE: Final = "#882255"
OLIVE: Final = "#999933"
GREY: Final = "#7f868e"

# Name of a colour, and of its CSS variable in reports/templates/style.css -> colour
COLOURS: Final = {
    "ink": INK,
    "muted": MUTED,
    "grid": GRID,
    "paper": PAPER,
    "blue": BLUE,
    "vermillion": VERMILLION,
    "green": GREEN,
    "purple": PURPLE,
    "orange": ORANGE,
    "sky": SKY,
    "wine": WINE,
    "olive": OLIVE,
    "grey": GREY,
}
SPARE_COLOURS: Final = (PURPLE, ORANGE, SKY, GREY, GREEN, VERMILLION, BLUE)
SPARE_MARKERS: Final = ("^", "v", "P", "X", "<", ">")
DASHED: Final = (0, (5, 2))
DOTTED: Final = (0, (1, 1.6))
DASH_DOTTED: Final = (0, (5, 1.5, 1, 1.5))
_MODELS: Final = {"calibrated": BLUE, "torchao": VERMILLION, "wave": GREEN, "datasheet": GREY}
# Slower than a baseline: vermillion; equal: paper; faster: blue. Symmetric in log2.
SLOWER_FASTER: Final = LinearSegmentedColormap.from_list(
    "slower_faster", ["#a63d00", "#d98a56", "#f3efe9", "#6aa5cf", "#0a5592"]
)

_RC: Final[Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "roofcal",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 11,
    "axes.titlesize": 11.5,
    "axes.labelsize": 11,
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 10.5),
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlepad": 8,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.linewidth": 0.7,
    "grid.color": GRID,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor"), INK),
    **dict.fromkeys(("xtick.labelcolor", "ytick.labelcolor"), INK),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), MUTED),
    **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 3),
    "legend.frameon": False,
    "legend.handletextpad": 0.4,
    "legend.columnspacing": 1.4,
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
    "figure.constrained_layout.use": True,
    "lines.linewidth": 1.4,
    "lines.markersize": 5,
    "axes.unicode_minus": True,
}
WIDTH_PX: Final = 960


@contextmanager
def look() -> Iterator[None]:
    """The settings under which figures are drawn and saved; those of the process come back."""
    with mpl.rc_context(), sns.axes_style("ticks"), mpl.rc_context(_RC):
        yield


class _Canvas(FigureCanvasSVG):
    """Measures the width of a label without painting pixels, as the default canvas does.

    Seaborn measures every label of a heat map: with the default canvas the report of 20,000
    measurements took 6.8 GB, with this one 0.7 GB.
    """

    def draw(self, *_: Any, **__: Any) -> None:
        """Draw nothing: seaborn calls this for unfinished figures, which have no layout yet."""


def new_figure(height_px: float, width_px: float = WIDTH_PX) -> Figure:
    """An empty figure of so many CSS pixels (an SVG unit is a pixel)."""
    figure = Figure(figsize=(width_px / 72, height_px / 72), layout="constrained")
    _Canvas(figure)
    return figure


def panel_grid(figure: Figure, count: int, across: int, **shared: Any) -> list[Axes]:
    """`count` panels of a grid that is `across` panels wide; the places left over stay empty."""
    lines = -(-count // across)
    grid = figure.subplots(lines, min(across, count), squeeze=False, **shared)
    panels = list(grid.flat)
    for axes in panels[count:]:
        axes.set_visible(False)
    return panels[:count]


def label_edges(grid: Any, x: str, y: str) -> None:
    """The labels of a grid of panels: of x below its last line, of y beside its first column."""
    for axes in grid[-1]:
        axes.set_xlabel(x)
    for axes in grid[:, 0]:
        axes.set_ylabel(y)


def dots(
    axes: Axes, x: Any, y: Any, colour: str, size: float, *, edge: float = 0, **options: Any
) -> None:
    """Dots of one colour, with an edge of so many points that tells overlapping dots apart."""
    if edge:
        options["edgecolor"] = PAPER
    axes.scatter(x, y, color=colour, s=size, linewidth=edge, **options)


# --- choosing colours and markers --------------------------------------------------------------


def spare_choice(name: str, choices: Sequence[str]) -> str:
    """One of `choices` for a name without a choice of its own: always the same one."""
    # the sum of bytes: a hash would differ from process to process
    return choices[sum(name.encode()) % len(choices)]


def model_colours(models: Iterable[str]) -> dict[str, str]:
    """The colour of each of several models of time; models without their own get spare ones."""
    names = list(models)
    unlisted = sorted(model for model in names if model not in _MODELS)
    spare = {m: SPARE_COLOURS[index % len(SPARE_COLOURS)] for index, m in enumerate(unlisted)}
    return {model: _MODELS.get(model) or spare[model] for model in names}


# --- legends -----------------------------------------------------------------------------------


def legend(figure: Any, handles: Sequence[Any], columns: int = 5, length: float = 0.9) -> None:
    """The legend above the panels; length: of a handle, in letters."""
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, handlelength=length)


def colour_lines(colours: dict[str, str]) -> list[Line2D]:
    """Handles: a thick stroke of a colour for each label."""
    return [Line2D([], [], color=c, label=label, linewidth=4) for label, c in colours.items()]


def marker_dot(label: str, marker: str, colour: str = INK, *, filled: bool = True) -> Line2D:
    """A handle: one marker without a line."""
    return Line2D(
        [],
        [],
        color=colour,
        markerfacecolor=colour if filled else "none",
        marker=marker,
        linestyle="",
        markersize=7,
        label=label,
    )


# --- axes --------------------------------------------------------------------------------------


def log_axis(axis: Any, unit: str) -> None:
    """A logarithmic axis labelled in SI prefixes ('10 us', '1 TFLOP/s') at powers of ten."""
    axis.set_major_locator(LogLocator(numticks=12))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    show_ticks(axis, lambda value: tick_text(value, unit) if value > 0 else "")


def show_ticks(axis: Any, show: Callable[[float], str], most: int | None = None) -> None:
    """Ticks of an axis as `show` writes them, at most so many of them."""
    if most is not None:
        axis.set_major_locator(MaxNLocator(most))
    axis.set_major_formatter(FuncFormatter(lambda value, _: show(value)))


def fixed_ticks(axis: Any, ticks: Sequence[float], suffix: str = "") -> None:
    """Ticks of a logarithmic axis at given numbers, each with a suffix behind it."""
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    show_ticks(axis, lambda value: f"{value:g}{suffix}")


def ratio_ticks(axis: Any, ticks: Sequence[float]) -> None:
    """Ticks of a logarithmic axis of ratios: '0.5x', '2x'."""
    fixed_ticks(axis, ticks, TIMES)


# --- heat maps ---------------------------------------------------------------------------------


def ratio_heat_map(axes: Axes, ratios: NDArray[np.float64], **options: Any) -> None:
    """Cells coloured by SLOWER_FASTER from 1/2 to 2; `options` are those of seaborn's heatmap."""
    sns.heatmap(
        np.log2(ratios), cmap=SLOWER_FASTER, vmin=-1, vmax=1, cbar=False, ax=axes, **options
    )
    axes.grid(visible=False)
    axes.tick_params(length=0)


def hatching(cells: NDArray[np.bool_]) -> LineCollection:
    """A stroke through every true cell of a matrix, and a line around each area of them."""
    rows, columns = np.nonzero(cells)
    segments = [[(c, r + 1.0), (c + 1.0, r)] for r, c in zip(rows, columns, strict=True)]
    padded = np.pad(cells, 1)
    for r, c in zip(*np.nonzero(padded[1:, 1:-1] != padded[:-1, 1:-1]), strict=True):
        segments.append([(c, r), (c + 1.0, r)])
    for r, c in zip(*np.nonzero(padded[1:-1, 1:] != padded[1:-1, :-1]), strict=True):
        segments.append([(c, r), (c, r + 1.0)])
    return LineCollection(segments, colors=INK, linewidths=0.7)
