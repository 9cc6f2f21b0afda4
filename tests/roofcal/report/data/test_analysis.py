"""The tables of a whole run, computed once."""

from pathlib import Path

from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse


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
    assert bare_analysis.constants.empty
    assert list(bare_analysis.quality["op"]) == ["gemm", "cast"]


def test_a_run_without_any_plan_is_empty(bare: Path, tmp_path: Path) -> None:
    (tmp_path / "environment.jsonl").write_bytes((bare / "environment.jsonl").read_bytes())

    nothing = analyse(load_run(tmp_path), None)

    assert nothing.points == nothing.ok == 0
    assert nothing.errors.empty
    assert nothing.quality.empty
