"""Throughput against time per token as a chart: a panel per language model."""

from collections.abc import Mapping

import altair as alt
import pandas as pd

from roofcal.report.data.drawing import STEP_TIP
from roofcal.report.kit.chart_parts import dots, layered, lines, marks, movable, quantity
from roofcal.report.kit.charts import Chart, LegendEntry, Panel, Tip, marker_path
from roofcal.report.kit.numbers import count_of


def llm_chart(rows: pd.DataFrame, colours: Mapping[str, str]) -> Chart:
    """Lines over the batches with their intervals.

    Args:
        rows: of llm.csv, one tensor-parallel degree of each model.
        colours: of its recipes.
    """
    points = rows.reset_index(drop=True)
    points = points.assign(
        colour=points["recipe"].map(dict(colours)),
        marker=marker_path("o"),
        dashed=0,
        gpus=points["tensor_parallel"],
    )
    legend = [
        LegendEntry(field="recipe", value=recipe, colour=colour, marker="swatch")
        for recipe, colour in colours.items()
    ]
    x = quantity(alt.X, "decode_step_s", "time per token of one request", unit="s")
    y = quantity(alt.Y, "decode_tokens_per_s", "tokens/s of all requests")
    low = alt.Y("decode_tokens_per_s_low", type="quantitative", scale=y.to_dict()["scale"])
    recipe = alt.Detail("recipe", type="nominal")
    band = marks("points", legend, x=x, y=low, y2="decode_tokens_per_s_high", detail=recipe)
    gpus = points.groupby("model", sort=True)["tensor_parallel"].first()
    return Chart(
        spec=layered(
            [
                band.mark_area(fillOpacity=0.13, clip=True),
                lines("points", legend, x=x, y=y, detail=recipe),
                movable(dots(legend, 42, x=x, y=y)),
            ],
            legend,
        ),
        tables={"points": points},
        panels=[
            Panel(
                title=f"{model}, {count_of(int(count), 'GPU')}", where={"model": model}, height=230
            )
            for model, count in gpus.items()
        ],
        x="decode_step_s",
        y="decode_tokens_per_s",
        tips=(
            Tip(key="recipe", label="recipe"),
            Tip(key="batch", label="batch", kind="count"),
            STEP_TIP,
            Tip(
                key="decode_tokens_per_s",
                label="tokens/s",
                kind="count",
                low="decode_tokens_per_s_low",
                high="decode_tokens_per_s_high",
            ),
            Tip(key="first_token_s", label="first token", kind="si", unit="s"),
            Tip(key="decode_bound_by", label="bound by"),
        ),
        legend=legend,
        columns=3,
    )
