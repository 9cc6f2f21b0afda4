"""reports/captions/<figure>.md: what a figure shows, how it was measured, with what spread.

A caption is a heading and plain paragraphs; `code` is the only mark-up.
"""

import re
from functools import cache
from html import escape
from pathlib import Path
from typing import Final

from roofcal.core.paths import CHECKOUT
from roofcal.report.data.loading import ReportError

FOLDER: Final = CHECKOUT / "reports" / "captions"


@cache
def caption(key: str, folder: Path = FOLDER) -> tuple[str, tuple[str, ...]]:
    """(title, paragraphs in HTML) of a figure; ReportError for a missing or headless file."""
    path = folder / f"{key}.md"
    if not path.is_file():
        raise ReportError(f"{path} is missing: every figure has a caption")
    head, *rest = re.split(r"\n\s*\n", path.read_text(encoding="utf-8").strip())
    if not head.startswith("# ") or not rest:
        raise ReportError(f"{path}: write '# title', an empty line, and what the figure shows")
    return head.removeprefix("# ").strip(), tuple(_paragraph(text) for text in rest)


def _paragraph(text: str) -> str:
    escaped = escape(" ".join(text.split()), quote=False)
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
