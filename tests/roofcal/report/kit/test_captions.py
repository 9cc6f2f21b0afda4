"""Every figure has a caption, and every caption belongs to a figure."""

import re
from pathlib import Path

import pytest

from roofcal.report.data.op_pages import caption_files, caption_words
from roofcal.report.kit.templates import CaptionError, read_caption

CAPTIONS = caption_files()
WORDS = caption_words("gemm")


@pytest.mark.parametrize("key", CAPTIONS)
def test_a_caption_says_what_is_shown_beside_the_code_that_draws_it(key: str) -> None:
    code = "".join(path.read_text() for path in CAPTIONS[key].parent.glob("*.py"))
    assert f'"{key}"' in code
    title, paragraphs = read_caption(CAPTIONS[key], WORDS)
    assert 5 < len(title) < 80
    assert len(paragraphs) >= 2
    assert sum(map(len, paragraphs)) > 150


def test_code_is_marked_and_the_rest_escaped(tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text("# A title\n\nfirst\nline `a<b` & more\n\nsecond\n")
    assert read_caption(tmp_path / "x.md", {}) == (
        "A title",
        ("first line <code>a&lt;b</code> &amp; more", "second"),
    )


def test_a_missing_or_headless_caption_is_named(tmp_path: Path) -> None:
    with pytest.raises(CaptionError, match=r"nothing\.md is missing"):
        read_caption(tmp_path / "nothing.md", {})
    (tmp_path / "x.md").write_text("no title\n\ntext\n")
    with pytest.raises(CaptionError, match=r"x\.md: write '# title'"):
        read_caption(tmp_path / "x.md", {})


def test_a_caption_says_of_an_op_what_its_page_says(tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text("# {{ title }} <here>\n\nTimes. {{ time_includes }}\n")
    title, (paragraph,) = read_caption(tmp_path / "x.md", caption_words("linear"))
    assert title == "Linears <here>"
    assert "include the casts" in paragraph
    _, (plain,) = read_caption(tmp_path / "x.md", caption_words("an op without a page"))
    assert plain == "Times."


@pytest.mark.parametrize("key", ["speedup_cubes", "speedup_by_shape", "speedup_by_tokens"])
@pytest.mark.parametrize("op", ["linear", "norm_linear_sigmoid"])
def test_captions_of_linears_do_not_exclude_the_cast(key: str, op: str) -> None:
    """The captions said "Times exclude the cast" for every op, also for those that include it."""
    _, paragraphs = read_caption(CAPTIONS[key], caption_words(op))
    text = " ".join(paragraphs)
    assert "exclude" not in text
    assert re.search(r"include .*\bcasts of x, w and the gradient", text)
    _, others = read_caption(CAPTIONS[key], WORDS)
    assert "Times exclude the casts" in " ".join(others)
