"""<section folder>/<figure>.md: what a figure shows, how it was measured, with what spread.

A caption is a heading and plain paragraphs; `code` is the only mark-up. It may name what differs
between ops in braces: `{{ time_includes }}`. The op's page has the words.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from roofcal.report.kit.templates import prose, render_file


class CaptionError(ValueError):
    """A caption that is missing or has no heading; the message says how to write it."""


def read_caption(path: Path, words: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """(title, paragraphs as HTML) of a figure; raises as caption_text."""
    title, text = caption_text(path, words)
    return title, tuple(map(prose, re.split(r"\n\s*\n", text)))


def caption_text(path: Path, words: Mapping[str, str]) -> tuple[str, str]:
    """(title, text below it) of a figure, as plain Markdown.

    Args:
        path: the Markdown file.
        words: what the names in braces stand for.

    Raises:
        CaptionError: the file is missing or does not begin with a heading.
    """
    if not path.is_file():
        raise CaptionError(f"{path} is missing: every figure has a caption")
    text = render_file(path, **words).strip()
    head, _, rest = text.partition("\n")
    if not head.startswith("# ") or not rest.strip():
        raise CaptionError(f"{path}: write '# title', an empty line, and what the figure shows")
    return head.removeprefix("# ").strip(), rest.strip()
