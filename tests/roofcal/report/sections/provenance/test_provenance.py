"""Sessions, sources and commands."""

from dataclasses import replace

from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import Commands, Table
from roofcal.report.sections.provenance import sessions_table
from tests.roofcal.report.chapters import blocks_of
from tests.roofcal.report.synthetic import MadeUpRun


def test_sessions_say_when_where_and_by_which_command() -> None:
    (row,) = sessions_table([MadeUpRun().session("gemm")]).to_dict("records")

    assert row["started_utc"] == "2026-11-21 04:00:00"
    assert (row["commit"], row["code"], row["dirty"]) == ("0123456789ab", "fedcba987654", "no")
    assert row["command"] == "python -m roofcal measure --plan plan/gemm.jsonl"
    assert row["timing"] == '{"budget_s": 0.4}'


def test_a_checkout_without_git_is_unknown() -> None:
    session = replace(MadeUpRun().session("gemm"), git_commit=None, git_dirty=None)
    (row,) = sessions_table([session]).to_dict("records")
    assert (row["commit"], row["dirty"]) == (None, "unknown")


def test_the_section_has_sessions_sources_and_commands(analysis: Analysis) -> None:
    blocks = blocks_of(analysis, "provenance")
    assert [block.id for block in blocks if isinstance(block, Table)] == ["x-sessions", "x-sources"]
    assert isinstance(blocks[-1], Commands)
