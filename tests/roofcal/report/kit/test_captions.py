"""Every figure has a caption, and every caption belongs to a figure."""

import re
from pathlib import Path

import pytest

from roofcal.report.data.loading import ReportError
from roofcal.report.kit.captions import FOLDER, caption

FIGURES = FOLDER.parents[1] / "roofcal" / "report" / "sections"
KEYS = sorted(path.stem for path in FOLDER.glob("*.md"))


def test_captions_and_figures_belong_together() -> None:
    code = "".join(path.read_text() for path in FIGURES.rglob("*.py"))
    named = set(re.findall(r'"(\w+)"', code))
    assert [key for key in KEYS if key not in named] == []


@pytest.mark.parametrize("key", KEYS)
def test_a_caption_says_what_is_shown_and_how_it_was_measured(key: str) -> None:
    title, paragraphs = caption(key)
    assert 5 < len(title) < 80
    assert len(paragraphs) >= 2
    assert sum(map(len, paragraphs)) > 150


def test_code_is_marked_and_the_rest_escaped(tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text("# A title\n\nfirst\nline `a<b` & more\n\nsecond\n")
    assert caption("x", tmp_path) == (
        "A title",
        ("first line <code>a&lt;b</code> &amp; more", "second"),
    )


def test_a_missing_or_headless_caption_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"nothing\.md is missing"):
        caption("nothing", tmp_path)
    (tmp_path / "x.md").write_text("no title\n\ntext\n")
    with pytest.raises(ReportError, match=r"x\.md: write '# title'"):
        caption("x", tmp_path)
