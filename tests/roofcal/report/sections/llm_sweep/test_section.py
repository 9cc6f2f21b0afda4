"""The sweep over cuts in the report: its rows are the sweep's, its figures draw what it says."""

from dataclasses import replace

import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.kit.charts import Picture
from roofcal.report.section import CsvTable, Item
from roofcal.report.sections.llm_sweep import FILE
from tests.paths import ROOT
from tests.roofcal.report.chapters import blocks_among, blocks_of, shown_by
from tests.roofcal.report.drawn import plain


@pytest.fixture(scope="module")
def published(h200: DeviceSpec) -> Analysis:
    (run,) = (ROOT / "reports/published/nvidia-h200").iterdir()
    return replace(analyse(load_run(run), h200), frames={})


@pytest.fixture(scope="module")
def items(published: Analysis) -> list[Item]:
    """What the section yields; a sweep takes seconds."""
    return shown_by(published, "llm-sweep")


@pytest.fixture(scope="module")
def figures(items: list[Item], published: Analysis) -> list[Picture]:
    return blocks_among(items, published, "llm-sweep")


@pytest.fixture(scope="module")
def rows(items: list[Item]) -> pd.DataFrame:
    (table,) = (item for item in items if isinstance(item, CsvTable))
    assert table.name == FILE
    return table.frame


def test_every_model_has_its_cuts_of_one_host(rows: pd.DataFrame) -> None:
    models = {path.stem for path in (ROOT / "config/models").glob("*.yaml")}
    assert set(rows["model"]) == models
    assert (rows["tensor_parallel"] * rows["pipeline_parallel"]).max() == 8
    small = rows[rows["model"] == "llama3-8b"]
    assert len(small.groupby(["tensor_parallel", "pipeline_parallel"])) == 10


def test_rows_on_the_frontier_rise_in_both(rows: pd.DataFrame) -> None:
    for _, of_model in rows[rows["frontier"] == "yes"].groupby("model"):
        ordered = of_model.sort_values("decode_step_s")
        assert ordered["tokens_per_s_per_gpu"].is_monotonic_increasing


def test_the_map_shows_the_best_batch_of_every_cut(
    figures: list[Picture], rows: pd.DataFrame
) -> None:
    cells = figures[0].tables["points"]
    small = cells[cells["model"] == "llama3-8b"]
    assert len(small) == 10
    rates = rows.loc[rows["model"] == "llama3-8b", "tokens_per_s_per_gpu"]
    assert small["tokens_per_s_per_gpu"].max() == rates.max()
    assert "7 models" in plain(figures[0].facts)


def test_the_curve_draws_the_frontier_alone(figures: list[Picture], rows: pd.DataFrame) -> None:
    shown = sum(len(figures[1].rows_of("points", panel)) for panel in figures[1].panels)
    assert shown == (rows["frontier"] == "yes").sum()


def test_figures_have_their_table_and_command(figures: list[Picture]) -> None:
    assert [figure.key for figure in figures] == ["llm_map", "llm_frontier"]
    assert {figure.source for figure in figures} == {FILE}
    assert all("roofcal llm --sweep --device nvidia-h200" in f.command for f in figures)


def test_a_run_that_cannot_be_timed_has_no_section(published: Analysis) -> None:
    calibration = published.run.calibration
    assert isinstance(calibration, Calibration)
    bare = replace(published, run=replace(published.run, calibration=None))
    assert blocks_of(bare, "llm-sweep") == []
    assert blocks_of(replace(published, spec=None), "llm-sweep") == []
