"""The sweep over cuts in the report: its rows are the sweep's, its figures draw what it says."""

from dataclasses import replace

import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.data.provenance import DerivedTable
from roofcal.report.kit.blocks import FigureBlock
from roofcal.report.sections.llm_sweep import FILE, SECTION, draw_frontier, draw_map
from tests.paths import ROOT
from tests.roofcal.report.chapters import blocks_of
from tests.roofcal.report.drawn import charted, plain


@pytest.fixture(scope="module")
def published(h200: DeviceSpec) -> Analysis:
    (run,) = (ROOT / "reports/published/nvidia-h200").iterdir()
    return replace(analyse(load_run(run), h200), frames={})


@pytest.fixture(scope="module")
def swept(published: Analysis) -> DerivedTable:
    contents: DerivedTable = SECTION.contents(published)
    return contents


def test_every_model_has_its_cuts_of_one_host(swept: DerivedTable) -> None:
    models = {path.stem for path in (ROOT / "config/models").glob("*.yaml")}
    assert set(swept.rows["model"]) == models
    gpus = swept.rows["tensor_parallel"] * swept.rows["pipeline_parallel"]
    assert gpus.max() == 8
    small = swept.rows[swept.rows["model"] == "llama3-8b"]
    assert len(small.groupby(["tensor_parallel", "pipeline_parallel"])) == 10


def test_rows_on_the_frontier_rise_in_both(swept: DerivedTable) -> None:
    for _, rows in swept.rows[swept.rows["frontier"] == "yes"].groupby("model"):
        ordered = rows.sort_values("decode_step_s")
        assert ordered["tokens_per_s_per_gpu"].is_monotonic_increasing


def test_the_map_shows_the_best_batch_of_every_cut(swept: DerivedTable) -> None:
    picture = draw_map(swept.rows)
    cells = charted(picture).tables["points"]
    small = cells[cells["model"] == "llama3-8b"]
    assert len(small) == 10
    rows = swept.rows[swept.rows["model"] == "llama3-8b"]
    assert small["tokens_per_s_per_gpu"].max() == rows["tokens_per_s_per_gpu"].max()
    assert "7 models" in plain(picture.facts)


def test_the_curve_draws_the_frontier_alone(swept: DerivedTable) -> None:
    chart = charted(draw_frontier(swept.rows))
    drawn = sum(len(chart.rows_of("points", panel)) for panel in chart.panels)
    assert drawn == (swept.rows["frontier"] == "yes").sum()


def test_figures_have_their_table_and_command(published: Analysis) -> None:
    figures = [
        block for block in blocks_of(published, "llm-sweep") if isinstance(block, FigureBlock)
    ]
    assert [figure.key for figure in figures] == ["llm_map", "llm_frontier"]
    assert {figure.source for figure in figures} == {FILE}
    assert all("roofcal llm --sweep --device nvidia-h200" in f.command for f in figures)


def test_a_run_that_cannot_be_timed_has_no_section(published: Analysis) -> None:
    calibration = published.run.calibration
    assert isinstance(calibration, Calibration)
    bare = replace(published, run=replace(published.run, calibration=None))
    assert blocks_of(bare, "llm-sweep") == []
    assert blocks_of(replace(published, spec=None), "llm-sweep") == []
    assert isinstance(SECTION.contents(bare).rows, pd.DataFrame)
