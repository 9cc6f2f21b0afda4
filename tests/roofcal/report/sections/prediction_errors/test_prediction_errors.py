"""The section on predictions: the worst points come first."""

import numpy as np
import pytest

from roofcal.core.environments import transferred_model
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.prediction_errors import residuals
from roofcal.report.kit.blocks import Table
from roofcal.report.sections.prediction_errors import (
    best_model,
    draw_error_by_regime,
    draw_measured_against_predicted,
    models_by_error,
)
from tests.roofcal.report.chapters import blocks_of
from tests.roofcal.report.drawn import drawn, plain
from tests.roofcal.report.transferred import OTHER_TORCH, transferred_run


def test_the_worst_points_come_first(analysis: Analysis) -> None:
    tables = [b for b in blocks_of(analysis, "prediction-errors") if isinstance(b, Table)]
    (worst,) = [table for table in tables if table.id.endswith("worst-gemm")]
    assert worst.total == 20
    assert "+10.0" in worst.body.split("</tr>")[0]


def test_errors_are_those_of_their_op(analysis: Analysis) -> None:
    tables = {b.id: b for b in blocks_of(analysis, "prediction-errors") if isinstance(b, Table)}
    for op in ("gemm", "cast"):
        rows = analysis.errors[analysis.errors["op"] == op]
        assert tables[f"x-errors-{op}"].total == len(rows)


def test_the_least_accurate_model_comes_first(analysis: Analysis) -> None:
    models = models_by_error(residuals(analysis.frames["gemm"]))
    assert models == ["datasheet", "torchao", "calibrated"]


def test_a_tab_per_model_with_its_error(analysis: Analysis) -> None:
    picture = drawn(draw_measured_against_predicted(analysis.frames["gemm"]))
    tabs = [plain(panel.choice) for panel in drawn(picture).panels]
    assert tabs[1] == "torchao: 30.0 %"
    assert plain(picture.facts).startswith("Within 10 % of the measured time: datasheet ")


def test_every_judged_point_of_a_model_stands_at_its_error(analysis: Analysis) -> None:
    chart = drawn(draw_measured_against_predicted(analysis.frames["gemm"]))
    points = chart.rows_of("points", chart.panels[1])
    assert np.isclose(points[chart.y.key], 0.7).sum() == 48  # torchao: 30 % too fast everywhere


def test_ratios_beyond_the_axis_are_counted(analysis: Analysis) -> None:
    frame = analysis.frames["gemm"].assign(torchao_s=1e3)
    picture = drawn(draw_error_by_regime(frame))
    assert "beyond the axis sit on its edge" in picture.facts


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return transferred_run().analysed(tmp_path_factory.mktemp("moved"))


def test_other_calibrations_are_drawn_under_their_labels(moved: Analysis) -> None:
    picture = drawn(draw_measured_against_predicted(moved.frames["gemm"], moved.labels))
    tabs = {plain(panel.choice) for panel in drawn(picture).panels}
    assert {"calibrated of torch2.0.1: 2.0 %", "calibrated of driver123.45: 40.0 %"} <= tabs
    assert "calibrated@" not in picture.facts


def test_another_calibration_is_never_the_best_model(moved: Analysis) -> None:
    errors = residuals(moved.frames["gemm"])
    assert models_by_error(errors)[-1] == transferred_model(OTHER_TORCH.environment_id)
    assert best_model(errors) == "calibrated"
    name = transferred_model(OTHER_TORCH.environment_id)
    assert best_model(errors[errors["model"] == name]) == name, "there is no other"

    picture = drawn(draw_error_by_regime(moved.frames["gemm"], moved.labels))
    assert "The model with the least error is calibrated;" in picture.facts
    assert "highest in regime decode, 10.0" in picture.facts


@pytest.mark.parametrize("op", ["probe_copy", "probe_launch"])
def test_without_predictions_there_is_no_figure(analysis: Analysis, op: str) -> None:
    assert draw_measured_against_predicted(analysis.frames[op]) is None
    assert draw_error_by_regime(analysis.frames[op]) is None


def test_dots_of_a_model_stand_at_its_error(analysis: Analysis) -> None:
    by_regime = drawn(draw_error_by_regime(analysis.frames["gemm"]))
    assert np.isclose(by_regime.tables["points"][by_regime.y.key], 0.7).sum() == 48
