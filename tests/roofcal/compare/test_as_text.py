"""The text of a comparison is short, and says what it leaves out."""

from pathlib import Path

from roofcal.compare.as_text import as_text
from roofcal.compare.comparison import compare
from roofcal.core.paths import RunFolder
from tests.roofcal.compare.made_up import measurement, point, write_run


def test_long_lists_are_cut_and_counted_and_missing_files_are_said(tmp_path: Path) -> None:
    points = [point(16 * i) for i in range(1, 40)]
    a = write_run(tmp_path / "a", [(point(), measurement(point(), [1.0, 1.0]))])
    b = write_run(tmp_path / "b", [(p, measurement(p, [1.0, 1.1])) for p in points])
    (a / "breakeven.csv").unlink()
    text = as_text(compare(RunFolder.at(a), RunFolder.at(b)))
    assert "only in B: 38\n" in text
    assert "  ... and 28 more (--json has all)\n" in text
    assert "break-even points that moved: unknown, because a run has none\n" in text
    assert "common shifts: none, too few points\n" in text
    assert "the environments are the same\n" in text
    assert text.endswith("no regression beyond 2.0%")
