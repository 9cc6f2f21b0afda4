"""Which recipe costs least energy: of the board by NVML, at the points whose power is their own."""

from collections.abc import Iterator
from typing import Final

import pandas as pd

from roofcal.ops import BY_NAME
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.tidy import ok_rows, shape_texts, with_protocol
from roofcal.report.kit.blocks import Block, Prose
from roofcal.report.kit.columns import fraction, named, number, ratio, seconds, text
from roofcal.report.kit.numbers import count_of, percent, significant, times
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Section, filled_table

FILE: Final = "energy.csv"
_BASELINE: Final = "bf16"
_SAME_WORK: Final = ["op", "shape", "protocol", "repeat"]
_KEPT: Final = (
    *("op", "recipe", "provider", "shape", "protocol", "distribution", "repeat", "median_s"),
    "sm_clock_hz",
    *("board_w", "idle_w", "integrated_w", "energy_by", "energy_j", "energy_low_j"),
    *("energy_high_j", "energy_j_per_flop", "energy_j_per_token"),
)
COLUMNS: Final = (*_KEPT, "counter_over_power")
_LABEL: Final = "board power by NVML, not at the wall"
RECIPES: Final = (
    *named("op", "recipe"),
    number("points", "points", "", 1),
    number("energy_j_per_flop", "lowest", "pJ/FLOP", 1e12, about=f"of any point; {_LABEL}"),
    *named("sm_clock_hz"),
    ratio("over_bf16", "of bf16", about="median energy over that of bf16 by the same shape"),
    text("shape", "shape", about="of the point with the lowest energy per FLOP"),
    *named("provider"),
)
POINTS: Final = (
    *named("op", "recipe", "provider", "shape", "protocol"),
    seconds("median_s", "median"),
    *named("sm_clock_hz"),
    number("board_w", "board", "W", 1, about=_LABEL),
    number(
        "idle_w", "at rest", "W", 1, about="power of the board just before, by its energy counter"
    ),
    number("energy_j", "a call", "mJ", 1e3, 4),
    number("energy_low_j", "from", "mJ", 1e3, 4, about="lowest power times lower end of the time"),
    number("energy_high_j", "to", "mJ", 1e3, 4, about="highest power times upper end of the time"),
    number("energy_j_per_flop", "a FLOP", "pJ", 1e12),
    number("energy_j_per_token", "a token", "mJ", 1e3, about="a token is a row of A"),
    text("energy_by", "power from"),
    fraction("counter_over_power", "counter", signed=True, about="counter over integrated power"),
)


# points: a row per point with a power of its own; recipes: a row per op and recipe
Energy = tuple[pd.DataFrame, pd.DataFrame]


def energy_of_run(analysis: Analysis) -> Energy:
    """(points, recipes) of all points of a run that have an energy."""
    frames = [
        with_protocol(ok_rows(frame)).assign(shape=shape_texts(ok_rows(frame)))
        for frame in analysis.frames.values()
        if "energy_j" in frame
    ]
    if not frames:
        return pd.DataFrame(), pd.DataFrame()
    every = pd.concat(frames, ignore_index=True)
    points = every[every["energy_j"].notna()].reindex(columns=list(_KEPT))
    points = points.assign(counter_over_power=points["board_w"] / points["integrated_w"] - 1)
    return points, recipes_by_energy(points)


def recipes_by_energy(points: pd.DataFrame) -> pd.DataFrame:
    """One row per op and recipe that computes, of an op the least energy per FLOP first."""
    computing = points[points["energy_j_per_flop"].notna() & (points["distribution"] == "normal")]
    baseline = computing[computing["recipe"] == _BASELINE].groupby(_SAME_WORK)["energy_j"].min()
    paired = computing.join(baseline.rename("baseline_j"), on=_SAME_WORK)
    paired = paired.assign(over_bf16=paired["energy_j"] / paired["baseline_j"])
    rows = []
    for (op, recipe), group in paired.groupby(["op", "recipe"], sort=False):
        best = group.sort_values("energy_j_per_flop", kind="stable").iloc[0]
        kept = best[["energy_j_per_flop", "sm_clock_hz", "shape", "provider"]].to_dict()
        over = group["over_bf16"].median()
        rows.append({"op": op, "recipe": recipe, "points": len(group), "over_bf16": over} | kept)
    frame = pd.DataFrame(rows)
    return frame.sort_values(["op", "energy_j_per_flop"], kind="stable") if rows else frame


def _blocks(energy: Energy, writer: SectionWriter) -> Iterator[Block]:
    points, recipes = energy
    if points.empty:
        return
    yield Prose(text=_explanation(points, recipes))
    yield from writer.filled_table(
        "energy-recipes", "Energy by recipe, lowest first", recipes, RECIPES, FILE
    )
    yield writer.table("energy-points", "Energy by point", points, POINTS, FILE)


def _explanation(points: pd.DataFrame, recipes: pd.DataFrame) -> str:
    sentences = []
    rows = recipes.to_dict("records")
    compared = [r for r in rows if pd.notna(r["over_bf16"]) and BY_NAME[r["op"]].role == "study"]
    if compared:
        best = min(compared, key=lambda row: float(row["energy_j_per_flop"]))
        picojoules = significant(float(best["energy_j_per_flop"]) * 1e12)
        clock = ""
        if pd.notna(best["sm_clock_hz"]):
            clock = f" at {best['sm_clock_hz'] / 1e6:,.0f} MHz"
        sentences.append(
            f"{best['recipe']} in {best['op']} takes the least energy: {picojoules} pJ per "
            f"FLOP{clock}, {times(float(best['over_bf16']))} that of bf16 on the same shapes."
        )
    sentences.append(
        f"Power is that of the board by NVML, not at the wall, at "
        f"{count_of(len(points), 'point')}: those that ran alone for a second, those of "
        "groups at the power limit, and those whose energy counter was read. Other readings mix "
        "contenders. No clock was set: the card chose it, and another may take less energy."
    )
    both = points["counter_over_power"].dropna()
    if len(both):
        sentences.append(
            f"Counter and integrated power differ by {percent(float(both.abs().max()))} at most, "
            f"over {count_of(len(both), 'point')} with both."
        )
    else:
        sentences.append("No point of this run has read the energy counter (study `full` does).")
    return " ".join(sentences)


SECTION = Section(
    "Energy",
    "recipe",
    energy_of_run,
    _blocks,
    tables=lambda energy: filled_table(FILE, energy[0]),
)
