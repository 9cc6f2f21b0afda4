"""The section on health: one sentence without a publication, two tables with one."""

from pathlib import Path

from roofcal.report.data.analysis import analyse
from roofcal.report.kit.blocks import Prose, Table
from roofcal.report.kit.writer import Pen
from roofcal.report.sections.health.section import SOURCE, blocks
from tests.roofcal.report.sections.health.test_comparison import made


def test_a_run_without_a_publication_has_no_section(tmp_path: Path) -> None:
    assert list(blocks(Pen(analyse(made(tmp_path), None), "x", 0))) == []


def test_a_run_with_one_says_how_and_has_both_tables(tmp_path: Path) -> None:
    peer = made(tmp_path / "published", suffix=".jsonl.gz")
    analysis = analyse(made(tmp_path / "own", slower=1.2), None, peers=[peer])
    about, kinds, points = blocks(Pen(analysis, "x", 0))
    assert isinstance(about, Prose)
    assert "of the same environment" in about.text
    assert isinstance(kinds, Table)
    assert isinstance(points, Table)
    assert (kinds.total, points.total) == (3, 31)
    assert kinds.source == points.source == SOURCE
    assert "power_cap" in kinds.body
    assert "4,096" not in points.body
    assert "1,024 \N{MULTIPLICATION SIGN} 1,024" in points.body


def test_another_environment_is_said_to_be_another(tmp_path: Path) -> None:
    changed = {"torch": "2.10.0"}
    peer = made(tmp_path / "published", environment=changed, suffix=".jsonl.gz")
    about, *_ = blocks(Pen(analyse(made(tmp_path / "own"), None, peers=[peer]), "x", 0))
    assert isinstance(about, Prose)
    assert "a difference may be theirs" in about.text
