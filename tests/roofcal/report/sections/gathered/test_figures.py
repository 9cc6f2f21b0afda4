"""Speed-up, overlap and ranks of fused all-gathers, drawn from a run whose times are known."""

import numpy as np
import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.sections.gathered import (
    FUSED,
    OP,
    draw_hidden,
    draw_ranks,
    draw_speedup,
    overlap_table,
)
from tests.roofcal.report.drawn import dots
from tests.roofcal.report.gathers import APART, NINE, WORLD_SIZES, gathered_run


@pytest.fixture(scope="module")
def gathers(tmp_path_factory: pytest.TempPathFactory, h200: DeviceSpec) -> Analysis:
    return analyse(load_run(gathered_run().write(tmp_path_factory.mktemp("gathers"))), h200)


@pytest.fixture(scope="module")
def table(gathers: Analysis) -> pd.DataFrame:
    return overlap_table(gathers.frames[OP])


def test_a_panel_per_world_size_and_recipe_has_every_ratio_and_the_ideal(
    table: pd.DataFrame,
) -> None:
    picture = draw_speedup(table)
    assert picture is not None
    titles = [axes.get_title(loc="left") for axes in picture.figure.axes]
    assert titles == [f"{n} GPUs, {r}" for n in WORLD_SIZES for r in ("bf16", "fp8_axiswise")]
    drawn = dots(picture.figure.axes[0])
    chosen = table[(table["world_size"] == 2) & (table["recipe"] == "bf16")]
    ideal = chosen[chosen["mode"] == "graph"].drop_duplicates(["m", "n", "k"])["ideal"]
    expected = sorted([*chosen["speedup"], *ideal])
    assert sorted(drawn[:, 0].tolist()) == pytest.approx(expected)
    assert len(picture.figure.axes[0].get_yticks()) == len(NINE)
    assert "the highest is 2.0" in picture.facts


def test_a_dot_says_how_much_of_the_shorter_part_is_hidden(table: pd.DataFrame) -> None:
    picture = draw_hidden(table)
    assert picture is not None
    assert len(picture.figure.axes) == len(WORLD_SIZES)
    drawn = dots(picture.figure.axes[2])
    chosen = table[table["world_size"] == 8]
    assert sorted(drawn[:, 1].tolist()) == pytest.approx(sorted(chosen["hidden"]))
    assert picture.figure.axes[2].get_ylim()[0] == -2
    assert "symm_mem_fused" in picture.facts


def test_ranks_of_every_point_lie_in_view(gathers: Analysis) -> None:
    frame = gathers.frames[OP]
    wide = frame.assign(rank_spread=frame["rank_spread"] * frame["world_size"])
    picture = draw_ranks(wide)
    assert picture is not None
    drawn = dots(*picture.figure.axes)
    assert len(drawn) == int((frame["status"] == "ok").sum())
    assert drawn[:, 0].max() == pytest.approx(8 * APART)
    assert picture.figure.axes[0].get_xlim()[1] > 8 * APART
    assert "at most 16.0" in picture.facts


def test_nothing_is_drawn_of_what_is_not_there(gathers: Analysis, table: pd.DataFrame) -> None:
    none_fused = table[~table["provider"].isin(FUSED)]
    assert draw_speedup(none_fused) is None
    assert draw_hidden(table.assign(hidden=np.nan)) is None
    assert draw_ranks(gathers.frames[OP].drop(columns="rank_spread")) is None


def test_shapes_without_an_ideal_are_drawn_too(table: pd.DataFrame) -> None:
    picture = draw_speedup(table.assign(ideal=np.nan))
    assert picture is not None
    assert "the ideal is" not in picture.facts
