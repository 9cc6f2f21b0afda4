"""Draw the figure of errors in README.md and docs/index.md, from the published tables of the GPUs.

Run: python -m tools.write_pictures; a test fails when the errors in the pictures are not those of
the records. tools/take_screenshots.py takes the pictures of the report.
"""

from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import pandas as pd
import seaborn as sns

from tools.method_numbers import library_products, mean_error, tables_of_gpus

ROOT: Final = Path(__file__).resolve().parent.parent

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
    """Write an SVG of predicted over measured time, a row per GPU and a column per model.

    Args:
        products: rows of `library_products`, with the name of their GPU as `gpu`.
        palette: name of the colours; the background is transparent.
        file: the SVG to write.
    """
    ink, colours = PALETTES[palette]
    inked = ("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color")
    style: dict[Any, object] = {
        "font.size": 11,
        "axes.titlesize": 11,
        "svg.fonttype": "none",  # text stays text, which the test reads
        "svg.hashsalt": "roofcal",  # equal records give equal bytes
        **dict.fromkeys(inked, ink),
    }
    recipe = products["recipe"].where(products["recipe"].isin(RECIPES), RECIPES[-1])
    predicted = products.assign(recipe=recipe, microseconds=products["median_s"] * 1e6).melt(
        ["gpu", "recipe", "microseconds", "median_s"], [*MODELS], "model", "predicted"
    )
    with mpl.rc_context(style):
        grid = sns.relplot(
            predicted.assign(ratio=predicted["predicted"] / predicted["median_s"]),
            x="microseconds",
            y="ratio",
            row="gpu",
            col="model",
            hue="recipe",
            hue_order=RECIPES,
            palette=list(colours),
            height=2.8,
            aspect=1.15,
            s=12,
            alpha=0.75,
            linewidth=0,
        )
        grid.set(xscale="log", yscale="log", ylim=(0.01, 2))
        grid.set_axis_labels("measured time, µs", "predicted / measured time")
        for (gpu, model), panel in grid.axes_dict.items():
            error = mean_error(products[products["gpu"] == gpu], model)
            panel.set_title(f"{gpu}, {MODELS[model]}: {error} off")
            panel.set_yticks([0.01, 0.1, 0.5, 1, 2], ["0.01", "0.1", "0.5", "1", "2"])
            panel.minorticks_off()
            panel.grid(color=ink, alpha=0.15)
        grid.refline(y=1, color=ink, linestyle="-", linewidth=1)
        sns.move_legend(grid, "upper center", bbox_to_anchor=(0.5, 0), ncol=4, title=None)
        file.parent.mkdir(parents=True, exist_ok=True)
        grid.savefig(file, transparent=True, metadata={"Date": None})


if __name__ == "__main__":
    of_gpus = [library_products(of_gpu).assign(gpu=gpu) for gpu, of_gpu in tables_of_gpus().items()]
    rows = pd.concat(of_gpus, ignore_index=True)
    for name in PALETTES:
        draw_errors(rows, name, FOLDER / f"errors_{name}.svg")
        print(FOLDER / f"errors_{name}.svg")
