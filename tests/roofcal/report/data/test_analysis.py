"""The tables of a whole run, computed once."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.points.run import Run, load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.data.tidy import (
    axes_of,
    models_in,
    protocol_name,
    row_of_largest,
    standard_protocol,
    standard_rows,
    with_shape,
)
from roofcal.report.kit.styles import model_colours


def test_points_and_sessions_are_counted_over_all_ops(analysis: Analysis) -> None:
    assert analysis.points == sum(len(frame) for frame in analysis.frames.values())
    assert analysis.ok == analysis.timed == analysis.points - 4
    assert len(analysis.all_sessions) == len(analysis.frames) == 4


def test_tables_of_several_ops_name_sizes_in_one_column(analysis: Analysis) -> None:
    assert set(analysis.missing["op"]) == {"gemm"}
    assert "333 \N{MULTIPLICATION SIGN} 555 \N{MULTIPLICATION SIGN} 777" in set(
        analysis.missing["shape"]
    )
    assert "m" not in analysis.missing.columns


def test_the_cache_is_the_drivers_or_the_datasheets(analysis: Analysis, bare: Path) -> None:
    assert analysis.cache_bytes == 60 << 20  # of the datasheet: the record has none
    assert analyse(load_run(bare), None).cache_bytes == 32 << 20


def test_a_run_with_next_to_nothing_has_empty_tables(bare: Path) -> None:
    bare_analysis = analyse(load_run(bare), None)

    tables = (bare_analysis.errors, bare_analysis.violations, bare_analysis.missing)
    assert all(table.empty for table in tables)
    assert list(bare_analysis.quality["op"]) == ["gemm", "cast"]


def test_a_run_without_any_plan_is_empty(bare: Path, tmp_path: Path) -> None:
    (tmp_path / "environment.jsonl").write_bytes((bare / "environment.jsonl").read_bytes())

    nothing = analyse(load_run(tmp_path), None)

    assert nothing.points == nothing.ok == 0
    assert nothing.errors.empty
    assert nothing.quality.empty


@pytest.fixture(scope="module")
def gemm(run: Run, h200: DeviceSpec) -> pd.DataFrame:
    return run.points("gemm", h200).table


def test_models_are_those_that_predicted_something(gemm: pd.DataFrame) -> None:
    names = {"calibrated": "predicted_s", "datasheet": "datasheet_s", "torchao": "torchao_s"}
    assert models_in(gemm) == names


def test_shapes_of_a_tidy_frame_stand_behind_the_recipe(analysis: Analysis) -> None:
    assert axes_of(analysis.frames["cast"]) == ["rows", "cols"]
    shaped = with_shape(analysis.frames["cast"])
    assert list(shaped.columns[:4]) == ["op", "provider", "recipe", "shape"]
    assert shaped["shape"].iloc[0] == "1,024 \N{MULTIPLICATION SIGN} 8,192"
    assert with_shape(analysis.frames["cast"].iloc[:0]).empty


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


def test_the_standard_protocol_leaves_panel_and_sentinel_out(analysis: Analysis) -> None:
    gemm = analysis.frames["gemm"]
    assert set(gemm[standard_protocol(gemm)]["sweeps"]) == {"made_up", "made_up;panel"}
    assert len(standard_rows(gemm)) == 16 * 3
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0, 2.0], "b": list("wxyz")})
    assert row_of_largest(frame, "a")["b"] == "y"


def test_a_model_keeps_its_colour_beside_others() -> None:
    declared = ["calibrated", "torchao", "wave", "datasheet"]
    colours = model_colours([*declared, "calibrated@e2", "calibrated@e1", "learned"])
    assert len(set(colours.values())) == 7
    assert model_colours(declared) == {name: colours[name] for name in declared}
