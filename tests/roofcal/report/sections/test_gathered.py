"""Fused all-gathers in the report: speed-up, ideal, overlap, ranks; what is said where none is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from roofcal.ops.all_gather_matmul.spec import BOUNDS
from roofcal.ops.probe_link.model import share
from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.charts import Picture
from roofcal.report.sections import gathered as section
from tests.roofcal.report.chapters import Shown, shown_of
from tests.roofcal.report.gathers import (
    APART,
    NCCL,
    NINE,
    SIZES,
    gather_s,
    gathered,
    gloo_run,
    product_s,
    true_time,
)

FEW = NINE[0]
FUSED = ["symm_mem_fused", "torch_fused"]


@pytest.fixture(scope="module")
def shown(gathers: Analysis) -> Shown:
    return shown_of(gathers, "gathered")


@pytest.fixture(scope="module")
def table(shown: Shown) -> pd.DataFrame:
    return shown.files["gathered_overlap.csv"]


def shown_with(gathers: Analysis, rows: pd.DataFrame) -> Shown:
    """What is shown where only these rows of the op were measured."""
    return shown_of(gathers, "gathered", all_gather_matmul=rows)


def row_of(table: pd.DataFrame, provider: str, mode: str = "graph") -> dict[str, Any]:
    """The row of bf16 on eight devices, at FEW if the table has rows of shapes."""
    keys = {"provider": provider, "mode": mode, "recipe": "bf16", "world_size": 8}
    keys |= dict(zip("mnk", FEW, strict=True)) if "m" in table else {}
    (row,) = table[(table[list(keys)] == pd.Series(keys)).all(axis=1)].to_dict("records")
    return {str(name): value for name, value in row.items()}


def test_a_fused_row_has_speedup_ideal_and_what_is_hidden(table: pd.DataFrame) -> None:
    point = gathered("symm_mem_fused", FEW)
    sequence, fused = true_time(gathered("nccl_then_gemm", FEW)), true_time(point)
    bounds = (product_s(point), gather_s(point))
    row = row_of(table, "symm_mem_fused")
    assert row["speedup"] == pytest.approx(sequence / fused)
    assert row["speedup_low"] < row["speedup"] < row["speedup_high"]
    assert row["ideal"] == pytest.approx(sequence / max(bounds))
    assert row["hidden"] == pytest.approx((sequence - fused) / min(bounds))
    assert row["predicted_hidden"] == pytest.approx(row["hidden"])
    assert row["rank_spread"] == pytest.approx(APART)
    assert row["over_product"] == pytest.approx(fused / product_s(point) - 1)


def test_without_bounds_there_is_a_speedup_and_no_ideal(gathers: Analysis) -> None:
    frame = gathers.frames[section.OP]
    frame = frame[~frame["provider"].isin(BOUNDS)].assign(rank_spread=np.nan)
    bare = shown_with(gathers, frame)
    table = bare.files["gathered_overlap.csv"]
    assert table["speedup"].notna().all()
    assert table[["ideal", "hidden", "over_product"]].isna().all(axis=None)
    assert "perfect" not in " ".join(bare.prose)
    assert set(bare.figures) == {"gathered_speedup"}
    assert "the ideal is" not in bare.figures["gathered_speedup"].facts


def test_where_nothing_is_fused_the_row_is_that_in_sequence(gathers: Analysis) -> None:
    frame = gathers.frames[section.OP].drop(columns="rank_spread")
    plainly = shown_with(gathers, frame[~frame["provider"].isin(FUSED)])
    table = plainly.files["gathered_overlap.csv"]
    assert (set(table["provider"]), set(table["speedup"])) == ({"nccl_then_gemm"}, {1.0})
    assert table["hidden"].isna().all()
    assert (plainly.prose, plainly.quiet, plainly.figures) == ([], [section.NOT_FUSED], {})
    assert set(plainly.tables) == {"gathered-points", "links"}
    alone = shown_with(gathers, frame[frame["provider"] != "nccl_then_gemm"])
    assert not alone.files, "nothing to compare with"


def test_world_sizes_without_link_constants_are_named(gathers: Analysis, shown: Shown) -> None:
    assert shown.quiet == []
    calibration = gathers.run.calibration
    assert calibration is not None
    constants = calibration.constants
    of_two = {n: c for n, c in constants.items() if not n.startswith("link.all_gather.")}
    of_two |= {n: c for n, c in constants.items() if n.startswith("link.all_gather.2.")}
    fewer = replace(gathers.run, calibration=replace(calibration, constants=of_two))
    (told,) = shown_of(replace(gathers, run=fewer), "gathered").quiet
    assert told.startswith("Not predicted on 4 and 8 devices")
    without = replace(gathers, run=replace(gathers.run, calibration=None))
    shown = shown_of(without, "gathered")
    assert (shown.quiet, "links" in shown.tables) == ([], False)
    assert shown.figures["links"].tables["fits"].empty


def test_a_cpu_shows_its_gloo_rows_and_what_it_cannot_say(tmp_path: Path) -> None:
    shown = shown_of(gloo_run().analysed(tmp_path), "gathered")
    assert shown.quiet[0] == section.NOT_FUSED
    assert shown.quiet[1].startswith("Not predicted on 4 devices")
    assert list(shown.tables) == ["gathered-points", "gathered-ranks", "links"]
    points = shown.tables["gathered-points"].frame
    assert list(points["provider"]) == ["gloo_then_gemm"] * 2
    assert list(shown.tables["links"].frame["by"]) == ["gloo"]


# --- the links ---


def figure_of(analysis: Analysis, frame: pd.DataFrame) -> Picture:
    """The figure where these rows of the probe alone were measured, without a datasheet."""
    without = replace(analysis, spec=None)
    return shown_of(without, "gathered", probe_link=frame).figures["links"]


def test_one_method_makes_the_curves_graph_before_the_clock(gathers: Analysis) -> None:
    frame = gathers.frames["probe_link"]
    by_clock = frame.assign(method="wall", median_s=2 * frame["median_s"])
    drawn = figure_of(gathers, pd.concat([frame, by_clock])).tables["points"]
    assert sorted(drawn["median_s"]) == sorted(frame["median_s"])
    rows = drawn[(drawn["recipe"] == "all_reduce") & (drawn["provider"] == "nccl")]
    row = rows[(rows["devices"] == "8 devices") & (rows["size_bytes"] == SIZES[-1])].iloc[0]
    moved = share("all_reduce", 8) * SIZES[-1]
    assert row["rate"] == pytest.approx(moved / (NCCL[0] + moved / NCCL[1])), "bytes over a link"
    assert len(figure_of(gathers, by_clock).tables["points"]) == len(frame)
