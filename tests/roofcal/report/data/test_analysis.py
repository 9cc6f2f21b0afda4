"""The tables of a whole run, computed once."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.data.tidy import (
    models_in,
    protocol_name,
    row_of_largest,
    standard_protocol,
    standard_rows,
    with_shape,
)
from roofcal.report.kit.charts import model_colours
from tests.roofcal.report.drawn import plain


def test_points_and_sessions_are_counted_over_all_ops(analysis: Analysis) -> None:
    assert analysis.points == sum(len(frame) for frame in analysis.frames.values())
    assert analysis.ok == analysis.timed == analysis.points - 4
    assert len(analysis.all_sessions) == len(analysis.frames) == 4


def test_tables_of_several_ops_name_sizes_in_one_column(analysis: Analysis) -> None:
    missing = analysis.missing
    assert set(missing["op"]) == {"gemm"}
    assert "333 x 555 x 777" in {plain(shape) for shape in missing["shape"]}
    assert "m" not in missing.columns
    casts = analysis.frames["cast"]
    assert list(with_shape(casts).columns[:4]) == ["op", "provider", "recipe", "shape"]
    assert plain(with_shape(casts)["shape"].iloc[0]) == "1,024 x 8,192"
    assert with_shape(casts.iloc[:0]).empty


def test_a_run_with_next_to_nothing_has_empty_tables(
    analysis: Analysis, bare_analysis: Analysis, bare: Path, tmp_path: Path
) -> None:
    tables = (bare_analysis.errors, bare_analysis.violations, bare_analysis.missing)
    assert all(table.empty for table in tables)
    assert list(bare_analysis.quality["op"]) == ["gemm", "cast"]
    assert bare_analysis.cache_bytes == 32 << 20  # the driver's
    assert analysis.cache_bytes == 60 << 20  # of the datasheet: the record has none

    (tmp_path / "environment.jsonl").write_bytes((bare / "environment.jsonl").read_bytes())
    nothing = analyse(load_run(tmp_path), None)  # without any plan
    assert nothing.points == nothing.ok == 0
    assert nothing.errors.empty
    assert nothing.quality.empty


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
    names = {"calibrated": "predicted_s", "datasheet": "datasheet_s", "torchao": "torchao_s"}
    assert models_in(gemm) == names
    assert set(gemm[standard_protocol(gemm)]["sweeps"]) == {"made_up", "made_up;panel"}
    assert len(standard_rows(gemm)) == 16 * 3
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0, 2.0], "b": list("wxyz")})
    assert row_of_largest(frame, "a")["b"] == "y"


def test_a_model_keeps_its_colour_beside_others() -> None:
    declared = ["calibrated", "torchao", "wave", "datasheet"]
    colours = model_colours([*declared, "calibrated@e2", "calibrated@e1", "learned"])
    assert len(set(colours.values())) == 7
    assert model_colours(declared) == {name: colours[name] for name in declared}
