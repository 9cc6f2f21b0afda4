"""How every figure looks: colours, markers, axes. A recipe has one colour throughout the report.

Series colours are those of Okabe and Ito, and two of Tol's `muted` where an op has more than eight
recipes, told apart with any colour vision. In the page, each
colour below is a CSS variable, so that figures follow a dark colour scheme.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import matplotlib as mpl
import seaborn as sns
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from roofcal.ops import BY_NAME
from roofcal.report.kit.numbers import fitting

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

# Colour -> name of its CSS variable in reports/templates/style.css
VARIABLES: Final = {
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    PAPER: "paper",
    BLUE: "blue",
    VERMILLION: "vermillion",
    GREEN: "green",
    PURPLE: "purple",
    ORANGE: "orange",
    SKY: "sky",
    WINE: "wine",
    OLIVE: "olive",
    GREY: "grey",
}
_RECIPES: Final = {
    "bf16": BLUE,
    "fp32": GREY,
    "int8": PURPLE,
    "fp8_tensorwise": VERMILLION,
    "fp8_tensorwise_slow_accum": ORANGE,
    "fp8_axiswise": GREEN,
    "fp8_axiswise_slow_accum": SKY,
    "fp8_blockwise_128x128": INK,
    "fp8_axiswise_bf16_grad_weight": SKY,
    "mxfp8": PURPLE,
    "int4": PURPLE,
    "fp8_weight_only": GREY,
    "int4_groupwise_g32": ORANGE,
    "int4_groupwise_g64": SKY,
    "int4_groupwise_g128": PURPLE,
    "int4_groupwise_g64_asymmetric": INK,  # black: the eighth of Okabe and Ito
    "fp8_rowwise_dim0": GREEN,
    "fp8_rowwise_dim1": SKY,
    "fp8_rowwise_both": PURPLE,
    "mxfp8_dim0": BLUE,
    "mxfp8_dim1": ORANGE,
    "mxfp8_both": GREY,
    "fp8_blockwise_1x128": OLIVE,
    "fp8_blockwise_1x128_dim1": WINE,
    "read": BLUE,
    "write": VERMILLION,
    "copy": GREEN,
    "all_gather": BLUE,
    "reduce_scatter": VERMILLION,
    "all_reduce": GREEN,
    "copy_engine_peer": GREY,
}
_SPARE: Final = (PURPLE, ORANGE, SKY, GREY, GREEN, VERMILLION, BLUE)
_MODELS: Final = {"calibrated": BLUE, "torchao": VERMILLION, "wave": GREEN, "datasheet": GREY}
_PROVIDERS: Final = {
    "cublaslt": "o",
    "torch_cpu": "o",
    "torch_eager": "s",
    "torch_compile": "D",
    "triton": "^",
    "triton_chained": "*",
    "triton_products": "<",
    "torchao": "X",
    "bf16_compile": "o",
    "tinygemm": "v",
    "gemlite": "P",
    "symm_mem_fused": "^",
    "torch_fused": "X",
    "nccl": "o",
    "symm_mem": "^",
    "gloo": "o",
}
_SPARE_MARKERS: Final = ("^", "v", "P", "X", "<", ">")
_OPS: Final = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, GREY)

_RC: Final[Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "roofcal",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 11,
    "axes.titlesize": 11.5,
    "axes.labelsize": 11,
    "xtick.labelsize": 10.5,
    "ytick.labelsize": 10.5,
    "legend.fontsize": 10.5,
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
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.edgecolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "legend.frameon": False,
    "legend.handletextpad": 0.4,
    "legend.columnspacing": 1.4,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
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
    """Tells how wide a label is without painting pixels for it, as the default canvas does.

    Seaborn asks that of every label of a heat map: the report of 20,000 measurements took 6.8 GB,
    with this canvas 0.7 GB.
    """

    def draw(self, *_: Any, **__: Any) -> None:
        """Nothing: seaborn draws figures that are not finished, whose layout cannot be made."""


def new_figure(height_px: float, width_px: float = WIDTH_PX) -> Figure:
    """An empty figure of so many CSS pixels (an SVG unit is a pixel)."""
    figure = Figure(figsize=(width_px / 72, height_px / 72), layout="constrained")
    _Canvas(figure)
    return figure


def recipe_colour(recipe: str) -> str:
    """The colour of a recipe; a recipe that has none yet always gets the same spare one."""
    return _RECIPES.get(recipe) or _SPARE[_number(recipe) % len(_SPARE)]


def model_colours(models: Iterable[str]) -> dict[str, str]:
    """The colour of each of several models of time; those that have none yet get spare ones."""
    found = list(models)
    new = sorted(model for model in found if model not in _MODELS)
    spare = {model: _SPARE[index % len(_SPARE)] for index, model in enumerate(new)}
    return {model: _MODELS.get(model) or spare[model] for model in found}


def op_colour(op: str) -> str:
    """The colour of an op, by its place in the study."""
    return _OPS[list(BY_NAME).index(op) % len(_OPS)]


def provider_marker(provider: str) -> str:
    """The marker of a provider."""
    return _PROVIDERS.get(provider) or _SPARE_MARKERS[_number(provider) % len(_SPARE_MARKERS)]


def _number(name: str) -> int:
    """A number that depends on a name alone, and on no process's hash seed."""
    return sum(name.encode())


def by_recipe_order(recipes: Sequence[str], op: str) -> list[str]:
    """Recipes in the order in which their op declares them."""
    declared = BY_NAME[op].recipes
    return sorted(recipes, key=lambda name: declared.index(name) if name in declared else 99)


def log_axis(axis: Any, unit: str, *, base: float = 10) -> None:
    """A logarithmic axis labelled in SI prefixes ('10 us', '1 TFLOP/s') at powers of ten."""
    axis.set_major_locator(LogLocator(base=base, numticks=12))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value, unit)))


def _tick(value: float, unit: str) -> str:
    return tick_text(value, unit) if value > 0 else ""


def tick_text(value: float, unit: str) -> str:
    """A tick with its unit and no idle zeros: (5e12, 'B/s') -> '5 TB/s'."""
    factor, shown = fitting(value, unit)
    return f"{value / factor:,.5g}\N{NO-BREAK SPACE}{shown}".replace("-", "\N{MINUS SIGN}").strip()
