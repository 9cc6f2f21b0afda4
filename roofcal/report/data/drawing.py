"""What figures draw alike: colours and order of recipes, markers of providers, levels of roofs.

Colours and markers are those of the pages of the ops. A recipe has one colour throughout the
report, whichever op it is drawn for.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration
from roofcal.ops import BY_NAME, FOLDERS
from roofcal.report.data.op_pages import page_of
from roofcal.report.data.roofs import COPY, constants_of
from roofcal.report.kit import styles
from roofcal.report.kit.numbers import scaled

_OP_COLOURS: Final = ("blue", "vermillion", "green", "orange", "purple", "sky", "grey")


@cache
def recipe_colour(recipe: str) -> str:
    """The colour of a recipe; a recipe that no op gives one always gets the same spare one."""
    names = [page_of(op).colours.get(recipe) for op in FOLDERS]
    name = next(filter(None, reversed(names)), None)
    return styles.COLOURS[name] if name else styles.spare_choice(recipe, styles.SPARE_COLOURS)


def recipe_colours(recipes: Iterable[str]) -> dict[str, str]:
    """Recipe -> colour, in the given order."""
    return {recipe: recipe_colour(recipe) for recipe in recipes}


@cache
def provider_marker(provider: str) -> str:
    """The marker of a provider; one that no op gives a marker always gets the same spare one."""
    markers = [page_of(op).markers.get(provider) for op in FOLDERS]
    spare = styles.spare_choice(provider, styles.SPARE_MARKERS)
    return next(filter(None, reversed(markers)), None) or spare


def provider_lines(providers: Iterable[str], dashes: Mapping[str, Any]) -> list[Line2D]:
    """Handles: a muted line for each provider; providers without `dashes` have solid lines."""
    return styles.marker_lines(
        {name: (provider_marker(name), dashes.get(name, "-")) for name in providers}
    )


def op_colour(op: str) -> str:
    """The colour of an op, by its place in the study."""
    return styles.COLOURS[_OP_COLOURS[list(BY_NAME).index(op) % len(_OP_COLOURS)]]


def in_recipe_order(recipes: Iterable[str], op: str) -> list[str]:
    """Recipes without repetition, in the order in which their op declares them.

    Recipes that it does not declare come last, in the order of their first appearance.
    """
    ranks = {name: rank for rank, name in enumerate(BY_NAME[op].recipes)}
    return sorted(dict.fromkeys(map(str, recipes)), key=lambda name: ranks.get(name, len(ranks)))


def draw_bandwidth_levels(
    panels: Sequence[Axes], calibration: Calibration | None, spec: DeviceSpec | None
) -> None:
    """The datasheet's bandwidth and the calibrated copy bandwidth; named in the first panel."""
    copy = constants_of(calibration).get(COPY)
    levels = {
        "datasheet": spec.dram_bytes_per_s if spec else None,
        "calibrated copy": copy.value if copy else None,
    }
    drawn = {name: level for name, level in levels.items() if level is not None}
    for name, level in drawn.items():
        of_datasheet = name == "datasheet"
        text = f"{name} {scaled(level, 'B/s')}"
        styles.level_line(panels, level, text, dashed=of_datasheet, above=of_datasheet)
    top = 1.12 * max(drawn.values(), default=0.0)
    if top > panels[0].get_ylim()[1]:
        panels[0].set_ylim(top=top)
