"""Measured against predicted, and the error by regime."""

import numpy as np
import pytest

from roofcal.report.accuracy import residuals
from roofcal.report.analysis import Analysis
from roofcal.report.figures.accuracy import (
    draw_error_by_regime,
    draw_measured_against_predicted,
    models_by_error,
)
from tests.roofcal.report.figures.drawn import dots


def test_the_least_accurate_model_comes_first(analysis: Analysis) -> None:
    models = models_by_error(residuals(analysis.frames["gemm"]))
    assert models == ["datasheet", "torchao", "calibrated"]


def test_a_column_per_model_with_its_error(analysis: Analysis) -> None:
    picture = draw_measured_against_predicted(analysis.frames["gemm"])

    assert picture is not None
    titles = [axes.get_title(loc="left") for axes in picture.figure.axes[:3]]
    assert titles[1].replace("\N{NO-BREAK SPACE}", " ") == "torchao: MAPE 30.0 %"
    assert picture.facts.replace("\N{NO-BREAK SPACE}", " ").startswith(
        "Within 10 % of the measured time: datasheet "
    )


def test_ratios_beyond_the_axis_are_counted(analysis: Analysis) -> None:
    frame = analysis.frames["gemm"].assign(torchao_s=1e3)
    picture = draw_error_by_regime(frame)
    assert picture is not None
    assert "beyond the axis sit on its edge" in picture.facts


def test_dots_of_a_model_stand_at_its_error(analysis: Analysis) -> None:
    picture = draw_error_by_regime(analysis.frames["gemm"])

    assert picture is not None
    (axes,) = picture.figure.axes
    assert np.isclose(dots(axes)[:, 1], 0.7).sum() == 48  # torchao is 30 % too fast everywhere
    assert [label.get_text().split("\n")[0] for label in axes.get_xticklabels()] == [
        "decode",
        "small",
        "mid",
        "large",
        "skinny_k",
    ]


def test_the_worst_regime_is_named(analysis: Analysis) -> None:
    picture = draw_error_by_regime(analysis.frames["gemm"])
    assert picture is not None
    assert "highest in regime decode, 10.0" in picture.facts


@pytest.mark.parametrize("op", ["probe_copy", "probe_launch"])
def test_without_predictions_there_is_no_figure(analysis: Analysis, op: str) -> None:
    assert draw_measured_against_predicted(analysis.frames[op]) is None
    assert draw_error_by_regime(analysis.frames[op]) is None
