"""Colours and markers of every chart.

Series colours are those of Okabe and Ito, and two of Tol's `muted` for ops with more than eight
recipes; they are told apart with any colour vision. In the page each colour below is a CSS
variable, so that charts follow a dark colour scheme.
"""

from collections.abc import Iterable, Sequence
from typing import Final

# Name of a colour, and of its CSS variable in reports/templates/style.css -> colour
COLOURS: Final = {
    "ink": "#1c2024",
    "muted": "#67707b",
    "grid": "#e3e6ea",
    "paper": "#fdfdfc",
    "blue": "#0072b2",
    "vermillion": "#d55e00",
    "green": "#009e73",
    "purple": "#cc79a7",
    "orange": "#e69f00",
    "sky": "#56b4e9",
    "wine": "#882255",
    "olive": "#999933",
    "grey": "#7f868e",
}
INK, MUTED, GRID, PAPER, *_SERIES = COLOURS.values()
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, WINE, OLIVE, GREY = _SERIES
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
