"""Which recipe costs least energy: of the board by NVML, at the points whose power is their own."""

from collections.abc import Iterator
from typing import Final

import pandas as pd

from roofcal.core.units import significant
from roofcal.ops import BY_NAME
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.op_pages import casts_note
from roofcal.report.data.tidy import ok_rows, row_of_largest, shape_texts, with_protocol
from roofcal.report.kit.blocks import Prose, Table
from roofcal.report.kit.columns import fraction, named, number, ratio, seconds, text
from roofcal.report.kit.numbers import count_of, percent, times
from roofcal.report.section import CsvTable, Item, Section

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
_OF_BEST: Final = ("energy_j_per_flop", "sm_clock_hz", "shape", "provider")
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


def show(analysis: Analysis) -> Iterator[Item]:
    """Recipes by their energy, and every point that has one; nothing without any."""
    frames = [
        with_protocol(rows[rows["energy_j"].notna()]).assign(shape=shape_texts(rows))
        for rows in map(ok_rows, analysis.frames.values())
        if "energy_j" in rows
    ]
    points = pd.concat(frames or [pd.DataFrame()], ignore_index=True).reindex(columns=list(_KEPT))
    if points.empty:
        return
    points = points.assign(counter_over_power=points["board_w"] / points["integrated_w"] - 1)
    recipes = recipes_by_energy(points)
    yield CsvTable(FILE, points)
    yield Prose(text=" ".join(sentences(points, recipes)))
    yield Table(
        "energy-recipes",
        "Energy by recipe, lowest first; casts count in linears and blocks, not in products",
        recipes,
        RECIPES,
        FILE,
    )
    yield Table("energy-points", "Energy by point", points, POINTS, FILE)


def recipes_by_energy(points: pd.DataFrame) -> pd.DataFrame:
    """One row per op and recipe that computes, of an op the least energy per FLOP first."""
    computing = points[points["energy_j_per_flop"].notna() & (points["distribution"] == "normal")]
    baseline = computing[computing["recipe"] == _BASELINE].groupby(_SAME_WORK)["energy_j"].min()
    paired = computing.join(baseline.rename("baseline_j"), on=_SAME_WORK)
    paired = paired.assign(over_bf16=paired["energy_j"] / paired["baseline_j"])
    ordered = paired.sort_values("energy_j_per_flop", kind="stable")
    keys = ["op", "recipe"]
    groups = paired.groupby(keys)
    counts = groups.agg(points=("recipe", "size"), over_bf16=("over_bf16", "median"))
    best = ordered.drop_duplicates(keys)[[*keys, *_OF_BEST]]
    return best.join(counts, on=keys).sort_values(["op", "energy_j_per_flop"], kind="stable")


def sentences(points: pd.DataFrame, recipes: pd.DataFrame) -> Iterator[str]:
    """The recipe of least energy, what power was read, and how counter and power agree."""
    compared = recipes[recipes["over_bf16"].notna()]
    compared = compared[[BY_NAME[op].role == "study" for op in compared["op"]]]
    if len(compared):
        best = row_of_largest(compared.assign(saving=-compared["energy_j_per_flop"]), "saving")
        picojoules = significant(float(best["energy_j_per_flop"]) * 1e12)
        clock = best["sm_clock_hz"]
        at_clock = f" at {clock / 1e6:,.0f} MHz" if pd.notna(clock) else ""
        yield (
            f"{best['recipe']} in {best['op']} takes the least energy: {picojoules} pJ per "
            f"FLOP{at_clock}, {times(float(best['over_bf16']))} that of bf16 on the same shapes"
            f"{casts_note(str(best['op']))}."
        )
    yield (
        f"Power is that of the board by NVML, not at the wall, at "
        f"{count_of(len(points), 'point')}: those that ran alone for a second, those of "
        "groups at the power limit, and those whose energy counter was read. At other "
        "points power is that of several contenders, so none of it counts. No clock was set: at "
        "another clock the same work may take less energy."
    )
    both = points["counter_over_power"].dropna()
    if len(both):
        yield (
            f"Energy counter and integrated power differ by {percent(float(both.abs().max()))} at "
            f"most, over {count_of(len(both), 'point')} with both."
        )
    else:
        yield "No point of this run has read the energy counter (study `full` does)."


SECTION = Section("Energy", "recipe", show)
