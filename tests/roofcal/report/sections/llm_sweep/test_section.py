"""The sweep over cuts in the report: its rows are the sweep's, its figures draw what it says."""

import shutil
from dataclasses import replace

import pandas as pd
import pytest

from roofcal.core import paths
from roofcal.core.devices import DeviceSpec
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis
from tests.paths import ROOT
from tests.roofcal.report.chapters import Shown, plain, shown_of

KEY, SMALL, LARGE = "llm-sweep", "llama3-8b", "llama3-70b"


@pytest.fixture(scope="module")
def published(h200: DeviceSpec) -> Analysis:
    (run,) = (ROOT / "reports/published/nvidia-h200").iterdir()
    return Analysis(run=load_run(run), spec=h200, frames={}, sessions={})


@pytest.fixture(scope="module")
def shown(published: Analysis, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """Two models on a card: sweeping all of them takes seconds."""
    models = tmp_path_factory.mktemp("models")
    for name in (SMALL, LARGE):
        shutil.copy(ROOT / f"config/models/{name}.yaml", models)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "MODELS", models)
        return shown_of(published, KEY)


@pytest.fixture(scope="module")
def rows(shown: Shown) -> pd.DataFrame:
    return shown.files["llm_sweep.csv"]


def test_every_model_has_its_cuts_of_one_host(rows: pd.DataFrame) -> None:
    assert set(rows["model"]) == {SMALL, LARGE}
    assert (rows["tensor_parallel"] * rows["pipeline_parallel"]).max() == 8
    small = rows[rows["model"] == SMALL]
    assert len(small.groupby(["tensor_parallel", "pipeline_parallel"])) == 10


def test_the_map_shows_the_best_batch_of_every_cut(shown: Shown, rows: pd.DataFrame) -> None:
    figure = shown.figures["llm_map"]
    cells = figure.tables["points"]
    small = cells[cells["model"] == SMALL]
    assert len(small) == 10
    rates = rows.loc[rows["model"] == SMALL, "tokens_per_s_per_gpu"]
    assert small["tokens_per_s_per_gpu"].max() == rates.max()
    assert "2 models in fp8_axiswise." in plain(figure.facts)


def test_the_curve_draws_the_frontier_alone_which_rises_in_both(
    shown: Shown, rows: pd.DataFrame
) -> None:
    figure = shown.figures["llm_frontier"]
    drawn = [figure.rows_of("points", panel) for panel in figure.panels]
    assert sum(map(len, drawn)) == (rows["frontier"] == "yes").sum()
    for of_model in drawn:
        ordered = of_model.sort_values("decode_step_s")
        assert ordered["tokens_per_s_per_gpu"].is_monotonic_increasing


def test_figures_have_their_table_and_command(shown: Shown) -> None:
    assert {figure.source for figure in shown.figures.values()} == {"llm_sweep.csv"}
    commands = [figure.command for figure in shown.figures.values()]
    assert all("roofcal llm --sweep --device nvidia-h200" in command for command in commands)


def test_a_run_that_cannot_be_timed_has_no_section(published: Analysis) -> None:
    bare = replace(published, run=replace(published.run, calibration=None))
    assert shown_of(bare, KEY) == shown_of(replace(published, spec=None), KEY) == Shown()
