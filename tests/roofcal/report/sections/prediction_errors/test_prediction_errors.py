"""The section on predictions: the worst points first, and other environments never the best."""

import numpy as np
import pandas as pd
import pytest

from roofcal.core.environments import transferred_model
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.prediction_errors import residuals
from roofcal.report.kit.charts import Picture
from roofcal.report.sections import prediction_errors
from tests.roofcal.report.chapters import Shown, plain, shown_of
from tests.roofcal.report.transferred import OTHER_TORCH, transferred_run


@pytest.fixture(scope="module")
def shown(analysis: Analysis) -> Shown:
    return shown_of(analysis, "prediction-errors")


def figures_of(analysis: Analysis, gemm: pd.DataFrame) -> dict[str, Picture]:
    """The figures of products, by their keys."""
    return shown_of(analysis, "prediction-errors", gemm=gemm).figures


def test_tables_are_those_of_their_op_the_worst_points_first(
    analysis: Analysis, shown: Shown
) -> None:
    worst = shown.tables["worst-gemm"].frame["relative_error"]
    assert len(worst) == 20
    assert worst.iloc[0] == pytest.approx(0.1)
    for op in ("gemm", "cast"):
        rows = analysis.errors[analysis.errors["op"] == op]
        assert shown.tables[f"errors-{op}"].total == len(rows)
    assert shown.answer.startswith("Predicted times of gemm are ")


def test_a_tab_per_model_with_its_error_in_which_every_point_stands_at_it(
    analysis: Analysis,
) -> None:
    chart = figures_of(analysis, analysis.frames["gemm"])["measured_against_predicted"]
    tabs = [plain(panel.choice) for panel in chart.panels]
    assert tabs[1] == "torchao: 30.0 %"
    assert [tab.partition(":")[0] for tab in tabs] == ["calibrated", "torchao", "datasheet"]
    assert plain(chart.facts).startswith("Within 10 % of the measured time: datasheet ")
    points = chart.rows_of("points", chart.panels[1])
    assert np.isclose(points[chart.y.key], 0.7).sum() == 48  # torchao: 30 % too fast everywhere


def test_dots_of_a_model_stand_at_its_error_and_those_beyond_the_axis_are_counted(
    analysis: Analysis,
) -> None:
    frame = analysis.frames["gemm"]
    chart = figures_of(analysis, frame)["error_by_regime"]
    assert np.isclose(chart.tables["points"][chart.y.key], 0.7).sum() == 48
    boxes = chart.tables["boxes"]
    of_torchao = boxes.loc[boxes["model"] == "torchao", ["p5", "ratio", "p95"]]
    assert np.allclose(of_torchao, 0.7)
    beyond = figures_of(analysis, frame.assign(torchao_s=1e3))["error_by_regime"]
    assert "5 ratios beyond the axis sit on its edge." in chart.facts
    assert "53 ratios beyond the axis sit on its edge." in beyond.facts


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return transferred_run().analysed(tmp_path_factory.mktemp("moved"))


def test_other_calibrations_are_drawn_under_their_labels_and_never_the_best(
    moved: Analysis,
) -> None:
    figures = figures_of(moved, moved.frames["gemm"])
    tabs = {plain(panel.choice) for panel in figures["measured_against_predicted"].panels}
    assert {"calibrated of torch2.0.1: 2.0 %", "calibrated of driver123.45: 40.0 %"} <= tabs
    assert not any("calibrated@" in figure.facts for figure in figures.values())

    errors = residuals(moved.frames["gemm"])
    name = transferred_model(OTHER_TORCH.environment_id)
    assert prediction_errors.models_by_error(errors)[-1] == name
    assert prediction_errors.best_model(errors) == "calibrated"
    assert prediction_errors.best_model(errors[errors["model"] == name]) == name, (
        "there is no other"
    )
    facts = figures["error_by_regime"].facts
    assert "The model with the least error is calibrated;" in facts
    assert "highest in regime decode, 10.0" in facts
