"""The section on health: one sentence without a publication, two tables with one."""

from pathlib import Path

from roofcal.report.data.analysis import analyse
from roofcal.report.kit.blocks import Prose, Table
from roofcal.report.sections.health import FILE
from tests.roofcal.report.chapters import blocks_of
from tests.roofcal.report.pages import unpack
from tests.roofcal.report.sections.health.test_comparison import measured_run


def test_a_run_without_a_publication_has_no_section(tmp_path: Path) -> None:
    assert blocks_of(analyse(measured_run(tmp_path), None), "health") == []


def test_a_run_with_one_says_how_and_has_both_tables(tmp_path: Path) -> None:
    peer = measured_run(tmp_path / "published", suffix=".jsonl.gz")
    analysis = analyse(measured_run(tmp_path / "own", slower=1.2), None, peers=[peer])
    about, kinds, points = blocks_of(analysis, "health")
    assert isinstance(about, Prose)
    assert "of the same environment" in about.text
    assert isinstance(kinds, Table)
    assert isinstance(points, Table)
    assert (kinds.total, points.total) == (3, 31)
    assert kinds.source == points.source == FILE
    assert "power_cap" in kinds.body
    shown = unpack(points.packed)
    assert "4,096" not in shown
    assert "1,024 \N{MULTIPLICATION SIGN} 1,024" in shown


def test_the_section_says_that_the_publication_is_of_another_environment(tmp_path: Path) -> None:
    changed = {"torch": "2.10.0"}
    peer = measured_run(tmp_path / "published", environment=changed, suffix=".jsonl.gz")
    analysis = analyse(measured_run(tmp_path / "own"), None, peers=[peer])
    about, *_ = blocks_of(analysis, "health")
    assert isinstance(about, Prose)
    assert "which may cause a difference" in about.text
