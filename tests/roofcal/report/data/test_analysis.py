"""The tables of a whole run, computed once."""

from pathlib import Path

import pandas as pd

from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.data.tidy import with_protocol
from roofcal.report.kit.charts import model_colours


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


def test_a_protocol_has_words() -> None:
    words = {
        ("graph", "normal"): "graph, cold",
        ("events_flush", "zeros"): "events + flush, cold, zeros",
        ("graph", "heavy_tails"): "graph, cold, heavy tails",
        ("accuracy", "normal"): "not timed",
        ("accuracy", "outlier_channels"): "not timed, outlier channels",
    }
    rows = pd.DataFrame([*words], columns=["method", "distribution"]).assign(cache="cold")
    assert list(with_protocol(rows)["protocol"]) == list(words.values())


def test_a_model_keeps_its_colour_beside_others() -> None:
    declared = ["calibrated", "torchao", "wave", "datasheet"]
    colours = model_colours([*declared, "calibrated@e2", "calibrated@e1", "learned"])
    assert len(set(colours.values())) == 7
    assert model_colours(declared) == {name: colours[name] for name in declared}
