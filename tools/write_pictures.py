"""Draw the figure of errors in README.md and docs/index.md, from the published records of the H200.

Run: python tools/write_pictures.py; a test fails when the errors in the pictures are not those of
the records. tools/take_screenshots.py takes the pictures of the report.
"""

import sys
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.method_numbers import library_products, mean_error, tables_of_publication  # noqa: E402

FOLDER: Final = ROOT / "docs" / "pictures"
MODELS: Final = {
    "datasheet_s": "datasheet roofline",
    "torchao_s": "torchao's roofline",
    "predicted_s": "roofcal, calibrated",
}
RECIPES: Final = ("bf16", "fp8_tensorwise", "fp8_axiswise", "other fp8")
# Ink, then a colour per recipe that deuteranopes tell apart (after Okabe and Ito), by page colour.
PALETTES: Final = {
    "light": ("#24292f", ("#0072b2", "#d55e00", "#009e73", "#8c959f")),
    "dark": ("#d0d7de", ("#56b4e9", "#f0883e", "#2bc99a", "#768390")),
}


def draw_errors(products: pd.DataFrame, palette: str, file: Path) -> None:
    """Write an SVG of predicted over measured time, one panel per model.

    Args:
        products: rows of `library_products`.
        palette: name of the colours; the background is transparent.
        file: the SVG to write.
    """
    ink, colours = PALETTES[palette]
    style: dict[Any, object] = {
        "font.size": 11,
        "svg.fonttype": "none",  # text stays text, which the test reads
        "svg.hashsalt": "roofcal",  # equal records give equal bytes
        "axes.edgecolor": ink,
        "text.color": ink,
        "axes.labelcolor": ink,
        "xtick.color": ink,
        "ytick.color": ink,
    }
    with mpl.rc_context(style):
        figure, panels = plt.subplots(1, 3, figsize=(10, 3.6), sharey=True, layout="constrained")
        for panel, model in zip(panels, MODELS, strict=True):
            _draw_panel(panel, products, model, ink, colours)
        panels[0].set_ylabel("predicted / measured time")
        panels[1].set_xlabel("measured time of a product, µs")
        panels[0].legend(
            loc="lower right",
            reverse=True,
            frameon=False,
            handletextpad=0.1,
            markerscale=1.8,
            fontsize=9,
        )
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, transparent=True, metadata={"Date": None})
        plt.close(figure)


def _draw_panel(
    panel: Axes, products: pd.DataFrame, model: str, ink: str, colours: tuple[str, ...]
) -> None:
    panel.axhline(1, color=ink, linewidth=1)
    recipe_of_row = products["recipe"].where(products["recipe"].isin(RECIPES), RECIPES[-1])
    for recipe, colour in reversed([*zip(RECIPES, colours, strict=True)]):
        rows = products[recipe_of_row == recipe]
        panel.scatter(
            rows["median_s"] * 1e6,
            rows[model] / rows["median_s"],
            s=8,
            color=colour,
            alpha=0.75,
            linewidths=0,
            label=recipe,
        )
    panel.set(xscale="log", yscale="log", ylim=(0.01, 2))
    panel.set_yticks([0.01, 0.1, 0.5, 1, 2], ["0.01", "0.1", "0.5", "1", "2"])
    panel.minorticks_off()
    panel.grid(color=ink, alpha=0.15)
    panel.spines[["top", "right"]].set_visible(False)
    panel.set_title(f"{MODELS[model]}: {mean_error(products, model)} off")


if __name__ == "__main__":
    rows = library_products(tables_of_publication())
    for name in PALETTES:
        draw_errors(rows, name, FOLDER / f"errors_{name}.svg")
        print(FOLDER / f"errors_{name}.svg")
