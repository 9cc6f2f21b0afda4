"""Colours and markers of every chart.

Series colours are those of Okabe and Ito, and two of Tol's `muted` for ops with more than eight
recipes; they are told apart with any colour vision. In the page each colour below is a CSS
variable, so that charts follow a dark colour scheme.
"""

from collections.abc import Iterable, Sequence
from typing import Final

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
_MODELS: Final = {"calibrated": BLUE, "torchao": VERMILLION, "wave": GREEN, "datasheet": GREY}


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
