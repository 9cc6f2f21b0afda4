"""Bandwidth against tokens and the three roofs, drawn from a run whose times are known."""

from typing import Any

import numpy as np
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.sections.mixed.figures import draw_bandwidth, draw_roofs
from tests.roofcal.report.drawn import charted
from tests.roofcal.report.narrow import G64, G128, TOKENS, narrow, narrow_run, true_time

SMALL = "3,584 \N{MULTIPLICATION SIGN} 8,192"


@pytest.fixture(scope="module")
def narrowed(tmp_path_factory: pytest.TempPathFactory, h200: DeviceSpec) -> Analysis:
    return analyse(load_run(narrow_run().write(tmp_path_factory.mktemp("narrow"))), h200)


def titled(figure: Any, title: str) -> Any:
    (axes,) = [a for a in figure.axes if a.get_title(loc="left") == title]
    return axes


def test_a_line_per_recipe_and_provider_is_bytes_over_time(narrowed: Analysis) -> None:
    frame = narrowed.frames["mixed_gemm"]
    picture = draw_bandwidth(frame, narrowed.run.calibration, narrowed.spec)
    assert picture is not None
    chart = charted(picture)
    (panel,) = [one for one in chart.panels if one.title == f"weights {SMALL}"]
    curves = dict(list(chart.rows_of("points", panel).groupby("series")))
    assert len(curves) == 3  # bf16, fp8 and the int4 of the largest groups
    assert all(list(curve["m"]) == list(TOKENS) for curve in curves.values())
    point = narrow(1, 3584, 8192, G128)
    moved = float(frame.loc[frame["point_id"] == point.point_id, "dram_bytes"].iloc[0])
    firsts = [float(curve["achieved_bytes_per_s"].iloc[0]) for curve in curves.values()]
    assert moved / true_time(point) in [pytest.approx(first) for first in firsts]
    assert G128 in picture.facts


def test_roofs_of_calibrated_providers_have_the_measured_dots(narrowed: Analysis) -> None:
    picture = draw_roofs(narrowed.frames["mixed_gemm"], narrowed.run.calibration)
    assert picture is not None
    axes = titled(picture.figure, f"triton, {SMALL}")
    *parts, total, dots = axes.lines
    assert len(parts) == 4
    above = np.stack([line.get_ydata() for line in parts]).max(axis=0)
    assert (np.asarray(total.get_ydata()) > above).all()
    assert list(dots.get_ydata()) == [true_time(narrow(m, 3584, 8192, G64)) for m in TOKENS]
    assert G64 in picture.facts
    words = [text.get_text() for text in titled(picture.figure, f"tinygemm, {SMALL}").texts]
    assert words == ["issue slots"]


def test_nothing_is_drawn_of_what_is_not_there(narrowed: Analysis) -> None:
    frame = narrowed.frames["mixed_gemm"]
    assert draw_roofs(frame, None) is None
    assert draw_roofs(frame[frame["m"] < 64], narrowed.run.calibration) is None
    assert draw_bandwidth(frame[frame["recipe"] == "bf16"], None, None) is None
    assert draw_bandwidth(frame[:0], None, None) is None
