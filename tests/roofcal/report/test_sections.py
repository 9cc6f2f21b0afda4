"""What holds of every section on every made-up run, and what a section says that has nothing."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from roofcal.report.data.analysis import Analysis
from roofcal.report.data.tidy import standard_protocol
from roofcal.report.kit.blocks import Prose, Table
from roofcal.report.kit.charts import Picture
from roofcal.report.page import SECTIONS
from roofcal.report.section import CsvTable, tidy_file
from roofcal.report.sections import gathered, linear_accuracy
from tests.roofcal.report.chapters import ANCHOR, blocks_among, blocks_of, shown_by, shown_of

# of ops on several devices, and of points that know their memory
OPTIONAL = {"world_size", "memory_ratio", "peak_bytes"}


@pytest.fixture(params=["analysis", "bare_analysis", "gathers", "linears", "narrowed"])
def any_run(request: pytest.FixtureRequest) -> Analysis:
    run: Analysis = request.getfixturevalue(request.param)
    return run


def test_tables_have_their_columns_and_name_their_files(any_run: Analysis) -> None:
    ids, sources = [f"{ANCHOR}-{s.key}" for s in SECTIONS], set()
    files = {tidy_file(any_run, op) for op in any_run.frames}
    for section in SECTIONS:
        items = shown_by(any_run, section.key)
        own = {item.name for item in items if isinstance(item, CsvTable)} - files
        assert all((section.folder / f"{name}.md").is_file() for name in own), "not described"
        files |= own
        for block in blocks_among(items, any_run, section.key):
            if isinstance(block, Table):
                keys = {column.key for column in block.declared}
                assert keys - set(block.frame.columns) <= OPTIONAL, block.id
                assert all(column.label.strip() for column in block.declared), (
                    "a button sorts by it"
                )
            if isinstance(block, Picture | Table):
                sources.add(block.source)
                ids.append(block.id)
    assert sources - {""} <= files
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("of", "key", "text"),
    [
        ("analysis", "breakeven", "This run has no break-even map of linears."),
        ("analysis", "claims", None),
        ("analysis", "gathered", gathered.NOT_MEASURED),
        ("analysis", "health", None),
        ("analysis", "linear-accuracy", linear_accuracy.NOT_MEASURED),
        ("analysis", "llm", "This run has no estimates of language models."),
        ("analysis", "mixed", None),
        ("analysis", "moved", None),
        ("bare_analysis", "audit", "There is none."),
        ("bare_analysis", "bandwidth", "The memory probe was not measured."),
        ("bare_analysis", "constants", "This run is not calibrated: it has no calibration.jsonl."),
        ("bare_analysis", "energy", None),
        ("bare_analysis", "gathered", None),
        ("bare_analysis", "llm-sweep", None),
        ("bare_analysis", "method-panel", "This run has no method panel."),
        ("bare_analysis", "missing", "Every planned point was measured."),
        ("bare_analysis", "points", "The plan of cast is empty."),
        ("bare_analysis", "prediction-errors", "Nothing was predicted in this run."),
    ],
)
def test_a_section_with_nothing_to_show_says_so_or_is_left_out(
    request: pytest.FixtureRequest, of: str, key: str, text: str | None
) -> None:
    analysis: Analysis = request.getfixturevalue(of)
    blocks = blocks_of(analysis, key)
    if key == "points":  # of its one op with points
        blocks = [block for block in blocks if not isinstance(block, Table)]
    assert all(isinstance(block, Prose) for block in blocks)
    told = [(block.text, block.quiet) for block in blocks]
    assert told[-1:] == ([(text, key not in ("audit", "missing"))] if text else [])
    if key != "points":
        files = [item for item in shown_by(analysis, key) if isinstance(item, CsvTable)]
        assert all(file.frame.empty for file in files)


@pytest.mark.parametrize(
    ("key", "op", "rows_left"),
    [
        ("bandwidth", "probe_copy", lambda frame: frame["method"] == "none"),
        ("latency", "gemm", lambda frame: frame["m"] == 64),
        ("method-panel", "gemm", standard_protocol),
        ("prediction-errors", "probe_copy", lambda frame: frame["repeat"] == 0),
        ("quality", "gemm", lambda frame: frame["status"] != "ok"),
        ("roofline", "cast", lambda frame: frame["repeat"] == 0),
        ("speedup", "gemm", lambda frame: frame["recipe"] == "bf16"),
    ],
)
def test_a_figure_without_points_of_its_own_is_left_out(
    analysis: Analysis, key: str, op: str, rows_left: Callable[[pd.DataFrame], Any]
) -> None:
    frame = analysis.frames[op]
    assert not shown_of(analysis, key, **{op: frame[rows_left(frame)]}).figures


def test_what_takes_other_machines_names_the_command() -> None:
    assert "'ops=[all_gather_matmul]'" in gathered.NOT_MEASURED
    assert "--config study=standard 'ops=[linear]'" in linear_accuracy.NOT_MEASURED
