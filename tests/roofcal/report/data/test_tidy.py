"""What is read of a table of points."""

import numpy as np
import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.points.run import Run
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.tidy import (
    axes_of,
    models_in,
    ok_rows,
    protocol_name,
    row_of_largest,
    standard_protocol,
    with_shape,
)


@pytest.fixture(scope="module")
def gemm(run: Run, h200: DeviceSpec) -> pd.DataFrame:
    return run.points("gemm", h200).table


def test_models_are_those_that_predicted_something(gemm: pd.DataFrame) -> None:
    assert models_in(gemm) == {
        "calibrated": "predicted_s",
        "datasheet": "datasheet_s",
        "torchao": "torchao_s",
    }


def test_the_standard_protocol_leaves_panel_and_sentinel_out(gemm: pd.DataFrame) -> None:
    rows = gemm[standard_protocol(gemm)]

    assert set(rows["sweeps"]) == {"made_up", "made_up;panel"}
    assert len(ok_rows(rows)) == 16 * 3


def test_axes_are_found_in_a_frame(gemm: pd.DataFrame, run: Run) -> None:
    assert axes_of(gemm) == ["m", "n", "k"]
    assert axes_of(run.points("cast").table) == ["rows", "cols"]


def test_the_row_of_the_largest_ignores_missing_values() -> None:
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0, 2.0], "b": list("wxyz")})
    assert row_of_largest(frame, "a")["b"] == "y"


def test_shapes_of_a_tidy_frame_stand_behind_the_recipe(analysis: Analysis) -> None:
    shaped = with_shape(analysis.frames["cast"])
    assert list(shaped.columns[:4]) == ["op", "provider", "recipe", "shape"]
    assert shaped["shape"].iloc[0] == "1,024 \N{MULTIPLICATION SIGN} 8,192"
    assert with_shape(analysis.frames["cast"].iloc[:0]).empty
    assert isinstance(shaped, pd.DataFrame)


PROTOCOLS = {  # (method, distribution) -> words
    ("graph", "normal"): "graph, cold",
    ("events_flush", "zeros"): "events + flush, cold, zeros",
    ("graph", "heavy_tails"): "graph, cold, heavy tails",
    ("accuracy", "normal"): "not timed",
    ("accuracy", "outlier_channels"): "not timed, outlier channels",
}


@pytest.mark.parametrize(("protocol", "words"), PROTOCOLS.items())
def test_a_protocol_has_words(protocol: tuple[str, str], words: str) -> None:
    method, distribution = protocol
    row = {"method": method, "cache": "cold", "distribution": distribution}
    assert protocol_name(row) == words
