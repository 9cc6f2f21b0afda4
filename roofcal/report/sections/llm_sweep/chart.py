"""Cuts of language models as charts: throughput per GPU as a map and against time per token."""

from collections.abc import Mapping
from typing import Final

import altair as alt
import pandas as pd

from roofcal.report.data.drawing import STEP_TIP
from roofcal.report.kit.chart_parts import cells, dots, layered, lines, movable, quantity
from roofcal.report.kit.charts import Chart, LegendEntry, Panel, Tip, marker_path
from roofcal.report.kit.numbers import count_of, significant
from roofcal.report.kit.styles import MUTED

_TIPS: Final = (
    Tip(key="tensor_parallel", label="tensor-parallel GPUs", kind="count"),
    Tip(key="pipeline_parallel", label="pipeline stages", kind="count"),
    Tip(key="batch", label="batch", kind="count"),
    Tip(key="tokens_per_s_per_gpu", label="tokens/s and GPU", kind="count"),
    STEP_TIP,
    Tip(key="first_token_s", label="first token", kind="si", unit="s"),
)


def frontier_chart(rows: pd.DataFrame, colours: Mapping[int, str]) -> Chart:
    """What no other cut and batch beats; colours: of each number of GPUs."""
    gpus = rows["tensor_parallel"] * rows["pipeline_parallel"]
    points = rows.reset_index(drop=True).assign(
        colour=gpus.map(dict(colours)).fillna(MUTED).to_numpy(),
        marker=marker_path("o"),
        gpus=[count_of(int(count), "GPU") for count in gpus],
    )
    legend = [
        LegendEntry(field="gpus", value=count_of(count, "GPU"), colour=colour, marker="o")
        for count, colour in colours.items()
        if (gpus == count).any()
    ]
    x = quantity(alt.X, "decode_step_s", "time per token of one request", unit="s")
    y = quantity(alt.Y, "tokens_per_s_per_gpu", "tokens/s and GPU")
    line = points[["model", "decode_step_s", "tokens_per_s_per_gpu"]].assign(colour=MUTED, dashed=0)
    return Chart(
        spec=layered([lines("line", [], 1.2, x=x, y=y), movable(dots(legend, x=x, y=y))], legend),
        tables={"points": points, "line": line},
        panels=[
            Panel(title=model, where={"model": model}, height=230)
            for model in sorted(set(points["model"]))
        ],
        x="decode_step_s",
        y="tokens_per_s_per_gpu",
        tips=_TIPS,
        legend=legend,
        columns=3,
    )


def cut_chart(rows: pd.DataFrame) -> Chart:
    """The batch with the most tokens per second and GPU of each cut: stages down, degree across."""
    best = rows.groupby(["model", "pipeline_parallel", "tensor_parallel"])["tokens_per_s_per_gpu"]
    points = rows.loc[sorted(best.idxmax())].reset_index(drop=True)
    rate = points["tokens_per_s_per_gpu"]
    points = points.assign(
        label=[significant(value, 2) for value in rate],
        ratio=rate / rate.groupby(points["model"]).transform("median"),
    )
    return Chart(
        spec=layered(
            cells("tensor_parallel", "tensor-parallel GPUs", "pipeline_parallel", "stages"), []
        ),
        tables={"points": points},
        panels=[
            Panel(title=model, where={"model": model}, height=150)
            for model in sorted(set(points["model"]))
        ],
        x="tensor_parallel",
        y="pipeline_parallel",
        tips=_TIPS,
        columns=3,
        zooms=False,
    )
