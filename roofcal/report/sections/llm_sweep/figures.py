"""The map over tensor parallelism and pipeline stages, and throughput against latency over it."""

from typing import Final

import pandas as pd

from roofcal.report.data.drawing import STEP_TIP
from roofcal.report.data.tidy import row_of_largest
from roofcal.report.kit import styles
from roofcal.report.kit.charts import Axis, Chart, Layer, LegendEntry, Panel, Tip
from roofcal.report.kit.numbers import count_of, scaled, significant
from roofcal.report.kit.pictures import Picture

_COLOURS: Final = {  # of numbers of GPUs
    1: styles.BLUE,
    2: styles.GREEN,
    4: styles.ORANGE,
    8: styles.VERMILLION,
}
_TIPS: Final = (
    Tip(key="tensor_parallel", label="tensor-parallel GPUs", kind="count"),
    Tip(key="pipeline_parallel", label="pipeline stages", kind="count"),
    Tip(key="batch", label="batch", kind="count"),
    Tip(key="tokens_per_s_per_gpu", label="tokens/s and GPU", kind="count"),
    STEP_TIP,
    Tip(key="first_token_s", label="first token", kind="si", unit="s"),
)


def draw_map(rows: pd.DataFrame) -> Picture:
    """A panel per model, stages down, tensor parallelism across: the best batch of each cut."""
    best = rows.groupby(["model", "pipeline_parallel", "tensor_parallel"])["tokens_per_s_per_gpu"]
    points = rows.loc[sorted(best.idxmax())].reset_index(drop=True)
    rate = points["tokens_per_s_per_gpu"]
    points = points.assign(
        label=[significant(value, 2) for value in rate],
        ratio=rate / rate.groupby(points["model"]).transform("median"),
    )
    chart = Chart(
        x=Axis("tensor_parallel", "tensor-parallel GPUs", "names"),
        y=Axis("pipeline_parallel", "stages", "names"),
        layers=[Layer(mark="cells")],
        tables={"points": points},
        panels=_panels(points, height=150),
        tips=_TIPS,
        columns=3,
        zooms=False,
    )
    best_row = row_of_largest(rows, "tokens_per_s_per_gpu")
    return Picture(
        key="llm_map",
        drawn=chart,
        alt="Maps of throughput per GPU over tensor parallelism and pipeline stages, by model.",
        facts=f"{count_of(len(chart.panels), 'model')} in {rows['recipe'].iloc[0]}. "
        f"{_highest(best_row)}",
        op="llm",
    )


def draw_frontier(rows: pd.DataFrame) -> Picture:
    """A panel per model: what no other cut and batch beats, by GPUs."""
    best = rows[rows["frontier"] == "yes"]
    gpus = best["tensor_parallel"] * best["pipeline_parallel"]
    points = best.reset_index(drop=True).assign(
        colour=gpus.map(_COLOURS).fillna(styles.MUTED).to_numpy(),
        marker="o",
        gpus=[count_of(int(count), "GPU") for count in gpus],
    )
    line = points[["model", "decode_step_s", "tokens_per_s_per_gpu"]]
    chart = Chart(
        x=Axis("decode_step_s", "time per token of one request", unit="s"),
        y=Axis("tokens_per_s_per_gpu", "tokens/s and GPU"),
        layers=[Layer(mark="line", table="line", size=1.2, hidden=()), Layer(mark="dots")],
        tables={"points": points, "line": line.assign(colour=styles.MUTED, dashed=0)},
        panels=_panels(points, height=230),
        tips=_TIPS,
        legend=[
            LegendEntry(field="gpus", value=count_of(count, "GPU"), colour=colour, marker="o")
            for count, colour in _COLOURS.items()
            if (gpus == count).any()
        ],
        columns=3,
    )
    quickest = row_of_largest(best.assign(speed=1 / best["decode_step_s"]), "speed")
    step = scaled(float(quickest["decode_step_s"]), "s")
    return Picture(
        key="llm_frontier",
        drawn=chart,
        alt="Throughput per GPU against time per token over all cuts, one panel per model.",
        facts=f"Least time per token: {step} ({quickest['model']}, {_cut(quickest)}). "
        f"{_highest(row_of_largest(best, 'tokens_per_s_per_gpu'))}",
        op="llm",
    )


def _panels(points: pd.DataFrame, height: int) -> list[Panel]:
    models = sorted(set(points["model"]))
    return [Panel(title=model, where={"model": model}, height=height) for model in models]


def _highest(best: pd.Series) -> str:
    return (
        f"Most tokens per second and GPU: {best['tokens_per_s_per_gpu']:,.0f} ({best['model']}, "
        f"{_cut(best)}, batch {best['batch']:,})."
    )


def _cut(row: pd.Series) -> str:
    return f"tensor {row['tensor_parallel']}, pipeline {row['pipeline_parallel']}"
