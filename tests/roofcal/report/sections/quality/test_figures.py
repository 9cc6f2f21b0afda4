"""The device over the session, and burst against settled."""

from pathlib import Path

import numpy as np
import pytest

from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.sections.quality import draw_burst, draw_session
from tests.roofcal.report.drawn import charted


def test_sentinel_clock_power_and_temperature_share_the_time(analysis: Analysis) -> None:
    picture = draw_session(analysis.frames, analysis.sessions)

    assert picture is not None
    names = [axes.get_ylabel() for axes in picture.figure.axes]
    assert names == ["sentinel, %", "SM clock", "power", "temperature"]
    facts = picture.facts.replace("\N{NO-BREAK SPACE}", " ")
    assert "The sentinel of gemm was measured 5 times and spread over 1.0 %." in facts
    assert "Power from 690 W to 690 W." in facts


def test_the_sentinel_is_drawn_in_percent_of_its_median(analysis: Analysis) -> None:
    picture = draw_session(analysis.frames, analysis.sessions)

    assert picture is not None
    line = picture.figure.axes[0].lines[-1]
    heights = np.asarray(line.get_ydata(), dtype=float)
    assert heights == pytest.approx(100 * (np.linspace(1, 1.01, 5) / 1.005 - 1))


def test_a_device_without_sensors_or_sentinel_has_no_such_figure(bare: Path) -> None:
    silent = analyse(load_run(bare), None)
    assert draw_session(silent.frames, silent.sessions) is None


def test_the_facts_state_how_much_settling_costs_the_made_up_run(analysis: Analysis) -> None:
    picture = draw_burst(analysis.frames["gemm"])

    assert picture is not None
    chart = charted(picture)
    heights = chart.tables["points"][chart.y.key].to_numpy()
    assert heights == pytest.approx(np.full(len(heights), 1 / 0.9 - 1))
    assert "11.1" in picture.facts


def test_without_a_warm_up_there_is_no_burst(bare: Path) -> None:
    assert draw_burst(analyse(load_run(bare), None).frames["gemm"]) is None
