"""What the ops say about themselves, and what the report makes of an op that says nothing."""

from pathlib import Path

import pytest

from roofcal.ops import BY_NAME, FOLDERS
from roofcal.ops.page import OpPage
from roofcal.points.run import load_run
from roofcal.report.data import op_pages
from roofcal.report.data.analysis import analyse
from tests.roofcal.report.chapters import chapter_of
from tests.roofcal.report.synthetic import MadeUpRun, cast


def test_every_op_of_the_study_has_a_page_and_one_is_the_headline() -> None:
    assert all(op_pages.page_of(op).title for op in FOLDERS)
    assert op_pages.headline_op() == "gemm"
    assert op_pages.health_ops() == ["probe_launch", "probe_copy", "probe_math", "gemm"]


def test_ops_with_a_baseline_say_what_their_times_include() -> None:
    for op in BY_NAME.values():
        if op.baseline_recipe and op.role == "study":
            words = op_pages.caption_words(op.name)["time_includes"]
            includes_casts = op_pages.page_of(op.name).time_note in {"with casts", "whole block"}
            assert ("include" in words) == includes_casts
            assert words.endswith(".")


def test_a_name_of_no_op_has_the_default_page() -> None:
    assert op_pages.page_of("transpose") == OpPage()
    assert op_pages.caption_words("transpose") == {"title": "transpose", "time_includes": ""}


def test_constants_of_ops_links_and_the_device_are_told_apart() -> None:
    assert op_pages.constant_texts("gemm")["launch_s"].label == "Start of a product"
    assert op_pages.constant_texts("link")["latency_s"].label == "Latency over the link"
    device = op_pages.constant_texts("")
    assert list(device)[:2] == ["compute_units", "launch_graph_s"]
    assert device["dram_copy_bytes_per_s"].datasheet == "dram_bytes_per_s"
    assert op_pages.constant_texts("transpose") == {}


def test_an_op_without_a_page_is_reported_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = op_pages.page_of
    monkeypatch.setattr(op_pages, "page_of", lambda op: OpPage() if op == "cast" else whole(op))
    casts = MadeUpRun()
    for rows in (1024, 16384):
        casts.measure(cast(rows, 8192, "fp8_rowwise_dim0"))
    chapter = chapter_of(analyse(load_run(casts.write(tmp_path)), None))
    titles = {figure.title for figure in chapter.figures if figure.op == "cast"}
    assert "cast: achieved bandwidth" in titles
    assert "points-cast" in "".join(str(getattr(block, "id", "")) for block in chapter.blocks)
